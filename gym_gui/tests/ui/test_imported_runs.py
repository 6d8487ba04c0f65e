"""Imported runs in the cockpit: listed and drawn like any other, marked, and not offered what they cannot do."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from gym_gui.services.scalars.log_import import LogImport, Wishes, survey
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.made_logs import curve, table, written
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.whole_window import HANG, RETURN, OpenWhole, open_whole, steps_shown
from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.models.run_rules import why_not

__all__ = ["open_whole"]


def test_the_whole_cockpit_shows_an_imported_run_and_its_curve(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    written(tmp_path / "logs", table({"exp_name": "ppo", "env_id": "CartPole-v1"}), *curve(RETURN, range(0, 100, 10)))
    cockpit = open_whole(daemon)
    work = LogImport(daemon.client, Wishes())
    run = work.bring(work.plans(survey(tmp_path / "logs"))[0]).run
    assert run is not None
    shared = cockpit.window.cockpit
    qtbot.waitUntil(lambda: shared.runs.get(run.run_id) is not None, timeout=HANG)
    shared.selection.show([run.run_id])
    qtbot.waitUntil(lambda: steps_shown(cockpit, run.run_id) == list(range(0, 100, 10)), timeout=HANG)
    assert RunRow(run, 0.0).word == "imported"


def test_only_what_needs_numbers_alone_is_offered() -> None:
    run = made(1, worker_type="imported", state="TERM", outcome="completed", run_dir="/nowhere")
    for action in ("resume", "duplicate", "replay", "folder"):
        assert why_not(action, [run]) == "Not for run-1: it was imported, and only its numbers are here."
    assert why_not("delete", [run]) == "" and why_not("open", [run]) == ""
