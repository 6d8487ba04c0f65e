"""Sweeps in the cockpit: a sweep on the stage, its trials, the filter, the charts, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from PyQt6.QtCore import QPointF, Qt
from PyQt6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from gym_gui.services.sweeps.axes import OBJECTIVE
from gym_gui.services.sweeps.model import Sweep, SweepState, Trial, TrialState, encode_sweep
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.support.climbing_worker import climb_config, climbing_worker
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.made_sweeps import large_sweep, made_spec, made_sweep, usual_sweep
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.sweeps.charts import SweepCharts
from gym_gui.ui.sweeps.picture import picture_of
from gym_gui.ui.sweeps.screen import SweepScreen
from gym_gui.ui.sweeps.sweeps_panel import SweepsPanel
from gym_gui.ui.sweeps.trial_table import STATUS, WORTH, numbers_shown
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 60_000


class Opened:
    """A window with the stage and the parts of sweeps."""

    def __init__(self, make_cockpit: MakeCockpit, daemon: DaemonProcess | None = None) -> None:
        screens: list[SweepScreen] = []

        def stage(cockpit: Cockpit) -> Stage:
            made = Stage(cockpit)
            screens.append(SweepScreen(cockpit, made, WorkerQueries(cockpit.bridge.paths)))
            return made

        parts = [
            Part("stage", "Stage", Place.STAGE, stage),
            Part("sweep", "Sweep", Place.RIGHT, lambda _: screens[0].make_charts(), is_closed=True),
            Part("sweeps", "Sweeps", Place.BOTTOM, lambda _: screens[0].make_panel()),
        ]
        self.app: CockpitApp = make_cockpit(daemon, parts)
        self.cockpit = self.app.window.cockpit
        found = [self.app.window.findChild(kind) for kind in (Stage, SweepCharts, SweepsPanel)]
        self.stage: Stage = cast("Stage", found[0])
        self.charts: SweepCharts = cast("SweepCharts", found[1])
        self.panel: SweepsPanel = cast("SweepsPanel", found[2])
        self.screen = screens[0]
        self.desk: Any = self.screen.desk

    @property
    def is_on_stage(self) -> bool:
        return self.stage.over is self.screen.page

    def show(self, sweep: Sweep) -> None:
        self.screen.open(sweep.sweep_id)
        self.desk.show_picture(picture_of(sweep))


@pytest.fixture
def opened(make_cockpit: MakeCockpit) -> Opened:
    return Opened(make_cockpit)


# ---- the stage ---------------------------------------------------------------------------------------------------


def test_a_sweep_says_how_far_it_is_and_what_it_found(opened: Opened) -> None:
    opened.show(usual_sweep(budget=10))
    page = opened.screen.page
    assert opened.is_on_stage
    assert page.name.text() == "tuned" and page.badge.word == "running"
    assert page.progress.text() == "4 of 10 trials · about 38s left"
    assert page.about.text() == "ppo · CartPole-v1 · best: trial 2 with IQM return 200"
    assert page.budget.saved.text() == "5k steps saved by pruning 2 trials"
    assert opened.app.window.docks["sweep"].isVisible()


def test_choosing_a_run_elsewhere_gives_the_stage_to_that_run(opened: Opened) -> None:
    opened.show(usual_sweep())
    opened.cockpit.selection.select(["another"])
    assert not opened.is_on_stage
    assert opened.panel.on_stage.isVisible()
    opened.panel.on_stage.click()
    assert opened.is_on_stage and not opened.panel.on_stage.isVisible()


def test_escape_closes_the_sweep_and_its_charts(opened: Opened, qtbot: QtBot) -> None:
    opened.show(usual_sweep())
    qtbot.keyClick(opened.screen.page, Qt.Key.Key_Escape)
    assert not opened.is_on_stage
    assert opened.desk.reference == "" and not opened.app.window.docks["sweep"].isVisible()
    assert opened.panel.pages.currentWidget() is opened.panel.empty


def test_a_page_that_comes_in_front_of_a_sweep_takes_its_place(opened: Opened) -> None:
    from PyQt6.QtWidgets import QWidget

    opened.show(usual_sweep())
    other = QWidget()
    opened.stage.show_over(other)
    opened.stage.end_over(opened.screen.page)
    assert opened.stage.over is other and opened.panel.on_stage.isVisible()


# ---- trials ------------------------------------------------------------------------------------------------------


def test_choosing_a_trial_selects_its_runs(opened: Opened, qtbot: QtBot) -> None:
    opened.show(usual_sweep())
    table, view = opened.panel.trials.table, opened.panel.trials
    assert numbers_shown(table) == [2, 0, 4, 3, 1, 5]
    view.setCurrentIndex(table.index(0, 0))
    assert opened.cockpit.selection.ids == ["run-2-1", "run-2-2"]
    qtbot.keyClick(view, Qt.Key.Key_Down)
    assert opened.cockpit.selection.ids == ["run-0-1", "run-0-2"]
    assert opened.is_on_stage
    assert opened.charts.trial.title.text() == "Trial 0"


def test_the_chosen_trial_stays_chosen_when_there_is_news(opened: Opened) -> None:
    opened.show(usual_sweep())
    opened.desk.choose(0)
    opened.desk.show_picture(picture_of(usual_sweep(budget=30)))
    view = opened.panel.trials
    trial = view.table.trial_at(view.currentIndex().row())
    assert trial is not None and trial.number == 0 and opened.desk.number == 0


def test_the_table_sorts_by_any_column_and_goes_back_to_the_objective(opened: Opened) -> None:
    opened.show(usual_sweep())
    table = opened.panel.trials.table
    table.sort(WORTH, Qt.SortOrder.AscendingOrder)
    assert numbers_shown(table) == [1, 3, 4, 0, 2, 5]
    table.sort(4, Qt.SortOrder.DescendingOrder)
    assert numbers_shown(table)[0] == 4
    table.sort(-1)
    assert numbers_shown(table)[0] == 2
    assert table.data(table.index(4, STATUS)) == "pruned at 1k"


def test_the_table_puts_only_what_is_seen_into_words(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened.panel.trials.table
    asked, text = set[int](), table._text

    def noted(trial: Trial, column: int) -> str:
        asked.add(trial.number)
        return text(trial, column)

    monkeypatch.setattr(table, "_text", noted)
    opened.show(large_sweep(600))
    opened.panel.trials.grab()
    assert table.rowCount() == 600 and 0 < len(asked) < 200


# ---- the filter --------------------------------------------------------------------------------------------------


def test_a_drag_along_an_axis_filters_the_trials_and_a_click_takes_it_away(opened: Opened, qtbot: QtBot) -> None:
    opened.show(usual_sweep())
    parallel = opened.screen.page.parallel
    parallel.resize(600, 220)
    last = len(opened.desk.picture.axes) - 1
    top = QPointF(parallel._x(last), parallel._y(1.0)).toPoint()
    below = QPointF(parallel._x(last), parallel._y(0.4)).toPoint()
    qtbot.mousePress(parallel, Qt.MouseButton.LeftButton, pos=below)
    qtbot.mouseMove(parallel, top)
    qtbot.mouseRelease(parallel, Qt.MouseButton.LeftButton, pos=top)
    assert set(opened.desk.ranges) == {OBJECTIVE}
    assert numbers_shown(opened.panel.trials.table) == [2, 0]
    assert "IQM return from" in opened.screen.page.filter_told.text() and opened.panel.clear.isVisible()
    qtbot.mouseClick(parallel, Qt.MouseButton.LeftButton, pos=top)
    assert opened.desk.ranges == {} and len(numbers_shown(opened.panel.trials.table)) == 6


def test_keys_filter_as_well(opened: Opened, qtbot: QtBot) -> None:
    opened.show(usual_sweep())
    parallel = opened.screen.page.parallel
    qtbot.keyClick(parallel, Qt.Key.Key_Left)  # from the first axis to the last
    for _ in range(8):
        qtbot.keyClick(parallel, Qt.Key.Key_Up)
    assert opened.desk.ranges == {OBJECTIVE: (0.4, 1.0)}
    qtbot.keyClick(parallel, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    assert numbers_shown(opened.panel.trials.table) == [0]
    qtbot.keyClick(parallel, Qt.Key.Key_Delete)
    assert opened.desk.ranges == {}


def test_a_click_on_a_line_chooses_its_trial(opened: Opened, qtbot: QtBot) -> None:
    opened.show(usual_sweep())
    parallel = opened.screen.page.parallel
    parallel.resize(600, 220)
    place = opened.desk.picture.places[1]
    middle = QPointF((parallel._x(0) + parallel._x(1)) / 2, parallel._y(float(place[0] + place[1]) / 2))
    qtbot.mouseClick(parallel, Qt.MouseButton.LeftButton, pos=middle.toPoint())
    assert opened.desk.number == opened.desk.picture.trials[1].number


# ---- charts and settings -----------------------------------------------------------------------------------------


def test_the_charts_show_every_trial_that_has_a_value(opened: Opened) -> None:
    opened.show(usual_sweep())
    assert opened.charts.history.numbers == [0, 1, 2, 3, 4] == opened.charts.slice.numbers
    assert "8 trials" in opened.charts.importance.why_none
    opened.charts.setting.setCurrentText("num_steps")
    assert opened.charts.slice.numbers == [0, 1, 2, 3, 4]
    opened.show(large_sweep(40))
    assert opened.charts.importance.shares[0].setting == "learning_rate"


def test_train_with_these_brings_the_settings_of_the_trial(opened: Opened) -> None:
    wanted: list[dict[str, Any]] = []
    opened.screen.config_wanted.connect(wanted.append)
    opened.show(usual_sweep(spec=made_spec(fixed={"gamma": 0.99})))
    opened.charts.trial.train.click()
    params = wanted[0]["metadata"]["worker"]["config"]["params"]
    assert params["num_steps"] == 128 and params["gamma"] == 0.99
    assert wanted[0]["run_name"] == "tuned-t2" and "group" not in wanted[0]["metadata"]


def test_the_difference_to_the_default_is_asked_for_once(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sweep] = []

    def answer(sweep: Sweep, done: Callable[[dict[str, object]], None], failed: object) -> None:
        asked.append(sweep)
        done({"learning_rate": 2.5e-4})

    monkeypatch.setattr(opened.charts.trial, "_defaults", answer)
    opened.show(usual_sweep())
    for _ in range(3):
        opened.charts.trial.diff.toggle()
    grid = opened.charts.trial.grid
    labels = [grid.itemAt(place).widget().text() for place in range(grid.count())]  # type: ignore[union-attr]
    assert "0.00025" in labels and len(asked) == 1


# ---- what can be done --------------------------------------------------------------------------------------------


def test_what_does_not_apply_says_why(opened: Opened) -> None:
    actions = opened.cockpit.commands.action
    assert not actions("sweep-stop").isEnabled() and "Open a sweep first" in actions("sweep-stop").toolTip()
    opened.show(made_sweep())
    assert not actions("sweep-train").isEnabled()
    assert "daemon is away" in actions("sweep-pause").toolTip()


def test_no_sweep_says_how_to_start_one(opened: Opened) -> None:
    assert opened.panel.pages.currentWidget() is opened.panel.empty
    assert "as soon as the trainer daemon answers" in opened.panel.empty.text.text()
    opened.desk._take_list([])
    assert "mosaic sweep" in opened.panel.empty.text.text() and opened.panel.empty.button.isVisible()


def test_the_keyboard_is_in_the_list_as_soon_as_there_is_one_and_return_opens_the_newest(
    opened: Opened, qtbot: QtBot
) -> None:
    asked: list[str] = []
    opened.panel.wanted.connect(asked.append)
    opened.app.window.activateWindow()
    opened.cockpit.commands.action("show-sweeps").trigger()
    newest, older = (replace(usual_sweep(), sweep_id=name) for name in ("02NEW", "01OLD"))
    opened.desk._take_list([pb.Sweep(document=encode_sweep(one)) for one in (newest, older)])
    qtbot.waitUntil(opened.panel.list.hasFocus)
    qtbot.keyClick(opened.panel.list, Qt.Key.Key_Return)
    assert asked == ["02NEW"] and opened.desk.reference == "02NEW", "the same key does not lead back"
    qtbot.waitUntil(opened.panel.trials.hasFocus)
    opened.screen.close()
    opened.panel.list.setCurrentItem(opened.panel.list.topLevelItem(1))
    opened.desk._take_list([pb.Sweep(document=encode_sweep(one)) for one in (older, newest)])
    chosen = opened.panel.list.currentItem()
    assert chosen is not None and opened.panel.list.indexOfTopLevelItem(chosen) == 0, "what was chosen stays so"


def test_who_went_elsewhere_meanwhile_keeps_the_keyboard_there(opened: Opened, qtbot: QtBot) -> None:
    opened.app.window.activateWindow()
    opened.panel.setFocus()
    elsewhere = QLineEdit(opened.stage)
    elsewhere.show()
    elsewhere.setFocus()
    qtbot.waitUntil(elsewhere.hasFocus)
    opened.desk._take_list([pb.Sweep(document=encode_sweep(usual_sweep()))])
    assert elsewhere.hasFocus()


@pytest.fixture
def climbers(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> DaemonProcess:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(climbing_worker(tmp_path / "climbers"))
    return daemon.start()


def test_a_sweep_of_a_real_daemon_is_found_followed_and_stopped(
    make_cockpit: MakeCockpit, climbers: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    space = {"height": Dimension("float", 1.0, 2.0)}
    config = climb_config(100_000, notes=str(tmp_path))
    given = {"trials": 2, "sampler": "random", "seeds": (1,), "pruner": "none", "rungs": ()}
    sweep = climbers.client.submit_sweep("tiny", made_spec(config=config, space=space, **given))
    window = Opened(make_cockpit, climbers)
    qtbot.waitUntil(lambda: window.panel.list.topLevelItemCount() == 1, timeout=HANG)
    item = window.panel.list.topLevelItem(0)
    assert item is not None and item.text(0) == "tiny"
    window.panel.list.itemActivated.emit(item, 0)
    qtbot.waitUntil(lambda: window.panel.trials.table.rowCount() >= 1, timeout=HANG)
    assert window.desk.reference == sweep.sweep_id and window.screen.page.badge.word == "running"
    window.cockpit.commands.action("sweep-stop").trigger()
    assert window.screen.page.ask_bar.isVisible()
    window.screen.page.ask_bar.confirm.click()
    qtbot.waitUntil(lambda: window.desk.sweep.state is SweepState.STOPPED, timeout=HANG)
    assert window.desk.sweep.trials[0].state is TrialState.STOPPED
    assert window.cockpit.commands.action("sweep-resume").isEnabled()
