"""The runs view against a real daemon, and with ten thousand runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.services.trainer.client import ClientError
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, COLUMNS, TICKING
from gym_gui.ui.models.run_rules import ACTIONS
from gym_gui.ui.panels.capacity_panel import CapacityPanel
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb
from tools.cockpit_walk.misfits import misfits

HANG = 60_000
PARTS = [Part("runs", "Runs", Place.BOTTOM, RunsPanel)]


def panel_of(app: CockpitApp) -> RunsPanel:
    panel = app.window.docks["runs"].widget()
    assert isinstance(panel, RunsPanel)
    return panel


def names(panel: RunsPanel) -> list[str]:
    rows = map(panel.table.row_at, range(panel.table.rowCount()))
    return [f"[{panel.table.group_at(place)}]" if row is None else row.run.name for place, row in enumerate(rows)]


def cell(panel: RunsPanel, run_id: str, column: str) -> str:
    index = panel.table.index_of(run_id)
    return str(index.siblingAtColumn(COLUMN_NUMBERS[column]).data()) if index.isValid() else ""


def selected(app: CockpitApp) -> list[str]:
    """As the view shows it."""
    panel = panel_of(app)
    rows = map(panel.table.row_at, panel.list._selected_positions())
    return [row.run_id for row in rows if row is not None]


def filled(app: CockpitApp, count: int = 5) -> RunsPanel:
    app.window.cockpit.runs.take([made(number, state="TERM", outcome="completed") for number in range(count)])
    return panel_of(app)


def command(app: CockpitApp, name: str) -> Any:
    return app.window.cockpit.commands.action(f"run-{name}")


def notices(app: CockpitApp) -> list[Notice]:
    """What is being said and what will be."""
    snackbar = app.window._snackbar
    return [notice for notice in (snackbar.current, *snackbar._waiting) if notice is not None]


# ---- with a daemon -----------------------------------------------------------------------------------------------


def test_a_run_appears_trains_and_finishes_in_its_row(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    panel = panel_of(make_cockpit(daemon, PARTS))
    gate = tmp_path / "gate"
    run_id = daemon.submit(name="counting", total_timesteps=20, seed=7, gate=str(gate), gate_at=10)
    qtbot.waitUntil(lambda: cell(panel, run_id, "steps") == "9 / 20", timeout=HANG)
    assert [cell(panel, run_id, name) for name in ("status", "name", "algorithm", "seed", "worker")] == [
        "training",
        "counting",
        "count",
        "7",
        "toy",
    ]
    assert cell(panel, run_id, "reserved") == "1 CPU"
    gate.touch()
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "completed", timeout=HANG)
    qtbot.waitUntil(lambda: cell(panel, run_id, "return") == "10.50", timeout=HANG)  # the mean of 1 to 20
    assert (cell(panel, run_id, "eta"), panel.filters.chips["finished"].text()) == ("", "Finished 1")


def test_queued_runs_know_their_place_also_after_one_left(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    parts = [*PARTS, Part("capacity", "Capacity", Place.RIGHT, CapacityPanel)]
    app = make_cockpit(daemon, parts)
    panel = panel_of(app)
    holder = daemon.submit(name="holder", cpus=8, gate=str(tmp_path / "gate"))
    daemon.wait_state(holder, "EXEC")
    first, second = (daemon.submit(name=name, cpus=2) for name in ("first", "second"))
    qtbot.waitUntil(lambda: cell(panel, second, "queue") == "2nd", timeout=HANG)
    capacity = app.window.docks["capacity"].widget()
    assert isinstance(capacity, CapacityPanel)
    qtbot.waitUntil(lambda: capacity.cpu.figure == "8 of 8" and capacity.queue.count() == 2, timeout=HANG)
    assert capacity.sessions.figure == "0 of 4", "interactive runs have CPUs of their own"
    assert [capacity._waiting(number).waits_for for number in (0, 1)] == [
        "2 CPUs, 0 free",
        "its turn: first is before it",
    ]
    daemon.client.cancel(first)
    qtbot.waitUntil(lambda: cell(panel, second, "queue") == "1st", timeout=HANG)
    qtbot.waitUntil(lambda: capacity.queue.count() == 1, timeout=HANG)
    capacity.queue.setCurrentRow(0)
    assert app.window.cockpit.selection.ids == [second]
    for run_id in (second, holder):
        daemon.client.cancel(run_id)
        daemon.wait_over(run_id)


def test_a_run_is_paused_and_resumed_by_the_space_bar(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    run_id = daemon.submit(total_timesteps=100_000, step_seconds=0.01)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "training", timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    assert not command(app, "resume").isEnabled() and "it is training" in command(app, "resume").toolTip()
    qtbot.keyClick(panel.list, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "paused", timeout=HANG)
    qtbot.keyClick(panel.list, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "training", timeout=HANG)
    daemon.client.cancel(run_id)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "canceled", timeout=HANG)
    before = len(app.window.cockpit.runs)
    qtbot.keyClick(panel.list, Qt.Key.Key_Space)
    assert len(app.window.cockpit.runs) == before and notices(app) == []


def test_cancelling_asks_for_the_reason_in_its_place_and_keeps_it(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    run_id = daemon.submit(total_timesteps=100_000, step_seconds=0.01)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "training", timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    command(app, "cancel").trigger()
    asked = panel.cancel_panel
    assert asked.isVisible() and QApplication.activeModalWidget() is None
    qtbot.keyClick(asked, Qt.Key.Key_Escape)
    assert not asked.isVisible()
    command(app, "cancel").trigger()
    qtbot.keyClicks(asked.reason, "the learning rate was wrong")
    qtbot.keyClick(asked.reason, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "canceled", timeout=HANG)
    assert "the learning rate was wrong" in daemon.client.run(run_id).reason
    assert not asked.isVisible()


def test_a_deleted_run_is_gone_and_undo_brings_it_back(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    run_id = daemon.submit(name="old", total_timesteps=1)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "completed", timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: names(panel) == [] and bool(notices(app)), timeout=HANG)
    assert app.window.cockpit.selection.ids == []
    (notice,) = notices(app)
    assert (notice.text, notice.action) == ("old was deleted.", "Undo") and notice.act is not None
    notice.act()
    qtbot.waitUntil(lambda: names(panel) == ["old"], timeout=HANG)
    qtbot.waitUntil(lambda: app.window.cockpit.selection.ids == [run_id], timeout=HANG)
    assert not daemon.client.run(run_id).deleted


def test_del_on_a_run_that_goes_on_says_what_to_do_first(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel = panel_of(app)
    app.window.cockpit.runs.take([made(1, name="busy", state="EXEC")])
    app.window.cockpit.selection.select([f"{1:026d}"])
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    (notice,) = notices(app)
    assert (notice.text, notice.kind) == ("Not for busy: it is not over; cancel it first.", "warning")


def test_of_several_runs_the_one_that_goes_takes_its_selection_with_it(make_cockpit: MakeCockpit) -> None:
    app = make_cockpit(parts=PARTS)
    panel, unexpected = filled(app), list[object]()
    app.reporter.happened.connect(unexpected.append)
    rows = [panel.table.row_at(position) for position in range(len(panel.table.order))]
    gone, stays = (row.run_id for row in rows[1:3] if row is not None)
    for chosen in ([gone], [stays]):
        app.window.cockpit.selection.select(chosen)
        app.window.cockpit.runs.take([pb.Run(run_id=gone, deleted=True)])
    assert unexpected == [] and not panel.table.index_of(gone).isValid()
    assert app.window.cockpit.selection.ids == [stays] == selected(app)


def test_a_run_that_ended_early_cannot_go_on_without_its_workers_help_and_that_is_said(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    run_id = daemon.submit(total_timesteps=9, misbehave="crash")
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "failed", timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    resume = command(app, "resume")
    qtbot.waitUntil(lambda: "its worker 'toy' was not found here" in resume.toolTip(), timeout=HANG)
    assert not resume.isEnabled()


def test_a_cancelled_run_goes_on_as_a_new_one_with_its_lineage(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    panel, selection = panel_of(app), app.window.cockpit.selection
    settings = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 1, "total_timesteps": 1_000_000}
    config = toy_config(name="ppo-cartpole")
    config["metadata"]["worker"] = {"type": "cleanrl", "module": "cleanrl_worker.cli", "config": settings}
    old = daemon.client.submit(config).run.run_id
    qtbot.waitUntil(lambda: daemon.client.run(old).last_step > 1000, timeout=3 * HANG)
    daemon.client.cancel(old)
    qtbot.waitUntil(lambda: cell(panel, old, "status") == "canceled", timeout=3 * HANG)
    selection.select([old])
    qtbot.waitUntil(command(app, "resume").isEnabled, timeout=HANG)
    for _ in range(2):  # a double click makes one run
        command(app, "resume").trigger()
    qtbot.waitUntil(lambda: selection.current not in (old, None), timeout=HANG)
    new = selection.current
    assert new is not None and json.loads(daemon.client.run(new).config_json)["metadata"]["parent"]["run_id"] == old
    assert "ppo-cartpole-resumed goes on as a new run" in notices(app)[0].text
    assert len(daemon.client.runs().runs) == 2
    daemon.client.cancel(new)
    daemon.wait_over(new, timeout=180)


def test_a_refusal_of_the_daemon_is_said(make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot) -> None:
    app = make_cockpit(daemon, PARTS)
    ghost = made(1)
    app.window.cockpit.runs.take([ghost])
    with pytest.raises(ClientError) as refused:
        daemon.client.cancel(ghost.run_id)
    panel_of(app).actions_on_runs.cancel([ghost.run_id], "")
    qtbot.waitUntil(lambda: bool(notices(app)), timeout=HANG)
    assert notices(app)[0] == Notice(str(refused.value), "error")


def test_without_the_daemon_rows_stay_and_what_needs_it_is_off(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    run_id = daemon.submit(name="kept", total_timesteps=1)
    qtbot.waitUntil(lambda: cell(panel, run_id, "status") == "completed", timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    assert command(app, "delete").isEnabled() and not panel.away_banner.isVisible()
    daemon.kill()
    qtbot.waitUntil(panel.away_banner.isVisible, timeout=HANG)
    assert names(panel) == ["kept"] and panel.list.delegate.away
    assert not command(app, "delete").isEnabled() and "daemon is away" in command(app, "delete").toolTip()
    assert command(app, "copy-id").isEnabled()
    daemon.start()
    qtbot.waitUntil(lambda: not panel.away_banner.isVisible(), timeout=HANG)
    assert command(app, "delete").isEnabled()


# ---- selection and choices ---------------------------------------------------------------------------------------


def test_the_selection_is_shared_both_ways_with_the_current_run_first(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel, selection = filled(app), app.window.cockpit.selection
    for place, modifier in ((0, Qt.KeyboardModifier.NoModifier), (2, Qt.KeyboardModifier.ControlModifier)):
        where = panel.list.visualRect(panel.table.index(place, 1)).center()
        qtbot.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, modifier, where)
    assert selection.ids == [f"{2:026d}", f"{4:026d}"]
    selection.select([f"{1:026d}", f"{0:026d}"])
    assert sorted(selected(app)) == [f"{0:026d}", f"{1:026d}"]
    assert panel.list.currentIndex().row() == panel.table.index_of(f"{1:026d}").row()
    assert selection.ids == [f"{1:026d}", f"{0:026d}"]


@pytest.mark.parametrize("key", [Qt.Key.Key_Home, Qt.Key.Key_Down, Qt.Key.Key_Up])
def test_an_only_run_is_selected_by_keys(make_cockpit: MakeCockpit, qtbot: QtBot, key: Qt.Key) -> None:
    app = make_cockpit(None, PARTS)
    panel = filled(app, 1)
    panel.list.setCurrentIndex(panel.table.index(0, 0))
    panel.list.clearSelection()  # as it is when the list gets the keyboard in a cockpit that was just opened
    assert selected(app) == []
    qtbot.keyClick(panel.list, key)
    assert len(selected(app)) == 1 and app.window.cockpit.selection.ids


def test_the_selection_survives_sorting_and_updates_and_loses_what_is_filtered_away(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    app = make_cockpit(parts=PARTS)
    panel, selection = filled(app), app.window.cockpit.selection
    chosen = [f"{3:026d}", f"{1:026d}"]
    selection.select(chosen)
    panel.list.sortByColumn(COLUMN_NUMBERS["name"], Qt.SortOrder.AscendingOrder)
    assert names(panel) == [f"run-{number}" for number in range(5)]
    app.window.cockpit.runs.take([made(9, state="TERM", outcome="failed", name="a-new-one")])
    assert selection.ids == chosen and sorted(selected(app)) == sorted(chosen)
    app.window.cockpit.runs.take([made(1, deleted=True)])
    assert selection.ids == chosen[:1] == selected(app)
    panel.filters.text.setText("run-4")
    qtbot.waitUntil(lambda: names(panel) == ["run-4"], timeout=HANG)
    assert selection.ids == [] == selected(app)


def test_chips_and_words_narrow_the_list_and_an_empty_one_offers_the_way_back(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    app = make_cockpit(parts=PARTS)
    panel = filled(app, 3)
    app.window.cockpit.runs.take([made(7, state="TERM", outcome="failed"), made(8, state="INIT"), made(9)])
    panel.filters.chips["failed"].click()
    assert names(panel) == ["run-7"]
    panel.filters.chips["queued"].click()
    assert sorted(names(panel)) == ["run-7", "run-8"]
    panel.filters.text.setText("nobody")
    qtbot.waitUntil(lambda: names(panel) == [], timeout=HANG)
    assert panel.stack.currentWidget() is panel.empty
    panel.empty.button.click()
    assert len(names(panel)) == 6 and panel.stack.currentWidget() is panel.list


def test_one_run_that_is_filtered_away_is_counted_as_one(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = filled(make_cockpit(parts=PARTS), 1)
    panel.filters.text.setText("nobody")
    qtbot.waitUntil(lambda: panel.empty.text.text() == "1 run is hidden by the filters.")


def test_groups_fold_by_click_and_by_key(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel = filled(app, 2)
    app.window.cockpit.runs.take([made(5, algo="dqn")])
    panel.grouping.setCurrentIndex(panel.grouping.findData("algorithm"))
    assert names(panel) == ["[dqn]", "run-5", "[ppo]", "run-1", "run-0"]
    header = panel.list.visualRect(panel.table.index(0, 0)).center()
    qtbot.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, header)
    assert names(panel) == ["[dqn]", "[ppo]", "run-1", "run-0"]
    panel.list.setCurrentIndex(panel.table.index(1, 0))
    qtbot.keyClick(panel.list, Qt.Key.Key_Left)
    assert names(panel) == ["[dqn]", "[ppo]"]
    qtbot.keyClick(panel.list, Qt.Key.Key_Right)
    assert names(panel) == ["[dqn]", "[ppo]", "run-1", "run-0"]
    assert app.window.cockpit.selection.ids == []


def test_columns_filters_sorting_and_groups_are_as_they_were_left(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    first = make_cockpit(parts=PARTS)
    panel = filled(first)
    panel.list.columns.show("worker", False)
    panel.list.setColumnWidth(COLUMN_NUMBERS["name"], 333)
    panel.list.columns.header.moveSection(COLUMN_NUMBERS["return"], 1)
    panel.list.sortByColumn(COLUMN_NUMBERS["return"], Qt.SortOrder.AscendingOrder)
    panel.filters.chips["finished"].click()
    panel.grouping.setCurrentIndex(panel.grouping.findData("environment"))
    first.close()
    panel = filled(make_cockpit(parts=PARTS))
    assert panel.list.isColumnHidden(COLUMN_NUMBERS["worker"])
    assert panel.list.columnWidth(COLUMN_NUMBERS["name"]) == 333
    assert panel.list.columns.header.visualIndex(COLUMN_NUMBERS["return"]) == 1
    assert (panel.table.view.sort, panel.table.view.descending) == ("return", False)
    assert panel.filters.buckets == {"finished"} and panel.table.view.grouping == "environment"
    panel.list.columns.reset()
    assert panel.list.columnWidth(COLUMN_NUMBERS["name"]) == COLUMNS[COLUMN_NUMBERS["name"]].width
    assert not panel.list.isColumnHidden(COLUMN_NUMBERS["worker"])


@pytest.mark.parametrize(
    "kept",
    [
        {"runs.columns": {"widths": 3, "hidden": "name", "order": [1, None]}, "runs.sort": {"column": ["x"]}},
        {"runs.columns": {"widths": {"name": "wide", "seed": -5}, "hidden": ["name"], "order": ["name"]}},
        {"runs.columns": [], "runs.sort": "up", "runs.filter": {"text": 1, "kinds": [[], "x"]}, "runs.grouping": "x"},
    ],
)
def test_a_memory_that_makes_no_sense_is_not_believed(
    make_cockpit: MakeCockpit, tmp_path: Path, kept: dict[str, Any]
) -> None:
    home = tmp_path / "cockpit-home"
    home.mkdir()
    (home / "cockpit.json").write_text(json.dumps(kept))
    panel = filled(make_cockpit(parts=PARTS))
    assert len(names(panel)) == 5 and not panel.list.isColumnHidden(COLUMN_NUMBERS["name"])
    assert panel.list.columnWidth(COLUMN_NUMBERS["seed"]) == COLUMNS[COLUMN_NUMBERS["seed"]].width


# ---- commands ----------------------------------------------------------------------------------------------------


def test_every_action_is_in_the_menu_and_says_why_it_is_off(make_cockpit: MakeCockpit) -> None:
    app = make_cockpit(parts=PARTS)
    offered = {made_.name: action for made_, action in app.window.cockpit.commands.all() if made_.menu == "Run"}
    assert len(offered) == 7
    for action in offered.values():
        assert not action.isEnabled() and "Select a run first." in action.toolTip()
        assert action.shortcut().toString() and not action.icon().isNull()


def test_duplicating_hands_over_the_settings_without_the_lineage(make_cockpit: MakeCockpit) -> None:
    app = make_cockpit(parts=PARTS)
    config = {
        "run_name": "x",
        "metadata": {
            "parent": {"run_id": "p"},
            "worker": {"config": {"seed": 3, "extras": {"algo_params": {"resume": "/path", "gamma": 0.9}}}},
        },
    }
    app.window.cockpit.runs.take([made(1, config=config)])
    app.window.cockpit.selection.select([f"{1:026d}"])
    handed: list[dict[str, Any]] = []
    panel_of(app).actions_on_runs.duplicate_requested.connect(handed.append)
    command(app, "duplicate").trigger()
    assert handed == [{"run_name": "x", "metadata": {"worker": {"config": {"seed": 3, "params": {"gamma": 0.9}}}}}]


def test_ids_are_copied_and_enter_opens(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel = filled(app)
    app.window.cockpit.selection.select([f"{2:026d}"])
    command(app, "copy-id").trigger()
    clipboard = QApplication.clipboard()
    assert clipboard is not None and clipboard.text() == f"{2:026d}"
    opened: list[str] = []
    panel.actions_on_runs.open_requested.connect(opened.append)
    qtbot.keyClick(panel.list, Qt.Key.Key_Return)
    assert opened == [f"{2:026d}"]


def test_a_run_without_a_folder_yet_says_so(make_cockpit: MakeCockpit, tmp_path: Path) -> None:
    app = make_cockpit(parts=PARTS)
    app.window.cockpit.runs.take([made(1, state="INIT", run_dir=str(tmp_path / "nowhere"))])
    app.window.cockpit.selection.select([f"{1:026d}"])
    command(app, "folder").trigger()
    assert "has no folder yet" in notices(app)[0].text


def test_the_first_agent_is_offered_once_somebody_answers(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(parts=PARTS)
    panel = panel_of(app)
    assert panel.empty.title.text() == "Waiting for the trainer daemon"
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    panel.train_requested.connect(lambda: None)
    qtbot.waitUntil(lambda: panel.empty.title.text() == "No runs yet", timeout=HANG)
    assert panel.empty.button.isVisible()
    with qtbot.waitSignal(panel.train_requested, timeout=HANG):
        panel.empty.button.click()


def test_the_context_menu_has_every_action(make_cockpit: MakeCockpit) -> None:
    panel = filled(make_cockpit(parts=PARTS))
    menu = panel.run_menu()
    of_the_list = 3  # pin, hide, colour
    assert sum(not action.isSeparator() for action in menu.actions()) == len(ACTIONS) + of_the_list
    menu.deleteLater()
    columns = panel.list.columns.menu()
    assert sum(action.isCheckable() for action in columns.actions()) == len(COLUMNS)
    columns.deleteLater()


# ---- ten thousand ------------------------------------------------------------------------------------------------


def test_ten_thousand_runs_are_taken_in_shown_and_changed_in_place(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    book, panel = app.window.cockpit.runs, panel_of(app)
    began = time.monotonic()
    for start in range(0, 10_000, 500):  # as the bridge hands them on
        book.take([made(number, state="TERM", outcome="completed") for number in range(start, start + 500)])
    assert panel.table.rowCount() == 10_000
    resets: list[None] = []
    panel.table.modelReset.connect(lambda: resets.append(None))
    app.window.cockpit.selection.select([f"{5_000:026d}"])
    place = panel.list.rowAt(0)
    assert panel.list.visualRect(panel.table.index_of(f"{5_000:026d}")).intersects(panel.list.rect())
    book.take([made(number, last_step=number) for number in range(40)])
    book.take([made(10_000), made(10_001)])
    book.take([made(3, deleted=True)])
    assert resets == [] and panel.table.rowCount() == 10_001
    assert cell(panel, f"{39:026d}", "steps") == "39"
    assert selected(app) == [f"{5_000:026d}"] and panel.list.rowAt(0) - place in (0, 2)
    bar = panel.list.verticalScrollBar()
    assert bar is not None
    for value in range(0, bar.maximum(), bar.maximum() // 50):
        bar.setValue(value)
        panel.list.viewport().repaint()  # type: ignore[union-attr]
    panel.list.sortByColumn(COLUMN_NUMBERS["seed"], Qt.SortOrder.AscendingOrder)
    assert names(panel)[:3] == ["run-0", "run-1", "run-2"]
    panel.grouping.setCurrentIndex(panel.grouping.findData("algorithm"))
    assert panel.table.rowCount() == 10_002
    panel.list.selectAll()
    assert len(app.window.cockpit.selection.ids) == 10_001
    assert time.monotonic() - began < 60  # a guard against hanging, not a measurement


def test_time_goes_on_in_the_rows_that_train_and_nowhere_else(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel = filled(app)
    app.window.cockpit.runs.take([made(9, active_seconds=5.0)])
    touched: list[tuple[int, int, int]] = []
    panel.table.dataChanged.connect(lambda a, b, *_: touched.append((a.row(), a.column(), b.column())))
    panel.table.tick(0, 100)
    row = panel.table.index_of(f"{9:026d}").row()
    assert touched == [(row, *TICKING)]


def test_the_age_of_a_run_that_is_over_goes_on(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_cockpit(parts=PARTS)
    panel = filled(app)
    over = made(9, state="TERM", outcome="completed", created_at=time.time() - 30)
    app.window.cockpit.runs.take([over])
    row, created = panel.table.index_of(over.run_id).row(), COLUMN_NUMBERS["created"]
    panel.table.tick(row, row)
    touched: list[tuple[int, int]] = []
    panel.table.dataChanged.connect(lambda a, b, *_: touched.append((a.row(), a.column())))
    panel.table.tick(row, row)
    monkeypatch.setattr(time, "time", lambda: over.created_at + 3 * 3600)
    panel.table.tick(row, row)
    assert touched[-1:] == [(row, created)]
    assert panel.table.cell(panel.table.order.rows[over.run_id], created) == "3h ago"


def test_what_the_runs_are_grouped_by_can_be_read(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel, dock = filled(app), app.window.docks["runs"]
    dock.setFloating(True)
    dock.resize(600, 400)
    for grouping in ("", "algorithm", "environment"):
        panel.grouping.setCurrentIndex(panel.grouping.findData(grouping))
        qtbot.waitUntil(lambda: not misfits(panel.grouping), timeout=HANG)
    assert panel.width() < 700
    for width in range(700, 1100, 40):  # where the tools stand beside the filter, that gives way
        dock.resize(width, 400)
        qtbot.waitUntil(lambda: not misfits(panel.grouping), timeout=HANG)


def test_a_narrow_panel_puts_its_tools_below_each_other(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=PARTS)
    panel, dock = filled(app), app.window.docks["runs"]
    dock.setFloating(True)
    dock.resize(1400, 400)
    qtbot.waitUntil(lambda: not panel.bar.is_folded, timeout=HANG)
    dock.resize(600, 400)
    qtbot.waitUntil(lambda: panel.bar.is_folded, timeout=HANG)
    assert panel.width() < 700
    assert panel.filters.mapTo(panel, QPoint(0, 0)).y() < panel.grouping.mapTo(panel, QPoint(0, 0)).y()
