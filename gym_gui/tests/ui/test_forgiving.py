"""The cockpit forgives: a press too many, a wheel in passing, a filter forgotten, a deletion regretted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtCore import QPoint, QPointF, Qt
from PyQt6.QtGui import QFontMetrics, QWheelEvent
from PyQt6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QSlider, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.run_request import derived_name, fresh_name, is_numbered
from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, part, toy_form, train_dock
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.models.run_rules import Known, applicable, why_not
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.elided_label import cut_name
from mosaic_protocol.proto import trainer_pb2 as pb

__all__ = ["open_whole"]

LEFT, NOTHING = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
RUNS = [Part("runs", "Runs", Place.BOTTOM, RunsPanel)]


def ready(cockpit: CockpitApp, qtbot: QtBot) -> SchemaTrainForm:
    """The toy's form, when it can be launched."""
    qtbot.waitUntil(lambda: toy_form(cockpit) is not None, timeout=HANG)
    form = toy_form(cockpit)
    assert form is not None
    qtbot.waitUntil(lambda: form.bar.why_not == "", timeout=HANG)
    form.run["total_timesteps"].put("5")
    with qtbot.waitActive(cockpit.window, timeout=HANG):
        cockpit.window.activateWindow()
    return form


def idle(form: SchemaTrainForm) -> bool:
    return form.bar.why_not == "" and not form.is_resting


def launch(form: SchemaTrainForm, qtbot: QtBot) -> str:
    qtbot.waitUntil(lambda: idle(form), timeout=HANG)
    with qtbot.waitSignal(form.submitted, timeout=HANG) as told:
        qtbot.mouseClick(form.bar.launch_button, LEFT)
    return str(told.args[0])


def second_half(button: QWidget, qtbot: QtBot) -> None:
    """Of a double click, as Qt reports it: another press, called by another name, and its release."""
    qtbot.mouseDClick(button, LEFT)
    qtbot.mouseRelease(button, LEFT)


def submitted(daemon: DaemonProcess) -> list[str]:
    return [run.name for run in daemon.client.runs().runs]


def over(qtbot: QtBot, cockpit: CockpitApp, daemon: DaemonProcess, **config: Any) -> str:
    """A toy run that is over, as the cockpit knows it."""
    run_id = daemon.submit(**{"total_timesteps": 1, **config})
    book = cockpit.window.cockpit.runs
    qtbot.waitUntil(lambda: (run := book.get(run_id)) is not None and run.state == "TERM", timeout=HANG)
    return run_id


# ---- launching ---------------------------------------------------------------------------------------------------


def test_a_double_click_on_launch_starts_one_run(open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot) -> None:
    form = ready(open_whole(daemon), qtbot)
    button = form.bar.launch_button
    # The second half of a double click often comes when the first half has been answered already.
    form.submitted.connect(lambda _: second_half(button, qtbot))
    with qtbot.waitSignal(form.submitted, timeout=HANG):
        qtbot.mouseClick(button, LEFT)
        second_half(button, qtbot)
    qtbot.waitUntil(lambda: idle(form), timeout=HANG)
    assert submitted(daemon) == ["count-s1"]


