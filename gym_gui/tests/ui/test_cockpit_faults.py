"""The whole cockpit while things break around it: the daemon, workers, streams, runs, and its own slots."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PyQt6.QtCore import QEvent, QTimer
from PyQt6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.whole_window import (
    HANG,
    OpenWhole,
    children,
    open_whole,
    part,
    resident_bytes,
    steps_shown,
    store,
    toy_form,
    train_dock,
)
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.doctor_panel import DoctorPanel
from gym_gui.ui.panels.log_drawer import LogDrawer
from gym_gui.ui.panels.stage_headline import RunHeadline

__all__ = ["open_whole"]

_SAID_SECONDS = 20.0
"""The promise is two; a machine with other work to do gets more."""


def connected(qtbot: QtBot, cockpit: CockpitApp) -> None:
    qtbot.waitUntil(lambda: cockpit.bridge.connection.connected, timeout=HANG)


def form_ready(qtbot: QtBot, cockpit: CockpitApp) -> None:
    def ready() -> bool:
        form = toy_form(cockpit)
        return form is not None and not form.waiting()

    qtbot.waitUntil(ready, timeout=HANG)


def select(qtbot: QtBot, cockpit: CockpitApp, run_id: str) -> None:
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    cockpit.window.cockpit.selection.select([run_id])


def status(cockpit: CockpitApp) -> str:
    return cockpit.window.status_line._connection.text()


# ---- the daemon ------------------------------------------------------------------------------------------------------


def test_a_killed_daemon_is_shown_and_everything_goes_on_when_it_is_back(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    cockpit, gate = open_whole(daemon), tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=60, step_seconds=0.01, gate=str(gate), gate_at=40)
    select(qtbot, cockpit, run_id)
    form_ready(qtbot, cockpit)
    form = toy_form(cockpit)
    assert form is not None
    form.run["run_name"].put("half a name")
    form.run["seed"].put("not a number yet")
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) == 39, timeout=HANG)
    daemon.kill()
    killed = time.monotonic()
    qtbot.waitUntil(lambda: status(cockpit).startswith("○"), timeout=HANG)
    assert time.monotonic() - killed < _SAID_SECONDS
    qtbot.waitUntil(lambda: "away" in form.bar.why_not or "seed" in form.bar.why_not.lower(), timeout=HANG)
    gate.touch()
    daemon.start()
    connected(qtbot, cockpit)
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) >= 60, timeout=HANG)
    assert steps_shown(cockpit, run_id) == list(range(1, 61))
    assert form.run["run_name"].entry == "half a name" and form.run["seed"].entry == "not a number yet"
    assert toy_form(cockpit) is form and cockpit.window.cockpit.selection.current == run_id
    form.run["seed"].put("3")
    qtbot.waitUntil(form.bar.launch_button.isEnabled, timeout=HANG)


def test_a_daemon_that_hangs_is_shown_and_taken_back_when_it_answers(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = open_whole(daemon)
    run_id = daemon.submit(total_timesteps=100_000, step_seconds=0.02)
    select(qtbot, cockpit, run_id)
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) > 3, timeout=HANG)
    daemon.signal(signal.SIGSTOP)
    try:
        qtbot.waitUntil(lambda: "does not answer" in status(cockpit), timeout=HANG)
    finally:
        daemon.signal(signal.SIGCONT)
    connected(qtbot, cockpit)
    before = len(steps_shown(cockpit, run_id))
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) > before + 5, timeout=HANG)
    shown = steps_shown(cockpit, run_id)
    assert shown == list(range(1, len(shown) + 1))


def test_closing_while_the_daemon_hangs_does_not_hang_the_cockpit(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = open_whole(daemon)
    select(qtbot, cockpit, daemon.submit(total_timesteps=100_000, step_seconds=0.02))
    connected(qtbot, cockpit)
    daemon.signal(signal.SIGSTOP)
    try:
        for _ in range(8):  # more calls than there are threads for them
            cockpit.bridge.call(lambda client: client.workers())
        began = time.monotonic()
        cockpit.close()
        assert time.monotonic() - began < _SAID_SECONDS
    finally:
        daemon.signal(signal.SIGCONT)


def test_a_daemon_that_cannot_start_is_a_sentence(
    open_whole: OpenWhole, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("MOSAIC_TRAINER_PORT", str(taken.getsockname()[1]))
        cockpit = open_whole(start_daemon=True)
        qtbot.waitUntil(lambda: "could not start" in status(cockpit), timeout=HANG)
        assert "Traceback" not in status(cockpit) and str(taken.getsockname()[1]) in status(cockpit)
        assert _width_fits(cockpit.window, 1024)


def test_a_home_that_is_a_file_is_a_sentence(open_whole: OpenWhole, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    cockpit = open_whole(home=tmp_path / "home", start_daemon=True)
    qtbot.waitUntil(lambda: "MOSAIC_HOME" in status(cockpit), timeout=HANG)
    cockpit.window.remember()
    assert _width_fits(cockpit.window, 1024)


def _width_fits(window: QWidget, width: int) -> bool:
    return window.minimumSizeHint().width() <= width


# ---- workers and runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["crash", "exit", "kill_self", "scribble", "beyond_measure"])
def test_a_worker_that_misbehaves_is_shown_where_it_is_looked_at(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, how: str
) -> None:
    cockpit = open_whole(daemon)
    run_id = daemon.submit(total_timesteps=6, misbehave=how, at_step=3)
    select(qtbot, cockpit, run_id)
    cockpit.window.show_part("log")
    run = daemon.wait_over(run_id)
    headline = part(cockpit, RunHeadline)
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id).state == "TERM", timeout=HANG)  # type: ignore[union-attr]
    qtbot.waitUntil(lambda: run_id not in store(cockpit).followed, timeout=HANG)
    if run.outcome == "FAILED":
        qtbot.waitUntil(lambda: run.reason[:20] in headline.sentence.text(), timeout=HANG)
        assert headline.sentence.property("role") == "error"
    if how == "crash":
        drawer = part(cockpit, LogDrawer)
        qtbot.waitUntil(lambda: "as it was asked to" in drawer.view.toPlainText(), timeout=HANG)


def test_a_run_deleted_under_ones_eyes_leaves_an_empty_stage(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = open_whole(daemon)
    run_id = daemon.submit(total_timesteps=5)
    select(qtbot, cockpit, run_id)
    for name in ("run", "log", "metrics"):
        cockpit.window.show_part(name)
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) == 5, timeout=HANG)
    daemon.client.delete(run_id)
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id) is None, timeout=HANG)
    assert not part(cockpit, RunHeadline).isVisible() and store(cockpit).followed == []
    for name in ("run-duplicate", "run-delete", "run-cancel", "run-folder", "open-log-file"):
        assert not cockpit.window.cockpit.commands.action(name).isEnabled(), name
    assert _feeds(cockpit) == 0
    daemon.client.delete(run_id, purge=True)
    daemon.client.health()


def test_a_running_run_can_vanish_with_the_whole_data_root(
    open_whole: OpenWhole, make_daemon: Callable[..., DaemonProcess], qtbot: QtBot, tmp_path: Path
) -> None:
    """Selected, followed, and unknown to the daemon that comes back."""
    first = make_daemon().start()
    cockpit = open_whole(first)
    run_id = first.submit(total_timesteps=3)
    select(qtbot, cockpit, run_id)
    first.wait_over(run_id)
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) == 3, timeout=HANG)
    first.terminate()
    for name in ("", "-wal", "-shm"):
        first.paths.registry_db.with_name(first.paths.registry_db.name + name).unlink(missing_ok=True)
    first.start()
    connected(qtbot, cockpit)
    cockpit.window.show_part("log")
    second = first.submit(total_timesteps=3)
    select(qtbot, cockpit, second)
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, second)) == 3, timeout=HANG)


# ---- many selections, and the end ------------------------------------------------------------------------------------


def _feeds(cockpit: CockpitApp) -> int:
    return len(cockpit.bridge._feeds)


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "trainer-feed"]


@pytest.mark.parametrize("selections", [60, pytest.param(200, marks=pytest.mark.nightly)])
def test_many_selections_leave_no_feed_and_no_memory(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path, selections: int
) -> None:
    cockpit, gate = open_whole(daemon), tmp_path / "gate"
    runs = [daemon.submit(total_timesteps=30, step_seconds=0, gate=str(gate), gate_at=20) for _ in range(4)]
    for name in ("log", "run", "metrics"):
        cockpit.window.show_part(name)
    for run_id in runs:
        select(qtbot, cockpit, run_id)
        qtbot.waitUntil(lambda run_id=run_id: len(steps_shown(cockpit, run_id)) == 19, timeout=HANG)

    def switch(times: int) -> None:
        for number in range(times):
            cockpit.window.cockpit.selection.select([runs[number % 4]] if number % 3 else runs[: 1 + number % 4])
            QApplication.processEvents()
            # An event loop deletes what was left for later before it waits again; processEvents alone never does.
            QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)

    switch(selections // 2)
    gc.collect()
    before, widgets = resident_bytes(), len(QApplication.allWidgets())
    switch(selections)
    gc.collect()
    cockpit.window.cockpit.selection.select([runs[0]])
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, runs[0])) == 19, timeout=HANG)
    qtbot.waitUntil(lambda: len(QApplication.allWidgets()) < widgets + 40, timeout=HANG)
    assert resident_bytes() - before < 40_000_000
    assert len(_threads()) == _feeds(cockpit) <= 3
    cockpit.window.cockpit.selection.select([])
    assert _feeds(cockpit) == 0 and _threads() == []
    gate.touch()


@pytest.mark.parametrize("work", ["nothing", "dry-run", "doctor", "evaluation-list", "following", "launch", "cleanrl"])
def test_closing_in_the_middle_of_work_leaves_no_thread_and_no_process(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, work: str
) -> None:
    before = children()  # the daemon, or what it was forked from
    cockpit = open_whole(daemon)
    form_ready(qtbot, cockpit)
    form = toy_form(cockpit)
    assert form is not None
    if work == "dry-run":
        form.dry_run()
    elif work == "doctor":
        cockpit.window.show_part("doctor")
        part(cockpit, DoctorPanel).check()
    elif work == "evaluation-list":
        train_dock(cockpit).show_page("use")
    elif work == "following":
        select(qtbot, cockpit, daemon.submit(total_timesteps=100_000, step_seconds=0.02))
        cockpit.window.show_part("log")
    elif work == "launch":
        form.run["total_timesteps"].put("3")
        form.launch()
    elif work == "cleanrl":
        train_dock(cockpit).workers.choose("cleanrl")
    QApplication.processEvents()
    began = time.monotonic()
    cockpit.close()
    assert time.monotonic() - began < _SAID_SECONDS
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("trainer-")] == []
    ticking = [timer for timer in cockpit.window.findChildren(QTimer) if timer.isActive() and not timer.isSingleShot()]
    assert [type(timer.parent()).__name__ for timer in ticking] == []
    assert children() - before == set()


# ---- its own errors --------------------------------------------------------------------------------------------------


def test_an_exception_in_any_part_is_reported_and_the_cockpit_lives(
    open_whole: OpenWhole,
    daemon: DaemonProcess,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cockpit = open_whole(daemon)
    connected(qtbot, cockpit)

    def broken(*_: object) -> None:
        raise RuntimeError("a slot broke")

    shared = cockpit.window.cockpit
    shared.selection.changed.connect(broken)
    shared.runs.changed.connect(broken)
    run_id = daemon.submit(total_timesteps=5)
    select(qtbot, cockpit, run_id)
    qtbot.waitUntil(lambda: "a slot broke" in cockpit._reports.text.toPlainText(), timeout=HANG)
    assert cockpit._reports.isVisible() and not cockpit._reports.isModal()
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: len(steps_shown(cockpit, run_id)) == 5, timeout=HANG)
    shared.selection.changed.disconnect(broken)
    shared.runs.changed.disconnect(broken)
    assert all("a slot broke" in report for report in cockpit.reporter.reports)
    cockpit.reporter.reports.clear()


def test_an_error_that_comes_again_and_again_fills_neither_the_dialog_nor_the_disk(
    open_whole: OpenWhole, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cockpit = open_whole(connect=False)
    for _ in range(500):
        try:
            raise RuntimeError("over and over")
        except RuntimeError:
            sys.excepthook(*sys.exc_info())
    shown = cockpit._reports.text.toPlainText()
    assert shown.count("RuntimeError: over and over") == 1 and "499" in cockpit._reports.again.text()
    log = tmp_path / "cockpit-home" / "logs" / "cockpit-errors.log"
    assert log.stat().st_size < 20_000
    cockpit.reporter.reports.clear()


def test_what_was_typed_survives_a_cockpit_that_is_killed(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = open_whole(daemon)
    form_ready(qtbot, cockpit)
    form = toy_form(cockpit)
    assert form is not None
    form.run["run_name"].put("typed just now")
    file = daemon.paths.root / "cockpit.json"
    qtbot.waitUntil(lambda: "typed just now" in file.read_text(), timeout=HANG)  # without being closed
    assert os.getpid() and isinstance(form.bar.launch_button, QPushButton)
