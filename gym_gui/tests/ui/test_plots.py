"""Curves: what is kept, what is drawn of it, and that drawing millions of points leaves the event loop its time."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PyQt6.QtCore import QEvent, QPointF, Qt, QTimer
from PyQt6.QtGui import QMouseEvent
from PyQt6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from gym_gui.services.file_names import safe_file_name
from gym_gui.services.seed_groups import seed_group
from gym_gui.ui.plots.aggregate import aggregate
from gym_gui.ui.plots.axis_text import seconds_text, steps_text
from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.plots.decimate import BLOCK, BlockExtremes, decimate
from gym_gui.ui.plots.drawing import Curve, PlotOptions, draw, value_at
from gym_gui.ui.plots.export import HEADER, snapshots, write_csv
from gym_gui.ui.plots.images import write_png, write_svg
from gym_gui.ui.plots.plot_grid import PlotGrid
from gym_gui.ui.plots.run_metrics import MetricBatch, RunMetrics, decode_batch
from gym_gui.ui.plots.series_buffer import Floats, SeriesBuffer
from gym_gui.ui.plots.smoothing import Smoothed, smooth
from gym_gui.ui.plots.tags import grouped, title_of
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.frame_view import FrameView
from mosaic_protocol import events

HANG = 60_000
RETURN = "charts/episodic_return"


def filled(values: Floats, steps: Floats | None = None, tag: str = RETURN, run_id: str = "run") -> RunMetrics:
    metrics = RunMetrics(run_id)
    at = np.arange(1.0, len(values) + 1) if steps is None else steps
    metrics.take(MetricBatch(1, {tag: (at, 1000.0 + at / 10, values)}))
    return metrics


def curve(*members: RunMetrics, key: str = "curve", colour: int = 0) -> Curve:
    return Curve(key, key, colour, members)


@pytest.fixture
def themes(qapp: QApplication) -> Themes:
    return Themes(qapp)


def test_curves_and_stage_import_nothing_heavy() -> None:
    code = (
        "import sys; import gym_gui.ui.panels.metrics_panel, gym_gui.ui.panels.stage; "
        "print([name for name in ('torch', 'gymnasium', 'matplotlib', 'scipy', 'tensorboard') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_what_is_done_with_points_needs_no_qt() -> None:
    names = ("series_buffer", "decimate", "smoothing", "aggregate", "export", "run_metrics", "drawing", "run_curves")
    imports = "; ".join(f"import gym_gui.ui.plots.{name}" for name in names)
    code = f"import sys; {imports}; print([name for name in sys.modules if name.startswith('PyQt6')])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


# ---- buffers -----------------------------------------------------------------------------------------------------


def test_a_buffer_gives_back_what_was_appended_in_pieces() -> None:
    buffer, values = SeriesBuffer(), np.random.default_rng(0).normal(size=10_000)
    for part in np.array_split(np.arange(10_000.0), 37):
        rows = part.astype(int)
        buffer.append(part, part + 5, values[rows])
    assert np.array_equal(buffer.steps, np.arange(10_000.0))
    assert np.array_equal(buffer.wall_times, np.arange(10_000.0) + 5)
    assert np.array_equal(buffer.values, values)
    assert buffer.rewrites == 0


def test_steps_that_come_late_are_put_where_they_belong() -> None:
    buffer = SeriesBuffer()
    for step in (1.0, 5.0, 9.0, 3.0, 5.0):
        buffer.append(np.array([step]), np.array([0.0]), np.array([10 * step + buffer.version]))
    assert buffer.steps.tolist() == [1, 3, 5, 5, 9]
    assert buffer.values.tolist() == [10, 33, 51, 54, 92]
    assert buffer.rewrites == 2


def test_a_full_buffer_grows_no_more_and_keeps_lows_and_highs() -> None:
    buffer, values = SeriesBuffer(most=1000), np.zeros(20_000)
    values[9_999], values[4_321], values[100:140] = 7.0, -7.0, np.nan
    for begin in range(0, 20_000, 90):
        at = np.arange(begin, min(begin + 90, 20_000), dtype=float)
        buffer.append(at, at, values[begin : begin + 90])
    assert len(buffer) <= 1000 and len(buffer) + buffer.thinned == 20_000
    assert np.all(np.diff(buffer.steps) > 0) and buffer.steps[-1] == 19_999
    assert sorted(buffer.values[np.nan_to_num(buffer.values) != 0].tolist()) == [-7, 7]
    assert np.array_equal(buffer.steps, buffer.wall_times)


def test_more_than_a_buffer_holds_may_come_at_once() -> None:
    buffer = SeriesBuffer(most=100)
    buffer.append(np.arange(1000.0), np.arange(1000.0), np.arange(1000.0))
    assert len(buffer) <= 100 and buffer.values.min() == 0 and buffer.values.max() == 999


def test_of_points_that_stand_for_many_episodes_the_run_says_the_newest_mean_itself() -> None:
    plain = filled(np.array([0.0] * 50 + [1.0] * 100))
    assert plain.recent_episodes(RETURN) == 1.0 and plain.recent_episodes("charts/episodic_length") is None
    at, returns = np.array([1.0, 2.0]), np.array([0.2, 0.4])
    many = RunMetrics("run")
    many.take(MetricBatch(1, {RETURN: (at, at, returns), "charts/mean_return": (at, at, np.array([0.5, 0.75]))}))
    assert many.recent_episodes(RETURN) == 0.75


def test_series_of_one_run_are_not_thinned_in_the_same_moment() -> None:
    metrics = RunMetrics("run", most=1000)
    for step in range(1, 1001):
        at = np.array([float(step)])
        metrics.take(MetricBatch(step, {f"tag/{number}": (at, at, at) for number in range(6)}))
    assert len({len(series.buffer) for series in metrics.series.values()}) > 1


# ---- decimation --------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40_000), st.integers(1, 60), st.integers(0, 10_000), st.booleans())
def test_decimation_loses_no_extreme_and_invents_nothing(count: int, bins: int, seed: int, with_blocks: bool) -> None:
    generator = np.random.default_rng(seed)
    x, y = np.sort(generator.uniform(0, 100, count)), generator.normal(size=count)
    y[generator.random(count) < 0.1] = np.nan
    blocks = BlockExtremes()
    for part in (count // 3, count):
        blocks.follow(y[:part], "y")
    shown_x, shown_y = decimate(x, y, x[0], x[-1], bins, blocks=blocks if with_blocks else None)
    assert len(shown_x) == len(shown_y) <= 2 * bins + 2 * BLOCK + 2
    assert np.all(np.diff(shown_x) >= 0) and shown_x[0] == x[0] and shown_x[-1] == x[-1]
    if np.isfinite(y).any():
        assert np.nanmin(shown_y) == np.nanmin(y) and np.nanmax(shown_y) == np.nanmax(y)
    assert np.isin(shown_y[np.isfinite(shown_y)], y).all()


def test_a_zoomed_view_shows_every_point_and_runs_to_its_edges() -> None:
    x = np.arange(1_000_000.0)
    shown_x, shown_y = decimate(x, x * 2, 500_000.5, 500_100.5, 1200)
    assert shown_x.tolist() == list(range(500_000, 500_102)) and np.array_equal(shown_y, shown_x * 2)


def test_on_a_logarithmic_axis_early_steps_have_their_share() -> None:
    x = np.arange(1.0, 1_000_001)
    shown_x, _ = decimate(x, x, 1, 1_000_000, 100, logarithmic=True)
    assert np.count_nonzero(shown_x <= 1000) >= 50


# ---- smoothing ---------------------------------------------------------------------------------------------------


def plainly_smoothed(values: Floats, weight: float) -> list[float]:
    total = count = 0.0
    smoothed = []
    for value in values:
        known = math.isfinite(value)
        total, count = weight * total + (value if known else 0.0), weight * count + known
        smoothed.append(total / count if count else math.nan)
    return smoothed


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("count", [1, 2, 100, 70_000])
def test_smoothing_is_what_the_loop_would_give(weight: float, count: int) -> None:
    values = np.random.default_rng(count).normal(size=count) * 100
    values[count // 3 : count // 3 + 2] = np.nan
    assert smooth(values, weight) == pytest.approx(plainly_smoothed(values, weight), nan_ok=True, rel=1e-9, abs=1e-9)


def test_a_growing_series_is_smoothed_as_if_it_had_been_whole() -> None:
    buffer, values = SeriesBuffer(), np.random.default_rng(1).normal(size=5000)
    smoothed = Smoothed(buffer)
    for part in np.array_split(np.arange(5000.0), 23):
        buffer.append(part, part, values[part.astype(int)])
        smoothed.values(0.9)
        assert np.array_equal(smoothed.values(0.0), buffer.values)
    assert smoothed.values(0.9) == pytest.approx(smooth(values, 0.9))
    buffer.append(np.array([10.5]), np.array([0.0]), np.array([1e6]))
    assert smoothed.values(0.9) == pytest.approx(smooth(buffer.values, 0.9))


def test_a_flat_curve_stays_exactly_flat() -> None:
    assert set(smooth(np.full(10_000, 0.1), 0.97).tolist()) == {0.1}


# ---- seeds -------------------------------------------------------------------------------------------------------


def test_the_interval_over_seeds_is_students() -> None:
    x = np.arange(0.0, 100)
    band = aggregate([(x, np.full(100, value)) for value in (1.0, 2.0, 6.0)], 0, 99, grid=10)
    spread = np.std([1, 2, 6], ddof=1) / np.sqrt(3)
    assert band.mean == pytest.approx(np.full(10, 3.0))
    assert band.high - band.mean == pytest.approx(np.full(10, 4.303 * spread))
    assert band.mean - band.low == pytest.approx(np.full(10, 4.303 * spread))


def test_where_only_one_seed_got_there_is_a_mean_without_an_interval() -> None:
    band = aggregate([(np.array([0.0, 49]), np.array([1.0, 1])), (np.array([0.0, 100]), np.array([3.0, 3]))], 0, 100, 4)
    assert band.mean.tolist() == [2, 2, 3, 3]
    assert np.isfinite(band.low[:2]).all() and np.isnan(band.low[2:]).all()


def test_more_seeds_narrow_the_interval() -> None:
    x, generator = np.arange(10.0), np.random.default_rng(0)
    widths = []
    for seeds in (2, 5, 20, 200):
        band = aggregate([(x, np.full(10, value)) for value in generator.normal(size=seeds)], 0, 9, 3)
        widths.append(float((band.high - band.low)[0]))
    assert widths[-1] < 0.5 and widths[-1] < widths[1] < widths[0]


def config(**settings: object) -> str:
    worker = {"type": "toy", "module": "toy", "config": settings}
    return json.dumps({"run_name": f"run of {settings}", "metadata": {"worker": worker, "notes": str(settings)}})


def test_only_runs_that_differ_in_nothing_but_the_seed_are_one_experiment() -> None:
    first = seed_group("a", config(algo="ppo", seed=1, extras={"algo_params": {"seed": 1}}))
    assert first == seed_group("b", config(algo="ppo", seed=2, extras={"algo_params": {"seed": 2}}))
    assert first != seed_group("c", config(algo="dqn", seed=1, extras={"algo_params": {"seed": 1}}))
    assert seed_group("d", "not json") != seed_group("e", "not json")


# ---- rows --------------------------------------------------------------------------------------------------------


def test_rows_are_decoded_by_tag_and_what_is_unreadable_is_counted() -> None:
    rows = [
        events.encode(events.MetricRow(step=1, values={"a": 1.0, "b": None}, seq=1, t=5.0)),
        b"not a row",
        b'{"kind":"metric","v":99,"step":2,"values":{"a":3.0}}',
        events.encode(events.MetricRow(step=2, values={"a": 2.0}, seq=2, t=6.0)),
    ]
    batch = decode_batch(17, rows)
    assert batch.last_row == 17 and batch.unreadable == 2
    assert [column.tolist() for column in batch.columns["a"]] == [[1, 2], [5, 6], [1, 2]]
    assert math.isnan(batch.columns["b"][2][0])


def test_time_counts_from_the_first_point_of_the_run() -> None:
    metrics = filled(np.zeros(3), np.array([10.0, 20, 30]))
    assert metrics.x(RETURN, "time") == pytest.approx([0, 1, 2])
    assert metrics.x(RETURN).tolist() == [10, 20, 30]


def test_metrics_are_grouped_with_the_headlines_in_front() -> None:
    tags = ["losses/value_loss", "charts/learning_rate", "charts/SPS", RETURN, "eval/x", "loose", "losses/a"]
    assert grouped(tags) == {
        "charts": [RETURN, "charts/SPS", "charts/learning_rate"],
        "losses": ["losses/a", "losses/value_loss"],
        "eval": ["eval/x"],
        "other": ["loose"],
    }
    assert grouped(tags, "LOSS value") == {"losses": ["losses/value_loss"]}
    assert title_of("losses/value_loss") == "Value loss" and title_of("charts/SPS") == "Steps per second"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (steps_text(250_000, 50_000), "250k"),
        (steps_text(1_500_000, 500_000), "1.5M"),
        (steps_text(0, 10), "0"),
        (steps_text(1_000_500, 500), "1.0005M"),
        (seconds_text(200, 10), "3m 20s"),
        (seconds_text(7500, 60), "2h 05m"),
        (seconds_text(0.25, 0.05), "0.25s"),
    ],
)
def test_axes_speak_short(text: str, expected: str) -> None:
    assert text == expected


# ---- drawings ----------------------------------------------------------------------------------------------------


def test_the_raw_curve_stays_behind_the_smoothed_one() -> None:
    values = np.random.default_rng(0).normal(size=100)
    drawing = draw(curve(filled(values)), RETURN, 1, 100, PlotOptions(smoothing=0.9))
    assert drawing is not None and drawing.faint is not None
    assert np.array_equal(drawing.faint[1], values) and drawing.y == pytest.approx(smooth(values, 0.9))


def test_what_has_no_logarithm_is_a_gap() -> None:
    drawing = draw(curve(filled(np.array([-1.0, 0.0, 10.0, 100.0]))), RETURN, 1, 4, PlotOptions(log_y=True))
    assert drawing is not None
    assert np.isnan(drawing.y[:2]).all() and drawing.y[2:].tolist() == [1, 2]


def test_the_cursor_shows_the_nearest_point_and_nothing_beyond_the_ends() -> None:
    one = curve(filled(np.array([1.0, 2.0, np.nan, 4.0]), np.array([10.0, 20, 30, 40])))
    assert value_at(one, RETURN, 13, PlotOptions()) == 1 and value_at(one, RETURN, 18, PlotOptions()) == 2
    assert value_at(one, RETURN, 30, PlotOptions()) is None and value_at(one, RETURN, 41, PlotOptions()) is None
    seeds = curve(filled(np.full(5, 1.0)), filled(np.full(5, 3.0)))
    assert value_at(seeds, RETURN, 3, PlotOptions()) == pytest.approx(2)


# ---- export ------------------------------------------------------------------------------------------------------


def test_a_table_has_every_point_once(tmp_path: Path) -> None:
    metrics = filled(np.array([1.5, np.nan]), run_id="01ABC")
    file = tmp_path / "out.csv"
    assert write_csv(file, snapshots([(metrics, "my run")], [RETURN, "charts/absent"])) == 2
    with file.open() as lines:
        rows = list(csv.reader(lines))
    assert tuple(rows[0]) == HEADER
    assert rows[1] == ["01ABC", "my run", RETURN, "1", "1000.1", "0.0", "1.5"]
    assert rows[2][3] == "2" and rows[2][-1] == ""
    assert list(tmp_path.iterdir()) == [file]


def test_a_tag_never_becomes_a_path() -> None:
    assert safe_file_name("../../etc/passwd") == "etc-passwd"
    assert safe_file_name("charts/SPS") == "charts-SPS" and safe_file_name("//") == "curve"
    assert safe_file_name("ü" * 1000 + "-end") == "ü" * 58 + "-end"


def test_pictures_are_written_as_pixels_and_as_lines(qtbot: QtBot, themes: Themes, tmp_path: Path) -> None:
    plot = CurvePlot(RETURN, themes)
    qtbot.addWidget(plot)
    plot.resize(300, 200)
    plot.set_curves([curve(filled(np.arange(50.0)), key="my run")])
    write_png(tmp_path / "a.png", plot, "Return", themes.theme)
    write_svg(tmp_path / "a.svg", plot, "Return", themes.theme)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "a.svg").read_text()
    assert "my run" in drawn
    assert "<path" in drawn or "<polyline" in drawn
    with pytest.raises(OSError, match="could not be written"):
        write_png(tmp_path / "absent" / "a.png", plot, "Return", themes.theme)


# ---- plots -------------------------------------------------------------------------------------------------------


@pytest.fixture
def plot(qtbot: QtBot, themes: Themes) -> CurvePlot:
    plot = CurvePlot(RETURN, themes)
    qtbot.addWidget(plot)
    plot.resize(400, 250)
    plot.show()
    qtbot.waitExposed(plot)
    return plot


def drawn_points(plot: CurvePlot, key: str = "curve") -> tuple[Floats, Floats]:
    line = plot._items[key].line
    return line.xData, line.yData


def test_a_single_point_is_drawn_as_a_dot(plot: CurvePlot) -> None:
    """Of a run that was judged once: a line of one point is nothing on the screen."""
    for values, seen in (([365.6], 1), ([365.6, 400.0], 0)):
        plot.set_curves([curve(filled(np.array(values)), key=str(len(values)))])
        plot.refresh()
        assert len(plot._items[str(len(values))].dot.data) == seen


def test_a_plot_is_redrawn_only_when_something_is_new(plot: CurvePlot) -> None:
    metrics = filled(np.arange(100.0))
    plot.set_curves([curve(metrics)])
    assert plot.refresh() and not plot.refresh()
    at = np.array([101.0])
    metrics.take(MetricBatch(2, {"other": (at, at, at)}))
    assert not plot.refresh()
    metrics.take(MetricBatch(3, {RETURN: (at, at, at)}))
    assert plot.refresh() and drawn_points(plot)[0][-1] == 101


def test_a_single_point_is_seen_as_a_dot_until_a_second_one_comes(plot: CurvePlot) -> None:
    metrics = filled(np.array([423.0]))
    plot.set_curves([curve(metrics)])
    assert plot.refresh()
    dot = plot._items["curve"].dot
    assert [(x, y) for x, y in zip(*dot.getData(), strict=True)] == [(1.0, 423.0)]
    at = np.array([2.0])
    metrics.take(MetricBatch(2, {RETURN: (at, at, at)}))
    assert plot.refresh() and len(drawn_points(plot)[0]) == 2
    assert not len(dot.data)


def test_nothing_is_drawn_while_it_is_hidden(plot: CurvePlot) -> None:
    plot.set_curves([curve(filled(np.arange(100.0)))])
    plot.hide()
    assert not plot.refresh()
    plot.show()
    assert plot.refresh()


def test_zooming_in_brings_full_resolution_and_resetting_everything(plot: CurvePlot) -> None:
    plot.set_curves([curve(filled(np.random.default_rng(0).normal(size=300_000)))])
    plot.refresh()
    assert len(drawn_points(plot)[0]) < 3000
    plot.zoom_to(1000, 1100)
    plot.refresh()
    assert plot.is_zoomed and drawn_points(plot)[0].tolist() == list(range(999, 1102))
    plot.reset_view()
    plot.refresh()
    assert not plot.is_zoomed and drawn_points(plot)[0][-1] == 300_000


def test_a_curve_that_was_away_for_a_moment_is_drawn_again(plot: CurvePlot) -> None:
    metrics = filled(np.arange(100.0))
    plot.set_curves([curve(metrics, key="mine")])
    assert plot.refresh() and plot.has_points
    plot.set_curves([curve(filled(np.arange(50.0)), key="another")])
    plot.set_curves([curve(metrics, key="mine")])  # before anything was drawn of the other
    assert plot.refresh() and plot.has_points


def test_a_view_that_was_not_zoomed_follows_the_curve(plot: CurvePlot, qtbot: QtBot) -> None:
    metrics = filled(np.arange(100.0))
    plot.set_curves([curve(metrics)])
    plot.refresh()
    at = np.array([1000.0])
    metrics.take(MetricBatch(2, {RETURN: (at, at, at)}))
    plot.refresh()
    assert plot.getViewBox().viewRange()[0][1] >= 1000


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, -0.5, 0.5), (500.0, 450.0, 550.0), (-2.0, -2.2, -1.8)])
def test_values_that_are_all_the_same_are_seen_close(plot: CurvePlot, value: float, low: float, high: float) -> None:
    """Also after a curve that reached far."""
    plot.set_curves([curve(filled(np.linspace(-50.0, 50.0, 20)))])
    plot.refresh(unseen=True)
    plot.set_curves([curve(filled(np.full(20, value)), key="flat")])
    plot.refresh(unseen=True)
    seen = plot.getViewBox().viewRange()[1]
    assert seen == pytest.approx([low, high], abs=0.1 * (high - low))


def test_gaps_and_logarithmic_axes_draw_without_a_warning(plot: CurvePlot, qtbot: QtBot) -> None:
    values = np.array([-1.0, np.nan, 5.0, 50.0, np.nan, 500.0])
    plot.set_curves(
        [curve(filled(values), filled(values + 1), key="seeds"), curve(filled(values), key="one", colour=1)]
    )
    for options in (
        PlotOptions(log_y=True),
        PlotOptions(log_x=True, smoothing=0.5),
        PlotOptions(log_x=True, log_y=True, x="time"),
        PlotOptions(x="time", smoothing=0.9),
    ):
        plot.set_options(options)
        plot.refresh()
        plot.show_cursor(3.0, readout=True)
        assert not plot.grab().isNull() and plot.has_points


def test_switching_to_logarithmic_axes_with_large_numbers_on_show_paints_without_an_error(
    plot: CurvePlot, qtbot: QtBot
) -> None:
    plot.set_curves([curve(filled(np.linspace(0, 9600, 500)))])
    with qtbot.captureExceptions() as problems:
        for options in (PlotOptions(), PlotOptions(log_y=True, log_x=True), PlotOptions(), PlotOptions(log_y=True)):
            plot.refresh()
            plot.set_options(options)
            assert not plot.grab().isNull()
    assert problems == []


def test_colours_follow_the_theme(plot: CurvePlot, themes: Themes) -> None:
    plot.set_curves([curve(filled(np.arange(10.0)), colour=2)])
    before = plot._items["curve"].line.opts["pen"].color().name()
    themes.use("light" if themes.theme.name == "dark" else "dark")
    after = plot._items["curve"].line.opts["pen"].color().name()
    assert before != after == themes.theme.curve(2).name()
    assert plot.backgroundBrush().color().name() == themes.theme.panel
    themes.use("dark")


def test_moving_over_a_plot_shows_where_one_is_and_what_is_there(plot: CurvePlot) -> None:
    plot.set_curves([curve(filled(np.arange(100.0)), key="my run")])
    plot.refresh()
    told: list[float | None] = []
    plot.cursor_moved.connect(told.append)
    plot.cursor_moved.connect(lambda x: plot.show_cursor(x, readout=True))
    middle = QPointF(plot.viewport().rect().center())
    none = Qt.MouseButton.NoButton
    move = QMouseEvent(QEvent.Type.MouseMove, middle, middle, none, none, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(plot.viewport(), move)
    assert told and told[-1] is not None and 30 < told[-1] < 70
    assert plot._readout.isVisible() and "my run" in plot._readout.text()
    QApplication.sendEvent(plot, QEvent(QEvent.Type.Leave))
    assert told[-1] is None and not plot._readout.isVisible()


# ---- the grid ----------------------------------------------------------------------------------------------------


@pytest.fixture
def scroll(qtbot: QtBot) -> QScrollArea:
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    qtbot.addWidget(scroll)
    scroll.resize(800, 500)
    scroll.show()
    return scroll


def grid_in(scroll: QScrollArea, themes: Themes, metrics: RunMetrics) -> PlotGrid:
    grid = PlotGrid(themes)
    scroll.setWidget(grid)
    grid.set_curves([curve(metrics)])
    return grid


def test_the_grid_has_a_plot_for_each_metric_and_takes_up_new_ones(
    qtbot: QtBot, themes: Themes, scroll: QScrollArea
) -> None:
    metrics = filled(np.arange(10.0))
    grid = grid_in(scroll, themes, metrics)
    qtbot.waitUntil(lambda: list(grid.cards) == [RETURN], timeout=HANG)
    at = np.array([1.0])
    metrics.take(MetricBatch(2, dict.fromkeys(("losses/b", "losses/a", "charts/SPS"), (at, at, at))))
    grid.set_curves([curve(metrics)])
    qtbot.waitUntil(lambda: list(grid.cards) == [RETURN, "charts/SPS", "losses/a", "losses/b"], timeout=HANG)
    grid.set_wanted("loss")
    assert list(grid.cards) == ["losses/a", "losses/b"]


def test_a_plot_that_is_scrolled_away_is_drawn_when_it_is_seen(
    qtbot: QtBot, themes: Themes, scroll: QScrollArea
) -> None:
    metrics = RunMetrics("run")
    at = np.arange(1.0, 50)
    metrics.take(MetricBatch(1, {f"losses/{number:02d}": (at, at, at) for number in range(12)}))
    grid = grid_in(scroll, themes, metrics)
    qtbot.waitUntil(lambda: len(grid.cards) == 12, timeout=HANG)
    first, last = grid.cards["losses/00"].plot, grid.cards["losses/11"].plot
    qtbot.waitUntil(lambda: first.has_points, timeout=HANG)
    assert not last.has_points
    bar = scroll.verticalScrollBar()
    assert bar is not None

    def seen_at_the_end() -> bool:
        bar.setValue(bar.maximum())  # which grows while the plots are laid out
        return last.has_points

    qtbot.waitUntil(seen_at_the_end, timeout=HANG)


def test_a_hidden_grid_has_no_timer_running(themes: Themes, scroll: QScrollArea) -> None:
    grid = grid_in(scroll, themes, filled(np.arange(10.0)))
    assert grid._timer.isActive()
    grid.hide()
    assert not grid._timer.isActive()


def test_streaming_into_six_plots_of_a_million_points_leaves_the_event_loop_its_time(
    qtbot: QtBot, themes: Themes, scroll: QScrollArea
) -> None:
    """A generous guard; `benchmarks/cockpit_streaming.py` measures."""
    metrics, at = RunMetrics("run"), np.arange(1.0, 1_000_001)
    for begin in range(0, len(at), 250_000):
        part = at[begin : begin + 250_000]
        metrics.take(MetricBatch(1, {f"charts/{number}": (part, part, np.sin(part)) for number in range(6)}))
    grid = grid_in(scroll, themes, metrics)
    grid.set_options(PlotOptions(smoothing=0.9))
    view = FrameView()
    qtbot.addWidget(view)
    view.show()
    seen = lambda: [card.plot for card in grid.cards.values() if card.plot.is_seen]  # noqa: E731
    qtbot.waitUntil(lambda: len(grid.cards) == 6 and all(plot.has_points for plot in seen()), timeout=HANG)
    beats: list[float] = []
    frame = np.zeros((400, 600, 3), np.uint8)

    def beat() -> None:
        beats.append(time.perf_counter())
        view.show_frame(frame)
        step = np.array([1_000_000.0 + len(beats)])
        metrics.take(MetricBatch(1, {f"charts/{number}": (step, step, step) for number in range(6)}))

    timer = QTimer()
    timer.timeout.connect(beat)
    timer.start(20)
    painted = view.paints
    qtbot.waitUntil(lambda: len(beats) >= 100, timeout=HANG)
    timer.stop()
    assert max(np.diff(beats)) < 2.0
    assert view.paints - painted >= 20


# ---- frames ------------------------------------------------------------------------------------------------------


def test_the_newest_frame_is_painted_and_those_between_are_counted(qtbot: QtBot) -> None:
    view = FrameView()
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show()
    qtbot.waitExposed(view)
    for brightness in (10, 20, 200):
        view.show_frame(np.full((400, 600, 3), brightness, np.uint8))
    qtbot.waitUntil(lambda: view.grab().toImage().pixelColor(300, 200).red() == 200, timeout=HANG)
    assert view.skipped == 2
    view.resize(300, 400)
    image = view.grab().toImage()
    assert image.pixelColor(150, 200).red() == 200 and image.pixelColor(150, 5).red() != 200


def test_words_stand_where_a_picture_will_be_and_go_with_it(qtbot: QtBot) -> None:
    view = FrameView()
    qtbot.addWidget(view)
    view.resize(300, 200)
    nothing = view.grab().toImage()
    view.words = "The environment is being started…"
    assert view.grab().toImage() != nothing
    view.show_frame(np.full((200, 300, 3), 200, np.uint8))
    image = view.grab().toImage()
    assert {image.pixelColor(x, y).red() for x in range(0, 300, 3) for y in range(90, 110)} == {200}


def test_a_frame_of_another_shape_is_refused(qtbot: QtBot) -> None:
    view = FrameView()
    qtbot.addWidget(view)
    with pytest.raises(ValueError, match="height x width x 3"):
        view.show_frame(np.zeros((4, 4), np.uint8))


def test_axes_have_no_numbers_while_there_is_nothing_to_see(themes: Themes, qtbot: QtBot) -> None:
    """Those of the run that was looked at before would be taken for this one's."""
    plot = CurvePlot(RETURN, themes)
    qtbot.addWidget(plot)
    axes = [plot.getPlotItem().getAxis(side) for side in ("bottom", "left")]
    assert [axis.opacity() for axis in axes] == [0.0, 0.0]
    for curves, seen in (
        ([], 0.0),
        ([curve(filled(np.arange(5.0)))], 1.0),
        ([curve(RunMetrics("new"), key="new")], 0.0),
    ):
        plot.set_curves(curves)
        plot.refresh(unseen=True)
        assert [axis.opacity() for axis in axes] == [seen, seen]
