"""The checklist: filled without blocking, worst first, with a way to mend each thing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from gym_gui.services.doctor import Check
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.panels.doctor_panel import DoctorPanel

HANG = 60_000


def opened(make_cockpit: MakeCockpit, qtbot: QtBot, daemon: DaemonProcess | None = None) -> DoctorPanel:
    cockpit = make_cockpit(daemon)
    cockpit.bridge._timer.start()  # answers are delivered also where there is no daemon
    panel = DoctorPanel(cockpit.window.cockpit)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitUntil(lambda: bool(panel.checks), timeout=HANG)
    return panel


def test_the_checks_of_the_command_line_are_shown(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = opened(make_cockpit, qtbot)
    found = {check.id: check.status for check in panel.checks}
    assert found["python"] == "ok" and found["daemon"] == "fail"
    assert panel.findChild(QPushButton, "fix-daemon") is not None
    assert panel.findChild(QPushButton, "fix-python") is None


def test_a_daemon_that_answers_is_well(make_cockpit: MakeCockpit, qtbot: QtBot, daemon: DaemonProcess) -> None:
    panel = opened(make_cockpit, qtbot, daemon)
    qtbot.waitUntil(lambda: panel._cockpit.bridge.connection.connected, timeout=HANG)
    panel.check()
    qtbot.waitUntil(lambda: {check.id: check.status for check in panel.checks}["daemon"] == "ok", timeout=HANG)


def test_a_fix_can_be_copied(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = opened(make_cockpit, qtbot)
    panel._take([Check("disk", "Disk space", "fail", "too little", "du -h")])
    button = panel.findChild(QPushButton, "fix-disk")
    assert button is not None
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    clipboard = QApplication.clipboard()
    assert clipboard is not None and clipboard.text() == "du -h"


def test_an_installation_shows_what_it_says_and_how_it_ended(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = opened(make_cockpit, qtbot)
    panel._take([Check("bundle-x", "Bundle x", "warn", "not ready", "mosaic bundles install no-such-bundle")])
    button = panel.findChild(QPushButton, "fix-bundle-x")
    assert button is not None
    with qtbot.waitSignal(panel.runner.finished, timeout=HANG) as ended:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert ended.args is not None and ended.args[0] is False
    assert "no-such-bundle" in panel._output.toPlainText()


def test_an_installation_can_be_canceled(make_cockpit: MakeCockpit, qtbot: QtBot, daemon: DaemonProcess) -> None:
    panel = opened(make_cockpit, qtbot, daemon)
    with qtbot.waitSignal(panel.runner.finished, timeout=HANG) as ended:
        panel.runner.run(["runs", "--help"])
        panel.runner.cancel()
    assert ended.args == [False, "canceled"] and not panel.runner.busy


def test_an_answer_from_before_the_daemon_was_there_is_not_shown(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, answers = quick_panel(make_cockpit, qtbot, monkeypatch)
    first = answers[-1]
    panel._connection_changed()
    answers[-1]([Check("daemon", "Trainer daemon", "ok", "connected")])
    first([Check("daemon", "Trainer daemon", "fail", "connecting to the trainer daemon…", "mosaic daemon start")])
    assert [check.status for check in panel.checks] == ["ok"]


def test_checking_again_keeps_the_focus(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, answers = quick_panel(make_cockpit, qtbot, monkeypatch)
    answers[-1]([Check("python", "Python", "ok", "3.12")])
    with qtbot.waitActive(panel, timeout=HANG):
        panel.activateWindow()
    panel._again.setFocus()
    for _ in range(2):  # the second one finds it busy
        qtbot.keyClick(panel._again, Qt.Key.Key_Space)
        assert panel._again.hasFocus()
    assert len(answers) == 2
    answers[-1]([Check("python", "Python", "ok", "3.12")])
    assert panel._again.hasFocus() and panel._again.usable


def quick_panel(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> tuple[DoctorPanel, list[Callable[[list[Check]], None]]]:
    """A panel whose checks are answered by the test, in the order that it likes; ready with its first question."""
    context, answers = make_cockpit().window.cockpit, list[Callable[[list[Check]], None]]()
    monkeypatch.setattr(context.bridge, "in_background", lambda what, done, *_, **__: answers.append(done))
    panel = DoctorPanel(context)
    qtbot.addWidget(panel)
    panel.show()
    return panel, answers
