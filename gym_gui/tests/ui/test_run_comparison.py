"""The comparison on the stage: groups, what weakens them, every seed a dot, and what is saved of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PyQt6.QtCore import QPointF, QRect
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.services.charts.drawing import Dot, Line
from gym_gui.services.charts.panels import LinePanel
from gym_gui.services.compare.comparison import Question, compared
from gym_gui.services.compare.curves import curves_of
from gym_gui.services.compare.measures import Axis, Curve, Measured
from gym_gui.services.compare.of_runs import EACH, SEEDS, grouped
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_index import HANG, STAGE
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.panels.run_comparison import RunComparison, verdict
from gym_gui.ui.panels.stage import Stage


def run(number: int, rate: float, seed: int, **fields: Any) -> Any:
    config = {"metadata": {"worker": {"config": {"seed": seed, "params": {"learning_rate": rate}}}}}
    over = {"state": "TERM", "outcome": "completed", "last_step": 100, "seed": seed, "name": f"ppo-{rate}-s{seed}"}
    return made(number, config=config, **{**over, **fields})


RUNS = [run(number, 0.1 if number < 4 else 0.2, number % 4 + 1) for number in range(8)]


def test_runs_are_put_together_by_seeds_by_a_setting_or_not_at_all() -> None:
    assert [(group.label, len(group.runs)) for group in grouped(RUNS, SEEDS)] == [("ppo-0.1", 4), ("ppo-0.2", 4)]
    assert [group.label for group in grouped(RUNS, "learning_rate")] == ["learning_rate=0.1", "learning_rate=0.2"]
    same = [run(1, 0.1, 1, name="x"), run(2, 0.2, 1, name="x")]
    assert [group.label for group in grouped(same, EACH)] == ["x (000001)", "x (000002)"]


def compared_runs(*, better: float = 50.0) -> Any:
    steps = np.linspace(0, 100, 20)
    measured = {
        group.label: [
            Measured(one, 10.0 * one.seed + place * better, "", Curve(steps, steps * (1 + place), steps, None))
            for one in group.runs
        ]
        for place, group in enumerate(grouped(RUNS, SEEDS))
    }
    return compared(measured, Question(samples=50))


def test_the_sentence_says_no_more_than_the_numbers_do() -> None:
    assert verdict(compared_runs()) == "ppo-0.2 beats ppo-0.1 with probability 1.00."
    assert verdict(compared_runs(better=1.0)).endswith("the interval includes an even chance.")


def single_runs(*numbers: int) -> Any:
    steps = np.linspace(0, 100, 20)
    chosen = grouped([RUNS[number] for number in numbers], EACH)
    return compared(
        {
            group.label: [Measured(one, 10.0 * place, "", Curve(steps, steps, steps, None)) for one in group.runs]
            for place, group in enumerate(chosen, start=1)
        },
        Question(samples=50),
    )


def test_one_run_of_each_is_called_so() -> None:
    assert "with one run of each: repeat it" in verdict(single_runs(0, 4))


@pytest.fixture
def view(make_cockpit: MakeCockpit, qtbot: QtBot) -> RunComparison:
    cockpit = make_cockpit(None, STAGE)
    cockpit.bridge._timer.start()
    stage = cockpit.window.findChild(Stage)
    assert stage is not None
    cockpit.window.cockpit.runs.take(RUNS)
    cockpit.window.cockpit.selection.select([one.run_id for one in RUNS])
    cockpit.window.cockpit.commands.action("compare-runs").trigger()
    view = stage.compared.comparison
    assert view.isVisible() and not stage.compared.plot.isVisible()
    view.found = compared_runs()
    view.curves = {axis: curves_of(view.found, axis) for axis in Axis}
    view._wish = view._wanted()
    view._draw()
    return view


def test_every_seed_is_a_dot_that_says_its_name_and_a_group_can_be_hidden(view: RunComparison) -> None:
    curves, scores, improvement = view.charts
    dots = [shape for shape in scores.shapes() if isinstance(shape, Dot)]
    assert len(dots) == len(RUNS)
    assert scores.told_at(QPointF(dots[0].x, dots[0].y)).startswith("ppo-0.1-s1: 10")
    frame = curves.drawing.frame
    assert frame is not None
    middle = QPointF((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2)
    assert "ppo-0.1:" in curves.told_at(middle) and "ppo-0.2:" in curves.told_at(middle)
    view._toggle(1, False)
    assert len([shape for shape in scores.shapes() if isinstance(shape, Dot)]) == 4
    assert "ppo-0.2:" not in curves.told_at(middle)
    for chart in (curves, scores, improvement):
        assert not chart.grab().isNull()


def test_a_single_run_has_the_colour_that_it_has_in_every_other_plot(view: RunComparison) -> None:
    store = MetricsStore.of(view._cockpit.bridge)
    first, second = RUNS[0].run_id, RUNS[4].run_id
    store.give_colours([])
    store.give_colours([second, first])
    view.found = single_runs(0, 4)
    view.curves = {axis: curves_of(view.found, axis) for axis in Axis}
    view._draw()
    theme = view._cockpit.themes.theme
    wanted = {0: theme.curve(1).name(), 1: theme.curve(0).name()}
    for chart in view.charts[:2]:
        shapes = [shape for shape in chart.shapes() if isinstance(shape, Line | Dot) and shape.series is not None]
        assert {shape.series: chart.colour(shape).name() for shape in shapes} == wanted


def test_it_fits_a_stage_between_two_docks(view: RunComparison) -> None:
    """At 1280x800 the stage has less than 500 pixels: choices go into a second line instead of out of sight."""
    assert view.minimumSizeHint().width() <= 420
    layout = view.layout()
    assert layout is not None
    layout.setGeometry(QRect(0, 0, 420, 500))
    choices = (view.grouping, view.measure, view.axis, view.unfinished, view.save)
    assert max(widget.geometry().right() for widget in choices) < 420
    assert view.save.y() > view.grouping.y()
    assert abs(view.unfinished.geometry().center().y() - view.save.geometry().center().y()) <= 1, "one line, one middle"
    for title in (view.measure, view.axis):
        assert title.width() >= title.fontMetrics().horizontalAdvance(title.currentText()), "its choice is readable"


def test_a_long_verdict_is_wrapped_and_not_cut_off(view: RunComparison) -> None:
    said, room = view.sentence, view._scroll.viewport()
    assert room is not None
    said.setText("a long name of some runs is ahead of another long name, with one run of each; " * 4)
    QApplication.processEvents()
    assert said.width() <= room.width() and said.height() > 2 * said.fontMetrics().lineSpacing()


def test_groups_follow_what_differs_and_curves_what_they_are_drawn_over(view: RunComparison) -> None:
    offered = [view.grouping.itemData(place) for place in range(view.grouping.count())]
    assert offered == [SEEDS, EACH, "algo", "tag", "learning_rate"]
    view.axis.setCurrentIndex(2)
    panel = view.charts[0]._panel
    assert isinstance(panel, LinePanel) and panel.series[0].y.size == 0, "CPU time was not recorded"


@pytest.mark.parametrize("kind", ["html", "svg", "tex", "csv"])
def test_it_is_saved_as_what_mosaic_compare_writes(
    view: RunComparison, qtbot: QtBot, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / f"comparison.{kind}"
    view.write(file)
    qtbot.waitUntil(file.exists, timeout=HANG)
    assert "ppo-0.2" in file.read_text()
    assert view.command_line().startswith("mosaic compare 'id=") and view.command_line().count(" as ") == 2


def test_selected_runs_of_a_daemon_are_compared_in_a_thread(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    runs = [
        daemon.submit(name=f"toy-{steps}-s{seed}", seed=seed, total_timesteps=steps, step_seconds=0)
        for steps in (20, 40)
        for seed in (1, 2)
    ]
    for run_id in runs:
        daemon.wait_over(run_id)
    cockpit = make_cockpit(daemon, STAGE)
    stage = cockpit.window.findChild(Stage)
    assert stage is not None
    context = cockpit.window.cockpit
    qtbot.waitUntil(lambda: len(context.runs) == 4, timeout=HANG)
    context.selection.select(runs)
    stage.compared.compare_runs()
    view = stage.compared.comparison
    qtbot.waitUntil(lambda: view.found is not None, timeout=HANG)
    assert view.found is not None
    assert [len(group.runs) for group in view.found.groups] == [2, 2]
    assert "toy-40" in view.sentence.text() and any("rough" in note for note in view.found.notes)
    view.measure.setCurrentIndex(1)
    qtbot.waitUntil(lambda: view.found is None and "never evaluated" in view.sentence.text(), timeout=HANG)
