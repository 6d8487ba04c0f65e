"""Live metrics against a real daemon: every row once, whatever happens to the daemon, and nobody followed in vain."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PyQt6 import sip
from PyQt6.QtCore import QObject
from PyQt6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from gym_gui.services.trainer.client import ClientError
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.metrics_store import KEPT_RUNS, MOST_RUNS, MetricsStore, metric_batches
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.parts import Part, Place
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 60_000
RETURN = "charts/episodic_return"


def opened(make_cockpit: MakeCockpit, daemon: DaemonProcess | None) -> tuple[CockpitApp, MetricsPanel]:
    cockpit = make_cockpit(daemon, parts=[Part("metrics", "Metrics", Place.RIGHT, MetricsPanel)])
    panel = cockpit.window.findChild(MetricsPanel)
    assert panel is not None
    return cockpit, panel


def store_of(cockpit: CockpitApp) -> MetricsStore:
    return MetricsStore.of(cockpit.bridge)


def points(store: MetricsStore, run_id: str, tag: str = RETURN) -> list[float]:
    metrics = store.metrics(run_id)
    return [] if metrics is None or tag not in metrics.series else metrics.series[tag].buffer.values.tolist()


def select(cockpit: CockpitApp, *run_ids: str) -> None:
    cockpit.window.cockpit.selection.select(run_ids)


def known(qtbot: QtBot, cockpit: CockpitApp, *run_ids: str) -> None:
    runs = cockpit.window.cockpit.runs
    qtbot.waitUntil(lambda: all(runs.get(run_id) is not None for run_id in run_ids), timeout=HANG)


# ---- the store ---------------------------------------------------------------------------------------------------


def test_history_and_what_comes_afterwards_arrive_once_each(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=120, step_seconds=0.001, gate=str(gate), gate_at=61)
    daemon.wait_state(run_id, "EXEC")
    cockpit, _ = opened(make_cockpit, daemon)
    store = store_of(cockpit)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: len(points(store, run_id)) == 60, timeout=HANG)
    gate.touch()
    qtbot.waitUntil(lambda: len(points(store, run_id)) == 120, timeout=HANG)
    qtbot.waitUntil(lambda: store.followed == [], timeout=HANG)
    assert points(store, run_id) == [float(step) for step in range(1, 121)]
    metrics = store.metrics(run_id)
    assert metrics is not None and metrics.complete


@pytest.mark.parametrize("politely", [True, False])
def test_a_daemon_that_goes_and_comes_back_loses_and_doubles_no_row(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path, politely: bool
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=200, step_seconds=0.001, gate=str(gate), gate_at=101)
    cockpit, _ = opened(make_cockpit, daemon)
    store = store_of(cockpit)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: len(points(store, run_id)) == 100, timeout=HANG)
    daemon.terminate() if politely else daemon.kill()
    daemon.start()
    gate.touch()
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: len(points(store, run_id)) == 200, timeout=HANG)
    assert points(store, run_id) == [float(step) for step in range(1, 201)]


class LeavingDaemon:
    """One that ends its streams in good order while the run goes on."""

    def __init__(self, state: str) -> None:
        self._run = pb.Run(state=state)

    def stream(self, kind: str, run_id: str, *, after_row: int, follow: bool) -> Iterator[pb.RecordPage]:
        if after_row < 7:
            yield pb.RecordPage(records=[], last_row=7)

    def run(self, run_id: str) -> pb.Run:
        return self._run


def test_a_stream_that_ends_before_its_run_is_taken_up_again() -> None:
    stream = metric_batches("r", 0)(LeavingDaemon("EXEC"), 0)  # type: ignore[arg-type]
    assert next(stream)[0] == 7
    with pytest.raises(ClientError) as refused:
        next(stream)
    assert refused.value.status == "UNAVAILABLE"
    assert [cursor for cursor, _ in metric_batches("r", 0)(LeavingDaemon("TERM"), 0)] == [7]  # type: ignore[arg-type]
    assert list(metric_batches("r", 7)(LeavingDaemon("TERM"), 0)) == []  # type: ignore[arg-type]


def test_a_run_is_followed_while_anybody_looks_and_read_on_from_where_it_was(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=40, step_seconds=0.001, gate=str(gate), gate_at=21)
    cockpit = make_cockpit(daemon)
    store, first, second = store_of(cockpit), QObject(), QObject()
    store.look(first, [run_id])
    store.look(second, [run_id])
    qtbot.waitUntil(lambda: len(points(store, run_id)) == 20, timeout=HANG)
    store.look(first, [])
    assert store.followed == [run_id]
    sip.delete(second)
    assert store.followed == []
    gate.touch()
    daemon.wait_over(run_id)
    assert len(points(store, run_id)) == 20
    store.look(first, [run_id])
    qtbot.waitUntil(lambda: len(points(store, run_id)) == 40, timeout=HANG)
    assert points(store, run_id) == [float(step) for step in range(1, 41)]


def test_only_a_few_runs_that_nobody_looks_at_are_remembered(make_cockpit: MakeCockpit) -> None:
    store, looker = store_of(make_cockpit()), QObject()
    for number in range(KEPT_RUNS + 5):
        store.look(looker, [f"run-{number}"])
    assert len(store._runs) == KEPT_RUNS + 1
    store.look(looker, [f"many-{number}" for number in range(100)])
    assert len(store.followed) == MOST_RUNS


def test_a_colour_stays_with_its_run_while_it_is_shown(make_cockpit: MakeCockpit) -> None:
    store = store_of(make_cockpit())
    store.give_colours(["a", "b", "c"])
    assert [store.colour_number(name) for name in "abc"] == [0, 1, 2]
    store.give_colours(["c", "d"])
    assert store.colour_number("c") == 2 and store.colour_number("d") == 0


def test_a_run_that_is_not_there_is_shown_in_a_sentence(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(daemon)
    store, looker = store_of(cockpit), QObject()
    with qtbot.waitSignal(store.failed, timeout=HANG) as told:
        store.look(looker, ["nobody"])
    assert told.args is not None and "nobody" in told.args[1]
    assert store.followed == []


# ---- the panel ---------------------------------------------------------------------------------------------------


def test_without_a_run_the_panel_says_what_to_do(make_cockpit: MakeCockpit) -> None:
    _, panel = opened(make_cockpit, None)
    assert panel._pages.currentWidget() is panel._empty and "Select a run" in panel._empty.text()


def test_the_curves_of_the_selected_run_are_drawn_as_they_come(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(name="my run", total_timesteps=60, step_seconds=0.001, gate=str(gate), gate_at=31)
    cockpit, panel = opened(make_cockpit, daemon)
    panel.toolbar.smoothing.setValue(0)
    known(qtbot, cockpit, run_id)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: list(panel.grid.cards) == [RETURN, "charts/SPS"], timeout=HANG)
    line = panel.grid.cards[RETURN].plot._items[run_id].line
    qtbot.waitUntil(lambda: line.yData is not None and len(line.yData) == 30, timeout=HANG)
    gate.touch()
    qtbot.waitUntil(lambda: len(line.yData) == 60, timeout=HANG)
    assert np.array_equal(line.yData, np.arange(1.0, 61))
    assert "my" in panel._legend.text() and panel._note.isHidden()


def test_several_runs_are_overlaid_each_in_its_colour_and_can_be_hidden(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    runs = [daemon.submit(name=f"run {number}", total_timesteps=20 + number) for number in range(3)]
    cockpit, panel = opened(make_cockpit, daemon)
    known(qtbot, cockpit, *runs)
    select(cockpit, *runs)
    qtbot.waitUntil(lambda: RETURN in panel.grid.cards, timeout=HANG)
    plot = panel.grid.cards[RETURN].plot
    qtbot.waitUntil(lambda: list(plot._items) == runs, timeout=HANG)
    colours = {item.line.opts["pen"].color().name() for item in plot._items.values()}
    assert len(colours) == 3
    panel._legend.linkActivated.emit(runs[1])
    assert list(plot._items) == [runs[0], runs[2]] and "line-through" in panel._legend.text()
    panel._legend.linkActivated.emit(runs[1])
    assert set(plot._items) == set(runs)


def test_runs_that_differ_only_in_their_seed_become_one_curve_with_an_interval(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    seeds = [daemon.submit(name=f"s{seed}", total_timesteps=30, seed=seed, env_id="Toy-v0") for seed in (1, 2, 3)]
    other = daemon.submit(name="other", total_timesteps=31, seed=1)
    cockpit, panel = opened(make_cockpit, daemon)
    known(qtbot, cockpit, *seeds, other)
    select(cockpit, *seeds, other)
    qtbot.waitUntil(lambda: RETURN in panel.grid.cards, timeout=HANG)
    plot = panel.grid.cards[RETURN].plot
    cockpit.window.cockpit.commands.action("metrics-seeds").trigger()
    assert [len(curve.members) for curve in plot.curves] == [3, 1]
    assert plot.curves[0].label == "count · Toy-v0 (3 seeds)"
    band = plot._items[plot.curves[0].key].band
    qtbot.waitUntil(lambda: band.yData is not None and len(band.yData) > 0, timeout=HANG)
    cockpit.window.cockpit.commands.action("metrics-seeds").trigger()
    assert len(plot.curves) == 4


def test_choices_are_remembered(make_cockpit: MakeCockpit) -> None:
    first, panel = opened(make_cockpit, None)
    panel.toolbar.smoothing.setValue(50)
    panel.toolbar.horizontal.choose("time")
    panel.toolbar.log_y.setChecked(True)
    first.close()
    _, again = opened(make_cockpit, None)
    assert again.toolbar.options == panel.toolbar.options
    assert again.toolbar.options.smoothing == pytest.approx(0.9) and again.toolbar.options.x == "time"


def test_commands_smooth_switch_axes_and_reset_the_view(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    run_id = daemon.submit(total_timesteps=30)
    cockpit, panel = opened(make_cockpit, daemon)
    known(qtbot, cockpit, run_id)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: RETURN in panel.grid.cards and panel.grid.cards[RETURN].plot.has_points, timeout=HANG)
    act, plot = cockpit.window.cockpit.commands.action, panel.grid.cards[RETURN].plot
    before = panel.toolbar.options.smoothing
    act("metrics-smoother").trigger()
    assert plot.options.smoothing > before
    act("metrics-time").trigger()
    act("metrics-log-y").trigger()
    assert plot.options.x == "time" and plot.options.log_y
    plot.zoom_to(0.1, 0.2)
    act("metrics-reset-view").trigger()
    assert not plot.is_zoomed


def test_nothing_is_followed_while_the_panel_is_hidden(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=10, gate=str(gate), gate_at=5)
    cockpit, _ = opened(make_cockpit, daemon)
    select(cockpit, run_id)
    store = store_of(cockpit)
    assert store.followed == [run_id]
    cockpit.window.docks["metrics"].close()
    qtbot.waitUntil(lambda: store.followed == [], timeout=HANG)
    cockpit.window.show_part("metrics")
    qtbot.waitUntil(lambda: store.followed == [run_id], timeout=HANG)
    gate.touch()
    daemon.wait_over(run_id)


def test_a_run_without_numbers_says_why_there_is_nothing_to_see(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    run_id = daemon.submit(total_timesteps=5, metrics=False, misbehave="crash", at_step=2)
    run = daemon.wait_over(run_id)
    cockpit, panel = opened(make_cockpit, daemon)
    known(qtbot, cockpit, run_id)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: "without a single number" in panel._empty.text(), timeout=HANG)
    assert run.reason[1:] in panel._empty.text()


def test_too_many_runs_are_cut_and_it_is_said(make_cockpit: MakeCockpit) -> None:
    cockpit, panel = opened(make_cockpit, None)
    select(cockpit, *[f"run-{number}" for number in range(500)])
    assert f"first {MOST_RUNS} of 500" in panel._note.text()
    select(cockpit)
    assert panel._note.isHidden()


def test_a_filter_that_nothing_fits_says_so(make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot) -> None:
    run_id = daemon.submit(total_timesteps=5)
    cockpit, panel = opened(make_cockpit, daemon)
    known(qtbot, cockpit, run_id)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: RETURN in panel.grid.cards, timeout=HANG)
    panel.toolbar.filter.setText("zebra")
    qtbot.waitUntil(lambda: "Clear the filter" in panel._empty.text(), timeout=HANG)
    panel.toolbar.filter.clear()
    qtbot.waitUntil(lambda: panel._pages.currentWidget() is panel._scroll, timeout=HANG)


# ---- saving ------------------------------------------------------------------------------------------------------


def test_plots_are_saved_as_pictures_and_all_points_as_a_table(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    run_id = daemon.submit(total_timesteps=25)
    daemon.wait_over(run_id)
    cockpit, panel = opened(make_cockpit, daemon)
    known(qtbot, cockpit, run_id)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: len(points(store_of(cockpit), run_id)) == 25 and len(panel.grid.cards) == 2, timeout=HANG)
    panel.exporter.save("png", tmp_path)
    panel.exporter.save("svg", tmp_path / "one.svg", RETURN)
    panel.exporter.save("csv", tmp_path / "all.csv")
    pictures = {"charts-episodic_return.png", "charts-SPS.png", "one.svg"}
    assert pictures <= {file.name for file in tmp_path.iterdir()}
    qtbot.waitUntil((tmp_path / "all.csv").exists, timeout=HANG)
    with (tmp_path / "all.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 50 and {row["run_id"] for row in rows} == {run_id}
    assert [int(row["step"]) for row in rows if row["tag"] == RETURN] == list(range(1, 26))


def test_what_cannot_be_saved_is_shown_and_nothing_breaks(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    run_id = daemon.submit(total_timesteps=5)
    cockpit, panel = opened(make_cockpit, daemon)
    panel.exporter.save("png", tmp_path)
    snackbar = cockpit.window._snackbar
    assert snackbar.current is not None and "nothing to save" in snackbar.current.text
    known(qtbot, cockpit, run_id)
    select(cockpit, run_id)
    qtbot.waitUntil(lambda: len(panel.grid.cards) == 2, timeout=HANG)
    panel.exporter.save("csv", tmp_path / "absent" / "all.csv")
    qtbot.waitUntil(lambda: any("absent" in notice.text for notice in snackbar._waiting), timeout=HANG)


def test_asking_where_to_save_does_not_block(make_cockpit: MakeCockpit, qtbot: QtBot, tmp_path: Path) -> None:
    _, panel = opened(make_cockpit, None)
    dialog = panel.exporter.ask("csv")
    assert dialog.isVisible() and dialog.acceptMode() is QFileDialog.AcceptMode.AcceptSave
    dialog.reject()
    assert not dialog.isVisible()
