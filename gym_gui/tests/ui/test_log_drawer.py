"""The log drawer: its lines without Qt, and what it shows of a real daemon's runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt, QUrl
from PyQt6.QtGui import QColor
from pytestqt.qtbot import QtBot

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.models.log_buffer import LONGEST_LINE, LineReader, LogBuffer, LogLine, clean
from gym_gui.ui.panels.log_drawer import LogDrawer
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.widgets import log_view
from gym_gui.ui.widgets.log_view import LogView
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 60_000
PARTS = [Part("log", "Log", Place.BOTTOM, LogDrawer)]


def drawer_of(app: CockpitApp) -> LogDrawer:
    drawer = app.window.docks["log"].widget()
    assert isinstance(drawer, LogDrawer)
    return drawer


def shown(drawer: LogDrawer) -> list[str]:
    return drawer.view.toPlainText().splitlines()


def texts(buffer: LogBuffer, *sources: str) -> list[str]:
    return [line.text for line in (buffer.lines(sources) if sources else buffer.lines())]


# ---- lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2K\x1b(Bdone", "done"),
        ("10%\r50%\r100%", "100%"),
        ("windows\r", "windows"),
        ("tab\there, bell\x07, null\x00", "tab\there, bell, null"),
        ("x" * (LONGEST_LINE + 5), "x" * LONGEST_LINE + "… (5 more characters)"),
    ],
)
def test_a_line_is_shown_as_a_terminal_would_leave_it(raw: str, seen: str) -> None:
    assert clean(raw) == seen


def test_lines_are_whole_however_the_bytes_come_in_pieces() -> None:
    reader, buffer = LineReader(), LogBuffer()
    for byte in "größe\nzwei\n".encode():
        buffer.add(reader.read("stdout", bytes([byte])))
    assert texts(buffer) == ["größe", "zwei"]


def test_a_line_that_has_not_ended_is_shown_and_then_replaced() -> None:
    reader, buffer = LineReader(), LogBuffer()
    buffer.add(reader.read("stderr", b"10%\r"))
    assert [(line.text, line.open) for line in buffer.lines()] == [("10%", True)]
    buffer.add(reader.read("stderr", b"20%\r"))
    buffer.add(reader.read("stderr", b"done\nnext\n"))
    assert texts(buffer) == ["done", "next"]


def test_one_source_that_floods_does_not_push_out_the_other() -> None:
    reader, buffer = LineReader(), LogBuffer(most=10)
    buffer.add(reader.read("stderr", b"precious\n"))
    buffer.add(reader.read("stdout", b"".join(b"%d\n" % number for number in range(1000))))
    assert texts(buffer, "stderr") == ["precious"]
    assert texts(buffer, "stdout") == [str(number) for number in range(990, 1000)]
    assert len(buffer.lines()) == 10
    assert (buffer.left_out(), buffer.left_out(["stderr"])) == (["stdout"], [])


def test_both_sources_are_shown_in_the_order_they_came() -> None:
    reader, buffer = LineReader(), LogBuffer()
    for source, text in (("stdout", b"a\n"), ("stderr", b"b\n"), ("stdout", b"c\n")):
        buffer.add(reader.read(source, text))
    assert texts(buffer) == ["a", "b", "c"] and texts(buffer, "stdout") == ["a", "c"]


def test_output_without_any_line_end_does_not_grow_for_ever() -> None:
    reader = LineReader()
    made_lines = [line for _ in range(100) for line in reader.read("stdout", b"x" * 10_000)]
    assert len(reader._rests["stdout"]) < 100_000 and any(not line.open for line in made_lines)


# ---- the view ----------------------------------------------------------------------------------------------------


@pytest.fixture
def view(make_cockpit: MakeCockpit, qtbot: QtBot) -> LogView:
    view = LogView(make_cockpit().themes, most=100)
    qtbot.addWidget(view)
    view.resize(400, 200)
    view.show()
    return view


def lines(first: int, last: int, source: str = "stdout") -> list[LogLine]:
    return [LogLine(number, source, f"line {number}") for number in range(first, last)]


def test_a_flood_is_appended_in_portions_and_only_the_end_is_kept(view: LogView, qtbot: QtBot) -> None:
    view.append_lines(lines(0, 50_000))
    qtbot.waitUntil(lambda: view.toPlainText().endswith("line 49999"), timeout=HANG)
    assert view.blockCount() == 100
    assert view._bar.value() == view._bar.maximum()


def test_a_long_log_is_shown_portion_by_portion(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_view, "APPEND_SECONDS", 0.0)
    view = LogView(make_cockpit().themes)
    qtbot.addWidget(view)
    view.show_lines(lines(0, 2_000))
    assert view.blockCount() == log_view.LINES_AT_ONCE
    qtbot.waitUntil(lambda: view.blockCount() == 2_000, timeout=HANG)
    qtbot.waitUntil(lambda: not view._timer.isActive(), timeout=HANG)


def test_scrolling_up_holds_the_view_until_following_again(view: LogView, qtbot: QtBot) -> None:
    view.append_lines(lines(0, 90))
    qtbot.waitUntil(lambda: view.toPlainText().endswith("line 89"), timeout=HANG)
    view._bar.setValue(0)
    assert not view.following
    view.append_lines(lines(90, 140))
    assert view.waiting == 50 and view.toPlainText().startswith("line 0\n")
    view.follow(True)
    qtbot.waitUntil(lambda: view.toPlainText().endswith("line 139"), timeout=HANG)
    assert view.waiting == 0 and view._bar.value() == view._bar.maximum()


def test_long_lines_are_broken_without_leaving_the_end(view: LogView, qtbot: QtBot) -> None:
    view.show_lines([LogLine(number, "stdout", "word " * 200) for number in range(30)])
    sideways = view.horizontalScrollBar()
    assert sideways is not None
    for wrapped in (False, True):
        view.wrap(wrapped)
        qtbot.waitUntil(lambda wrapped=wrapped: (sideways.maximum() == 0) is wrapped, timeout=HANG)
        assert view.following and view._bar.value() == view._bar.maximum()


def test_a_progress_bar_stays_one_line(view: LogView, qtbot: QtBot) -> None:
    for percent in (10, 50, 100):
        view.append_lines([LogLine(percent, "stderr", f"{percent}%", open=percent < 100)])
        qtbot.waitUntil(lambda percent=percent: view.toPlainText() == f"{percent}%", timeout=HANG)
    view.append_lines([LogLine(101, "stdout", "after")])
    qtbot.waitUntil(lambda: view.toPlainText() == "100%\nafter", timeout=HANG)


def test_the_search_goes_around_and_marks_what_is_seen(view: LogView, qtbot: QtBot) -> None:
    counts: list[int] = []
    view.searched.connect(counts.append)
    view.show_lines([LogLine(n, "stdout", text) for n, text in enumerate(["Loss 1", "x", "loss 2", "y"])])
    view.search("LOSS")
    assert counts[-1] == 2 and len(view.extraSelections()) == 2
    assert view.find_next() and view.textCursor().blockNumber() == 0
    assert view.find_next() and view.textCursor().blockNumber() == 2
    assert view.find_next() and view.textCursor().blockNumber() == 0
    assert view.find_next(backwards=True) and view.textCursor().blockNumber() == 2
    view.search("nowhere")
    assert not view.find_next() and view.extraSelections() == []


# ---- with a daemon -----------------------------------------------------------------------------------------------


def test_the_log_of_the_current_run_is_followed_and_sources_can_be_parted(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    assert drawer.empty.title.text() == "No run selected" and drawer.stack.currentWidget() is drawer.empty
    gate = tmp_path / "gate"
    run_id = daemon.submit(name="talker", total_timesteps=5, gate=str(gate), say="\x1b[33ma warning\x1b[0m")
    qtbot.waitUntil(lambda: app.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    qtbot.waitUntil(lambda: len(shown(drawer)) == 2, timeout=HANG)
    assert min(shown(drawer)) == "a warning" and drawer.bar.name.text() == "talker"
    with (daemon.paths.run_logs(run_id) / "stdout.log").open("a") as log:
        log.write("one more line\n")
    qtbot.waitUntil(lambda: "one more line" in shown(drawer), timeout=HANG)
    drawer.bar.source.choose("stderr")
    assert shown(drawer) == ["a warning"]
    drawer.bar.source.choose("both")
    assert len(shown(drawer)) == 3
    gate.touch()
    qtbot.waitUntil(lambda: drawer.bar.badge.word == "completed", timeout=HANG)


def test_another_run_is_followed_when_the_selection_changes(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    first, second = (daemon.submit(total_timesteps=1, say=f"I am {name}") for name in ("one", "two"))
    for run_id in (first, second):
        daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: len(app.window.cockpit.runs) == 2, timeout=HANG)
    app.window.cockpit.selection.select([first, second])
    qtbot.waitUntil(lambda: "I am one" in shown(drawer), timeout=HANG)
    app.window.cockpit.selection.select([second])
    qtbot.waitUntil(lambda: "I am two" in shown(drawer), timeout=HANG)
    assert "I am one" not in shown(drawer)
    app.window.cockpit.selection.select([])
    assert drawer.empty.title.text() == "No run selected" and drawer._feed is None


def test_nothing_is_followed_while_nobody_looks(make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot) -> None:
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    app.window.docks["log"].hide()
    run_id = daemon.submit(total_timesteps=1, say="hello")
    qtbot.waitUntil(lambda: app.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    assert drawer._feed is None and not drawer._clock.isActive()
    app.window.show_part("log")
    qtbot.waitUntil(lambda: "hello" in shown(drawer), timeout=HANG)
    app.window.docks["log"].hide()
    assert drawer._feed is None
    daemon.wait_over(run_id)


def test_a_log_that_is_too_long_says_so_with_its_file(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def note(url: QUrl) -> bool:
        opened.append(url.toLocalFile())
        return True

    monkeypatch.setattr("gym_gui.ui.panels.log_drawer.QDesktopServices.openUrl", note)
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    run_id = daemon.submit(total_timesteps=1)
    daemon.wait_over(run_id)
    file = daemon.paths.run_logs(run_id) / "stderr.log"
    file.write_text("".join(f"number {number}\n" for number in range(60_000)))
    qtbot.waitUntil(lambda: app.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    qtbot.waitUntil(lambda: shown(drawer)[-1:] == ["number 59999"], timeout=HANG)
    assert drawer.view.blockCount() <= 20_000
    assert drawer.truncated.isVisible() and str(file) in drawer.truncated.label.text()
    drawer.truncated.button.click()
    assert opened == [str(file)]
    drawer.bar.source.choose("stdout")
    assert not drawer.truncated.isVisible() and len(shown(drawer)) == 1


def test_the_log_goes_on_after_the_daemon_was_away_and_doubles_nothing(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=5, gate=str(gate), say="before")
    qtbot.waitUntil(lambda: app.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    qtbot.waitUntil(lambda: "before" in shown(drawer), timeout=HANG)
    daemon.kill()
    qtbot.waitUntil(drawer.away.isVisible, timeout=HANG)
    tries = _tries_of(drawer, monkeypatch)
    qtbot.waitUntil(lambda: len(tries) >= 3, timeout=HANG)
    assert "before" in shown(drawer)
    daemon.start()
    with (daemon.paths.run_logs(run_id) / "stderr.log").open("a") as log:
        log.write("after\n")
    qtbot.waitUntil(lambda: "after" in shown(drawer) and not drawer.away.isVisible(), timeout=HANG)
    assert shown(drawer).count("before") == 1
    gate.touch()
    daemon.wait_over(run_id)


def _tries_of(drawer: LogDrawer, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the feed of the drawer looks for the daemon, from now on."""
    feed = drawer._feed
    assert feed is not None
    connect = feed._connect
    tries: list[float] = []

    def note() -> TrainerClient:
        tries.append(time.monotonic())
        return connect()

    monkeypatch.setattr(feed, "_connect", note)
    return tries