def test_launch_pressed_again_after_a_lost_answer_is_the_same_run(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = ready(open_whole(daemon), qtbot)
    submit, lost = TrainerClient.submit, [True]

    def lossy(
        self: TrainerClient, config: Mapping[str, Any] | str, request_id: str = "", **options: Any
    ) -> pb.SubmitRunResponse:
        answer = submit(self, config, request_id, **options)
        if lost:
            lost.clear()
            raise ClientError("the answer was lost", "UNAVAILABLE")
        return answer

    monkeypatch.setattr(TrainerClient, "submit", lossy)
    qtbot.mouseClick(form.bar.launch_button, LEFT)
    qtbot.waitUntil(lambda: form.bar.reason.text() == "the answer was lost", timeout=HANG)
    qtbot.waitUntil(lambda: len(form.cockpit.runs) == 1, timeout=HANG)
    launch(form, qtbot)
    assert submitted(daemon) == ["count-s1"]


def test_launch_refuses_what_the_dry_run_refuses_beside_the_field(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    form = ready(open_whole(daemon), qtbot)
    field = form.run["env_id"]
    field.put("Nowhere-v0")
    qtbot.mouseClick(form.bar.launch_button, LEFT)
    assert form.bar.launch_button.text() == "Checking…", "what is under way is in sight"
    qtbot.waitUntil(lambda: "no environment 'Nowhere-v0'" in form.bar.reason.text(), timeout=HANG)
    assert "no environment 'Nowhere-v0'" in field.error.text() and field.error.isVisible()
    assert submitted(daemon) == [] and form.bar.launch_button.text() == "Launch"
    field.put("Somewhere-v0")
    launch(form, qtbot)
    assert submitted(daemon) == ["count-somewhere-v0-s1"]


def test_a_worker_that_cannot_be_asked_keeps_nobody_from_launching(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = ready(open_whole(daemon), qtbot)
    monkeypatch.setenv("MOSAIC_WORKER_PATH", "/nonexistent")  # the daemon knows the worker, this program does not
    launch(form, qtbot)
    assert "submitted unchecked: the worker 'toy' is not installed" in form.notes_panel.toPlainText()


def test_the_focus_stays_on_launch_while_it_works(open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot) -> None:
    form = ready(open_whole(daemon), qtbot)
    button = form.bar.launch_button
    button.setFocus()
    with qtbot.waitSignal(form.submitted, timeout=HANG):
        qtbot.keyClick(button, Qt.Key.Key_Space)
        assert not button.usable and QApplication.focusWidget() is button
        qtbot.keyClick(button, Qt.Key.Key_Space)
    assert QApplication.focusWidget() is button and submitted(daemon) == ["count-s1"]


def test_a_key_that_is_held_down_launches_once(make_cockpit: MakeCockpit) -> None:
    commands = make_cockpit(parts=None).window.cockpit.commands
    repeating = {command.name for command, action in commands.all() if action.autoRepeat()}
    assert repeating == {"metrics-smoother", "metrics-rougher"}


# ---- names -------------------------------------------------------------------------------------------------------


def test_every_launch_gets_a_name_of_its_own(open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot) -> None:
    form = ready(open_whole(daemon), qtbot)
    for _ in range(2):
        launch(form, qtbot)
    name = form.run["run_name"]
    name.put("mouse")
    launch(form, qtbot)
    assert name.entry == "mouse-2"
    launch(form, qtbot)
    assert sorted(submitted(daemon)) == ["count-s1", "count-s1-2", "mouse", "mouse-2"]
    name.put("")
    assert form.request().run_name == "count-s1-3"


@pytest.mark.parametrize(
    ("wanted", "taken", "fresh"),
    [
        ("ppo", set(), "ppo"),
        ("ppo", {"ppo"}, "ppo-2"),
        ("ppo", {"ppo", "ppo-2", "ppo-4"}, "ppo-3"),
        ("ppo-2", {"ppo", "ppo-2"}, "ppo-3"),
        ("thesis-2026", {"thesis-2026"}, "thesis-2026-2"),
        ("ppo-cartpole-v1-s1", {"ppo-cartpole-v1-s1"}, "ppo-cartpole-v1-s1-2"),
    ],
)
def test_a_fresh_name_counts_on_from_the_one_that_is_taken(wanted: str, taken: set[str], fresh: str) -> None:
    assert fresh_name(wanted, taken.__contains__) == fresh


@pytest.mark.parametrize(
    ("parent", "taken", "name"),
    [
        ("baseline", {"baseline"}, "baseline-resumed"),
        ("baseline", {"baseline", "baseline-resumed"}, "baseline-resumed-2"),
        ("baseline-resumed", {"baseline", "baseline-resumed"}, "baseline-resumed-2"),
        ("baseline-resumed-2", {"baseline-resumed", "baseline-resumed-2"}, "baseline-resumed-3"),
        ("ppo-s1-2", {"ppo-s1", "ppo-s1-2"}, "ppo-s1-2-resumed"),
        ("a" * 120, {"a" * 120}, "a" * 105 + "-resumed"),
    ],
)
def test_a_run_that_comes_of_another_says_so_and_shares_its_name_with_none(
    parent: str, taken: set[str], name: str
) -> None:
    assert derived_name(parent, "resumed", taken.__contains__) == name


def test_a_duplicated_run_with_a_name_of_its_own_gets_another(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    form = ready(open_whole(daemon), qtbot)
    form.run["run_name"].put("mouse")
    config = form.request().config()
    launch(form, qtbot)
    form.fill_quietly(config)
    assert form.request().run_name == "mouse-copy"
    usual = {**config, "run_name": "count-s1"}
    form.fill_quietly(usual)
    assert form.run["run_name"].entry == "", "a name that follows the settings goes on following them"


def test_the_usual_name_with_a_number_is_still_the_usual_one() -> None:
    assert is_numbered("ppo-s1", "ppo-s1") and is_numbered("ppo-s1-12", "ppo-s1")
    assert not is_numbered("ppo-s12", "ppo-s1") and not is_numbered("ppo-s1-x", "ppo-s1")


def test_runs_of_one_name_show_their_ids_wherever_they_are_named(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=None).window
    book, runs = window.cockpit.runs, part_of(window, RunsPanel)
    book.take([made(1, name="mouse"), made(3, name="alone")])
    cell = lambda number: str(runs.table.index_of(f"{number:026d}").siblingAtColumn(1).data())  # noqa: E731
    assert cell(1) == "mouse"
    touched: list[int] = []
    runs.table.dataChanged.connect(lambda first, last: touched.extend(range(first.row(), last.row() + 1)))
    book.take([made(2, name="mouse")])
    assert [cell(number) for number in (1, 2, 3)] == ["mouse (000001)", "mouse (000002)", "alone"]
    assert runs.table.index_of(f"{1:026d}").row() in touched, "the older one is painted again"
    stage = part_of(window, Stage)
    window.cockpit.selection.select([f"{1:026d}"])
    assert stage.headline.name.text() == "mouse (000001)"
    found = [finding.text for finding in window.palette_popup.findings("mouse")]
    assert found[:2] == ["Go to › mouse (000002)", "Go to › mouse (000001)"]
    book.take([made(2, name="mouse", deleted=True)])
    assert cell(1) == "mouse"


def test_a_name_that_is_cut_keeps_what_distinguishes_it(qapp: QApplication) -> None:
    metrics = QFontMetrics(qapp.font())
    room = metrics.horizontalAdvance("a-very-long (ABC123)")
    assert cut_name("a-very-long-name-of-a-run (ABC123)", metrics, room).endswith("… (ABC123)")
    numbered = cut_name("a-very-long-name-of-a-run-s1-2", metrics, room)
    assert "…" in numbered and numbered.endswith("-2")
    assert cut_name("short (ABC123)", metrics, room) == "short (ABC123)"


def part_of(window: QWidget, kind: type[Any]) -> Any:
    found = window.findChild(kind)
    assert found is not None
    return found


# ---- the wheel ---------------------------------------------------------------------------------------------------


def test_the_wheel_changes_nothing_that_it_passes_over(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = open_whole(daemon)
    ready(cockpit, qtbot)
    dock = train_dock(cockpit)
    dock.workers.choose("cleanrl")
    dock.show_page("use")
    dock.show_page("train")
    kinds = (QComboBox, QAbstractSpinBox, QSlider)
    watched = [one for kind in kinds for one in cockpit.window.findChildren(kind)]
    assert {"Script from", "Family of environments", "Algorithm", "Episodes", "Smoothing"} <= {
        one.accessibleName() for one in watched
    }
    before = [value_of(one) for one in watched]
    for one in watched:
        for notch in (-120, 120, -120):
            turn_wheel(one, notch)
    assert [value_of(one) for one in watched] == before
    assert QApplication.focusWidget() not in watched, "nor does the wheel take the focus"


def value_of(widget: QWidget) -> object:
    if isinstance(widget, QComboBox):
        return widget.currentText()
    return widget.value() if isinstance(widget, QSlider) else widget.text()  # type: ignore[attr-defined]


def turn_wheel(widget: QWidget, notch: int) -> None:
    middle = QPointF(widget.rect().center())
    turned = QWheelEvent(
        middle,
        QPointF(widget.mapToGlobal(widget.rect().center())),
        QPoint(),
        QPoint(0, notch),
        Qt.MouseButton.NoButton,
        NOTHING,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, turned)


# ---- deleting ----------------------------------------------------------------------------------------------------


def test_delete_leaves_runs_alone_that_a_filter_hides(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(daemon, RUNS)
    ids = [over(qtbot, cockpit, daemon, name=name) for name in ("keep-1", "keep-2", "gone")]
    panel = part(cockpit, RunsPanel)
    cockpit.window.cockpit.selection.select(ids)
    panel.filters.text.setText("gone")
    qtbot.waitUntil(lambda: panel.table.rowCount() == 1, timeout=HANG)
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: ids[2] in cockpit.window.cockpit.runs.trash, timeout=HANG)
    panel.filters.clear()
    assert sorted(submitted(daemon)) == ["keep-1", "keep-2"]


def test_a_run_that_left_the_filter_by_itself_is_looked_at_but_not_deleted(make_cockpit: MakeCockpit) -> None:
    cockpit = make_cockpit(parts=RUNS)
    panel, context = part(cockpit, RunsPanel), cockpit.window.cockpit
    context.runs.take([made(1, state="EXEC")])
    panel.filters.chips["live"].click()
    context.selection.select([f"{1:026d}"])
    context.runs.take([made(1, state="TERM", outcome="failed")])
    assert panel.table.rowCount() == 0 and context.selection.ids == [f"{1:026d}"]
    assert panel.actions_on_runs.applicable("delete") == []
    assert "hidden by a filter" in context.commands.action("run-delete").toolTip()


def test_several_runs_are_named_before_they_are_deleted(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(daemon, RUNS)
    ids = [over(qtbot, cockpit, daemon, name=name) for name in ("one", "two")]
    panel = part(cockpit, RunsPanel)
    cockpit.window.cockpit.selection.select(ids)
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    bar = panel.delete_bar
    assert bar.isVisible() and bar.question.text() == "Delete 2 runs?" and bar.names.text() == "one, two"
    qtbot.keyClick(bar, Qt.Key.Key_Escape)
    assert not bar.isVisible() and len(submitted(daemon)) == 2
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    qtbot.mouseClick(bar.confirm, LEFT)
    qtbot.waitUntil(lambda: set(cockpit.window.cockpit.runs.trash) == set(ids), timeout=HANG)
    assert submitted(daemon) == []


def test_the_trash_lists_restores_and_removes_for_good_by_keyboard(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(daemon, RUNS)
    panel, context = part(cockpit, RunsPanel), cockpit.window.cockpit
    run_id = over(qtbot, cockpit, daemon, name="old")
    daemon.client.delete(run_id)
    qtbot.waitUntil(lambda: context.runs.get(run_id) is None, timeout=HANG)
    context.commands.action("trash").trigger()
    trash = panel.trash
    assert trash.isVisible() and trash.list.topLevelItemCount() == 1
    shown = trash.list.topLevelItem(0)
    assert shown.text(0) == "old" and ("(7d 0h left)" in shown.text(1) or "(6d 23h left)" in shown.text(1))
    qtbot.keyClick(trash.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: context.selection.ids == [run_id], timeout=HANG)
    assert not daemon.client.run(run_id).deleted and not trash.isVisible()
    daemon.client.delete(run_id)
    qtbot.waitUntil(lambda: run_id in context.runs.trash, timeout=HANG)
    context.commands.action("trash").trigger()
    qtbot.keyClick(trash.list, Qt.Key.Key_Delete)
    assert trash.ask_bar.isVisible() and trash.ask_bar.names.text() == "old"
    assert daemon.client.run(run_id).deleted, "nothing went before the answer"
    qtbot.mouseClick(trash.ask_bar.confirm, LEFT)
    qtbot.waitUntil(lambda: trash.pages.currentWidget() is trash.empty, timeout=HANG)
    assert daemon.client.runs(include_deleted=True).total == 0
    qtbot.keyClick(trash.list, Qt.Key.Key_Escape)
    assert not trash.isVisible()


def test_a_deletion_that_was_undone_elsewhere_is_not_offered_to_be_undone(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(daemon, RUNS)
    panel, context, snackbar = part(cockpit, RunsPanel), cockpit.window.cockpit, cockpit.window._snackbar
    run_id = over(qtbot, cockpit, daemon, name="old")
    for leave in (daemon.client.restore, lambda run_id: daemon.client.delete(run_id, purge=True)):
        context.selection.select([run_id])
        qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
        qtbot.waitUntil(lambda: run_id in context.runs.trash, timeout=HANG)
        qtbot.waitUntil(lambda: snackbar.current is not None and snackbar.current.action == "Undo", timeout=HANG)
        leave(run_id)
        qtbot.waitUntil(lambda: snackbar.current is None, timeout=4000)


def test_a_run_whose_time_in_the_trash_is_over_is_not_offered(make_cockpit: MakeCockpit) -> None:
    cockpit = make_cockpit(parts=RUNS)
    past = made(1, state="TERM", deleted=True)
    past.restorable_until = 2.0
    cockpit.window.cockpit.runs.take([past])
    assert part(cockpit, RunsPanel).trash.deleted() == []


# ---- the stage ---------------------------------------------------------------------------------------------------

STATES = (
    {"state": "INIT"},
    {"state": "EXEC"},
    {"state": "EXEC", "desired": "pause"},
    {"state": "PAUSE", "desired": "pause"},
    {"state": "PAUSE", "desired": "run"},
    {"state": "TERM", "outcome": "failed"},
    {"state": "TERM", "outcome": "completed"},
)


def row(cockpit: CockpitApp) -> ActionButtons:
    buttons: ActionButtons = part(cockpit, Stage).headline.next_actions
    return buttons


def test_the_buttons_of_the_stage_keep_their_places_whatever_the_run_does(make_cockpit: MakeCockpit) -> None:
    cockpit = make_cockpit(parts=None)
    context = cockpit.window.cockpit
    cockpit.window.resize(1600, 900)
    places = set()
    for changes in STATES:
        context.runs.take([made(1, **changes)])
        context.selection.select([f"{1:026d}"])
        QApplication.processEvents()
        buttons = row(cockpit).buttons
        assert all(button.isVisible() for button in buttons.values())
        places.add(tuple((name, button.geometry().getRect()) for name, button in buttons.items()))
        for name, button in buttons.items():
            action = context.commands.action(name)
            assert button.usable == action.isEnabled() and button.toolTip() == action.toolTip()
            assert button.usable or "\n" in button.toolTip(), "a greyed button says why"
    assert len(places) == 1


def test_where_there_is_no_room_the_last_buttons_of_the_stage_are_icons(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(parts=None)
    buttons = row(cockpit)
    buttons.setParent(None)
    qtbot.addWidget(buttons)
    buttons.resize(buttons.sizeHint())
    buttons.show()
    titles = lambda: [button.text() for button in buttons.buttons.values() if button.text()]  # noqa: E731
    assert sorted(titles()) == ["All metrics", "Cancel…", "Duplicate…", "Pause", "Replay", "Resume", "Use trained"]
    buttons.resize(buttons.width() - 40, buttons.height())
    assert sorted(titles()) == ["Cancel…", "Duplicate…", "Pause", "Replay", "Resume", "Use trained"]
    buttons.resize(buttons.minimumSizeHint().width(), buttons.height())
    assert titles() == []
    assert all(button.accessibleName() and not button.icon().isNull() for button in buttons.buttons.values())


@pytest.mark.parametrize("where", ["stage", "list"])
def test_pausing_by_key_leaves_the_focus_on_pause_or_resume(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, where: str
) -> None:
    cockpit = open_whole(daemon)
    ready(cockpit, qtbot)
    run_id = daemon.submit(total_timesteps=1_000_000, step_seconds=0.01)
    context = cockpit.window.cockpit
    qtbot.waitUntil(lambda: context.runs.get(run_id) is not None, timeout=HANG)
    context.selection.select([run_id])
    buttons = (row(cockpit) if where == "stage" else part(cockpit, RunsPanel).buttons).buttons
    pause, resume = buttons["run-pause"], buttons["run-resume"]
    state_of = lambda run_id: run.state if (run := context.runs.get(run_id)) is not None else ""  # noqa: E731
    qtbot.waitUntil(lambda: pause.usable, timeout=HANG)
    pause.setFocus()
    for key_for, then in ((pause, "PAUSE"), (resume, "EXEC")):
        qtbot.waitUntil(lambda one=key_for: one.usable and one.hasFocus(), timeout=HANG)
        focused: list[object] = []
        cockpit.window.cockpit.runs.changed.connect(lambda _, seen=focused: seen.append(QApplication.focusWidget()))
        qtbot.keyClick(key_for, Qt.Key.Key_Space)
        qtbot.waitUntil(lambda state=then: state_of(run_id) == state, timeout=HANG)
        assert set(focused) <= {pause, resume}
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)


def test_a_run_that_failed_stops_waiting_for_numbers_and_says_why(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    cockpit = open_whole(daemon)
    context = cockpit.window.cockpit
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=5, misbehave="crash", metrics=False, gate=str(gate), gate_at=1)
    qtbot.waitUntil(lambda: (run := context.runs.get(run_id)) is not None and run.state == "EXEC", timeout=HANG)
    context.selection.select([run_id])
    headline, metrics = part(cockpit, Stage).headline, part(cockpit, MetricsPanel)
    hint = headline.plot.card._hint
    qtbot.waitUntil(lambda: hint.text() == "waiting for the first numbers", timeout=HANG)
    gate.touch()
    qtbot.waitUntil(lambda: headline.badge.word == "failed", timeout=HANG)
    qtbot.waitUntil(lambda: hint.text().startswith("the run failed before its first number"), timeout=HANG)
    run = context.runs.get(run_id)
    assert run is not None and run.reason and headline.sentence.text()[1:] == run.reason[1:]
    qtbot.waitUntil(lambda: run.reason[1:] in metrics._empty.text(), timeout=HANG)


# ---- resuming ----------------------------------------------------------------------------------------------------


def test_resume_is_offered_where_there_is_a_checkpoint_and_nowhere_else(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    cockpit = make_cockpit(daemon, RUNS)
    context = cockpit.window.cockpit
    qtbot.waitUntil(lambda: cockpit.bridge.connection.connected, timeout=HANG)
    config = json.dumps({"metadata": {"worker": {"config": {}}}})
    ended = {"state": "TERM", "outcome": "failed", "worker_type": "cleanrl", "config_json": config}
    with_one, without = (
        made(number, run_dir=str(tmp_path / name), **ended) for number, name in ((1, "with"), (2, "without"))
    )
    (tmp_path / "with" / "checkpoints" / "000100").mkdir(parents=True)
    (tmp_path / "with" / "analytics.json").write_text(json.dumps({"checkpoints": ["checkpoints/000100"]}))
    context.runs.take([with_one, without])
    action = context.commands.action("run-resume")
    context.selection.select([without.run_id])
    assert not action.isEnabled()
    qtbot.waitUntil(lambda: "it left no checkpoint" in action.toolTip(), timeout=HANG)
    assert not action.isEnabled()
    context.selection.select([with_one.run_id])
    assert not action.isEnabled()
    qtbot.waitUntil(action.isEnabled, timeout=HANG)


def test_what_is_not_known_yet_is_not_offered() -> None:
    run = made(1, state="TERM", outcome="failed")
    assert applicable("resume", [run]) == [] and "being looked for" in why_not("resume", [run])
    assert applicable("resume", [run], Known(cannot_go_on={run.run_id: ""})) == [run]
    paused = made(2, state="PAUSE", desired="pause")
    assert applicable("resume", [paused]) == [paused]
    assert applicable("delete", [run], Known(hidden=frozenset({run.run_id}))) == []
