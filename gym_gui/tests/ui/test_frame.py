"""The frame without its parts: layout, commands, palette, notices, preferences, unexpected errors."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QLabel, QLineEdit, QTabBar
from pytestqt.qtbot import QtBot

from gym_gui.logging_config.log_constants import LOG_UI_MAINWINDOW_INVALID_CONFIG
from gym_gui.logging_config.structured import log_event
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import kept_log
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.commands import Command
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.preferences import FILE_NAME, Preferences
from gym_gui.ui.widgets.command_palette import matches
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 60_000


def parts(*names: str) -> list[Part]:
    def labelled(name: str) -> Part:
        return Part(name, name.title(), Place.BOTTOM, lambda _: QLabel(name))

    return [labelled(name) for name in names]


def test_opening_the_cockpit_imports_nothing_heavy() -> None:
    code = (
        "import sys; import gym_gui.ui.app; "
        "print([name for name in ('torch', 'gymnasium', 'matplotlib', 'scipy', 'tensorboard') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_layout_is_as_it_was_left(make_cockpit: MakeCockpit) -> None:
    first = make_cockpit(parts=parts("runs", "log"))
    first.window.docks["log"].hide()
    first.themes.use("light")
    first.close()
    second = make_cockpit(parts=parts("runs", "log"))
    assert not second.window.docks["log"].isVisible() and second.window.docks["runs"].isVisible()
    assert second.themes.theme.name == "light"
    second.window.reset_layout()
    assert not second.window.docks["log"].isHidden()


def test_markup_in_the_name_of_a_run_or_a_tag_is_text(make_cockpit: MakeCockpit) -> None:
    """A label that guessed would load a picture from wherever a name says."""
    cockpit = make_cockpit(parts=parts("<img src='x'>"))
    (label,) = [one for one in cockpit.window.findChildren(QLabel) if one.text() == "<img src='x'>"]
    later, ours = QLabel("<b>a name</b>", cockpit.window), QLabel("<b>ours</b>", cockpit.window)
    ours.setProperty("rich", True)
    for one in (later, ours):
        one.show()
    cockpit.themes.toggle()
    formats = [one.textFormat() for one in (label, later, ours)]
    assert formats == [Qt.TextFormat.PlainText, Qt.TextFormat.PlainText, Qt.TextFormat.RichText]


def test_what_the_cockpit_remembers_is_private(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / FILE_NAME)
    preferences.put("presets", {"mine": 1})
    preferences.save()
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"window.state": "!!", "window.geometry": 7, "theme": 3}'])
def test_a_damaged_memory_does_not_keep_the_cockpit_from_opening(
    make_cockpit: MakeCockpit, tmp_path: Path, content: str
) -> None:
    home = tmp_path / "cockpit-home"
    home.mkdir()
    (home / FILE_NAME).write_text(content)
    cockpit = make_cockpit(parts=parts("runs"))
    assert cockpit.window.isVisible() and cockpit.themes.theme.name == "dark"
    cockpit.window.remember()
    assert isinstance(json.loads((home / FILE_NAME).read_text()), dict)


def test_preferences_come_back_and_one_of_another_type_is_not_believed(tmp_path: Path) -> None:
    first = Preferences(tmp_path / "sub" / "file.json")
    first.put("filter", {"text": "ppo"})
    first.put("gone", None)
    first.save()
    second = Preferences(tmp_path / "sub" / "file.json")
    assert second.get("filter", {}) == {"text": "ppo"}
    assert second.get("filter", "") == "" and second.get("gone", 5) == 5


def test_every_part_can_be_shown_by_its_command(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=parts("runs", "log")).window
    window.docks["log"].close()
    window.cockpit.commands.action("show-log").trigger()
    assert window.docks["log"].isVisible()


def test_a_shortcut_cannot_be_given_twice(make_cockpit: MakeCockpit) -> None:
    commands = make_cockpit().window.cockpit.commands
    with pytest.raises(ValueError, match=r"the shortcut Ctrl\+K of 'other' is taken"):
        commands.add(Command("other", "Other", "View", "Ctrl+K"), lambda: None)


def test_the_palette_does_what_was_typed(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit()
    palette = cockpit.window.palette_popup
    palette.open()
    qtbot.keyClicks(palette.query, "dark light")
    assert palette.list.count() == 1
    qtbot.keyClick(palette.query, Qt.Key.Key_Return)
    assert cockpit.themes.theme.name == "light" and not palette.isVisible()


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [("", "anything", True), ("shlg", "Show log", True), ("log show", "Show log", True), ("xyz", "Show log", False)],
)
def test_letters_match_in_order_and_words_in_any(query: str, text: str, found: bool) -> None:
    assert matches(query, text) is found


def test_notices_come_one_after_the_other_and_can_be_acted_on(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit().window
    done: list[str] = []
    window.cockpit.notify(Notice("run deleted", action="Undo", act=lambda: done.append("undone")))
    window.cockpit.notify(Notice("second"))
    snackbar = window._snackbar
    assert snackbar.current is not None and snackbar.current.text == "run deleted"
    qtbot.mouseClick(snackbar._button, Qt.MouseButton.LeftButton)
    assert done == ["undone"]
    assert snackbar.current == Notice("second")


def test_undo_undoes_what_was_done_last(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit().window
    done: list[str] = []
    for name in ("hidden", "deleted"):
        window.cockpit.notify(Notice(f"run {name}", action="Undo", act=lambda name=name: done.append(name)))
    window.cockpit.notify(Notice("run ended"))
    snackbar = window._snackbar
    assert snackbar.current is not None and snackbar.current.text == "run deleted"
    qtbot.mouseClick(snackbar._button, Qt.MouseButton.LeftButton)
    assert done == ["deleted"] and snackbar.current == Notice("run ended")


def test_an_error_is_read_to_its_end_whatever_comes_after_it(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit().window
    window.cockpit.notify(Notice("run failed", "error", "Show", lambda: None))
    window.cockpit.notify(Notice("run ended", "good", "Show", lambda: None))
    assert window._snackbar.current is not None and window._snackbar.current.text == "run failed"


@pytest.mark.parametrize("by_keys", [True, False])
def test_a_notice_that_goes_gives_the_keyboard_back(make_cockpit: MakeCockpit, qtbot: QtBot, by_keys: bool) -> None:
    """Else the key after Undo would press whatever Qt finds next, such as the mode of the form."""
    names = ("train", "metrics", "runs", "log")
    window = make_cockpit(parts=[Part(name, name, Place.LEFT, lambda _: QLineEdit()) for name in names]).window
    window.docks["runs"].raise_()
    with qtbot.waitActive(window):
        window.activateWindow()
    line = window.findChild(QLineEdit, "runs")
    assert line is not None
    line.setFocus()
    window.cockpit.notify(Notice("run deleted", action="Undo", act=lambda: None))
    button = window._snackbar._button
    if by_keys:
        middle = window.centralWidget()
        assert middle is not None
        middle.setFocus()  # as F6 does, before it goes to the first button
        button.setFocus(Qt.FocusReason.TabFocusReason)
        qtbot.keyClick(button, Qt.Key.Key_Space)
    else:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window._snackbar.isHidden() and QApplication.focusWidget() is line


def test_an_unexpected_error_is_shown_and_kept_and_the_cockpit_lives(
    make_cockpit: MakeCockpit, qtbot: QtBot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cockpit = make_cockpit()
    try:
        raise RuntimeError("nobody expected this")
    except RuntimeError:
        sys.excepthook(*sys.exc_info())  # what PyQt calls for an exception in a slot
    dialog = cockpit._reports
    assert dialog.isVisible() and "nobody expected this" in dialog.text.toPlainText()
    dialog._copy()
    clipboard = QApplication.clipboard()
    assert clipboard is not None and "nobody expected this" in clipboard.text()
    assert "nobody expected this" in (tmp_path / "cockpit-home" / "logs" / "cockpit-errors.log").read_text()
    assert cockpit.window.isVisible()


def test_what_the_cockpit_refused_is_kept_with_the_reason_for_its_owner_alone(tmp_path: Path) -> None:
    logger = logging.getLogger("gym_gui.ui.forms")
    with kept_log(MosaicPaths(tmp_path / "home")):
        log_event(logger, LOG_UI_MAINWINDOW_INVALID_CONFIG, reason="no environment 'CartPole-v9'")
    kept = tmp_path / "home" / "logs" / "cockpit.jsonl"
    assert json.loads(kept.read_text())["reason"] == "no environment 'CartPole-v9'"
    assert kept.stat().st_mode & 0o077 == 0 and kept.parent.stat().st_mode & 0o077 == 0


def test_a_home_that_cannot_be_written_keeps_the_terminal_quiet(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with kept_log(MosaicPaths(tmp_path / "home")):
        assert logging.getLogger("gym_gui").hasHandlers()
        log_event(logging.getLogger("gym_gui.ui.forms"), LOG_UI_MAINWINDOW_INVALID_CONFIG, reason="any")


def test_an_error_in_a_thread_is_shown_too(
    make_cockpit: MakeCockpit, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    cockpit = make_cockpit()
    failing = threading.Thread(target=lambda: 1 / 0, name="failing")
    with qtbot.waitSignal(cockpit.reporter.happened, timeout=HANG):
        failing.start()
    failing.join()
    assert "In failing:" in cockpit._reports.text.toPlainText()


def test_segments_say_a_new_choice_once(qtbot: QtBot) -> None:
    segments = Segments([("human", "Human", ""), ("agent", "Agent", "")])
    qtbot.addWidget(segments)
    said: list[str] = []
    segments.chosen.connect(said.append)
    segments.choose("agent")
    segments.choose("agent")
    segments.choose("nobody")
    assert said == ["agent"] and segments.choice == "agent"


def test_the_status_line_shows_the_daemon_and_what_it_has(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(daemon)
    line = cockpit.window.status_line
    qtbot.waitUntil(lambda: "CPU 0/" in line._machine.text(), timeout=HANG)
    assert "connected" in line._connection.text()
    daemon.kill()
    qtbot.waitUntil(lambda: line._machine.text() == "", timeout=HANG)
    assert line._connection.text().startswith("○")


def test_a_disk_that_is_nearly_full_is_told_once_and_shown_for_as_long_as_it_lasts(make_cockpit: MakeCockpit) -> None:
    cockpit = make_cockpit()
    window, line = cockpit.window, cockpit.window.status_line
    sentence = "the disk of /data is 93 % full, 7.0 GB are left: do something"
    full = pb.Health(disk_free_bytes=7 * 10**9, disk_total_bytes=10**11, disk_warning=sentence)
    cockpit.bridge.health_changed.emit(full)
    assert (line.disk.text(), line.disk.property("role")) == ("disk 93 % full, 7 GB free", "warning")
    assert line.disk.toolTip() == sentence
    notice = window._snackbar.current
    assert notice is not None and notice.text == f"The{sentence[3:]}." and notice.action == "Copy the command"
    window._snackbar._next()
    cockpit.bridge.health_changed.emit(full)
    assert window._snackbar.current is None
    cockpit.bridge.health_changed.emit(pb.Health(disk_free_bytes=70 * 10**9, disk_total_bytes=10**11))
    assert (line.disk.text(), line.disk.property("role")) == ("disk 70 GB free", "")


def test_a_daemon_that_was_stopped_can_be_started_from_the_status_line(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    line = make_cockpit().window.status_line
    line.show_connection(ConnectionState(False, "the trainer daemon left"))
    assert not line.start.isVisible()
    line.show_connection(ConnectionState(False, "the trainer daemon was stopped", stopped=True))
    assert line.start.isVisible() and "was stopped" in line._connection.text()
    with qtbot.waitSignal(line.start_wanted):
        qtbot.mouseClick(line.start, Qt.MouseButton.LeftButton)
    line.show_connection(ConnectionState(True, "connected"))
    assert not line.start.isVisible()


def test_a_dock_in_a_tab_says_its_name_once_and_a_floating_one_has_its_title_back(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    parts = [Part(name, name.title(), Place.BOTTOM, lambda _: QLabel("inside")) for name in ("runs", "log")]
    window = make_cockpit(parts=parts).window
    runs, log = window.docks["runs"], window.docks["log"]
    assert runs.titleBarWidget() is not None and log.titleBarWidget() is not None
    log.setFloating(True)
    qtbot.waitUntil(lambda: runs.titleBarWidget() is None and log.titleBarWidget() is None)
    window.reset_layout()
    qtbot.waitUntil(lambda: runs.titleBarWidget() is not None and log.titleBarWidget() is not None)


def test_no_tab_bar_is_left_over_when_the_layout_is_reset(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    window.resize(1280, 800)

    def shown() -> list[list[str]]:
        bars = window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)
        return sorted([bar.tabText(i) for i in range(bar.count())] for bar in bars if bar.isVisible())

    below = ["Runs", "Log", "Episodes", "Sweeps", "Datasets", "Arena", "Hosts"]
    expected = [["Metrics", "Run", "Capacity", "Doctor"], below]
    qtbot.waitUntil(lambda: shown() == expected)
    window.reset_layout()  # which makes it as small as the screen of tests
    narrow = [*below, "Metrics", "Run", "Capacity", "Doctor"]
    qtbot.waitUntil(lambda: shown() == [narrow])
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: shown() == expected)


def test_a_sentence_in_an_empty_panel_is_not_as_wide_as_the_screen(qtbot: QtBot) -> None:
    page = EmptyPage("Nothing yet", "A sentence that goes on and on. " * 8, "Begin")
    qtbot.addWidget(page)
    page.resize(1600, 300)
    page.show()
    assert page.text.width() < 700 and page.text.height() > 2 * page.text.fontMetrics().height()
    assert abs(page.text.geometry().center().x() - page.rect().center().x()) <= 1