def test_the_search_is_reached_and_used_by_keyboard(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    run_id = daemon.submit(total_timesteps=1, say="find me\nnot this\nfind me too")
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: app.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    qtbot.waitUntil(lambda: "find me too" in shown(drawer), timeout=HANG)
    app.window.cockpit.commands.action("search-log").trigger()
    qtbot.keyClicks(drawer.bar.search, "find me")
    assert drawer.bar.found.text() == "2 found" and drawer.bar.next.isEnabled()
    qtbot.keyClick(drawer.bar.search, Qt.Key.Key_Return)
    first = drawer.view.textCursor().blockNumber()
    qtbot.keyClick(drawer.bar.search, Qt.Key.Key_Return)
    assert drawer.view.textCursor().blockNumber() != first
    qtbot.keyClick(drawer.bar.search, Qt.Key.Key_Escape)
    assert drawer.bar.search.text() == "" and drawer.bar.found.text() == ""


@pytest.mark.parametrize(
    ("run", "heard", "title"),
    [
        (made(1, state="INIT"), False, "Not started yet"),
        (made(1), False, "Not read yet"),
        (made(1), True, "Nothing yet"),
        (made(1, state="TERM", outcome="failed"), True, "Nothing to read"),
    ],
)
def test_an_empty_log_says_why(make_cockpit: MakeCockpit, run: pb.Run, heard: bool, title: str) -> None:
    app = make_cockpit(parts=PARTS)
    app.window.docks["log"].hide()
    drawer = drawer_of(app)
    app.window.cockpit.selection.select([run.run_id])
    assert drawer.empty.title.text() == "No run selected"
    app.window.cockpit.runs.take([run])
    if heard:
        drawer._heard_at = 1.0
        drawer._show_run()
    assert drawer.empty.title.text() == title and drawer.stack.currentWidget() is drawer.empty


def test_what_was_read_stays_when_the_drawer_is_shown_again_without_the_daemon(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    app = make_cockpit(daemon, PARTS)
    drawer = drawer_of(app)
    run_id = daemon.submit(total_timesteps=1, say="still here")
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: app.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    app.window.cockpit.selection.select([run_id])
    qtbot.waitUntil(lambda: "still here" in shown(drawer), timeout=HANG)
    daemon.kill()
    qtbot.waitUntil(lambda: not app.bridge.connection.connected, timeout=HANG)
    app.window.docks["log"].hide()
    app.window.show_part("log")
    assert "still here" in shown(drawer) and drawer.stack.currentWidget() is drawer.view
    assert drawer.away.isVisible()


def test_the_colours_follow_the_theme(make_cockpit: MakeCockpit) -> None:
    app = make_cockpit(parts=PARTS)
    app.window.docks["log"].hide()
    drawer = drawer_of(app)
    app.window.cockpit.runs.take([made(1)])
    app.window.cockpit.selection.select([f"{1:026d}"])
    drawer._buffer.add([LogLine(1, "stderr", "oh")])
    drawer._show_source()

    def colour() -> QColor:
        cursor = drawer.view.textCursor()
        cursor.setPosition(1)
        return cursor.charFormat().foreground().color()

    before = colour()
    app.themes.toggle()
    assert colour() == app.themes.theme.colour("warning") != before
    app.themes.toggle()
