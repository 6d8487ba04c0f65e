"""A live session as Qt sees it, against the session's own side of the channel in this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PyQt6.QtCore import QEvent, Qt
from PyQt6.QtWidgets import QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.live_connection import join_session
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.live_sessions import MadeSession, elsewhere
from gym_gui.ui.play import live_session
from gym_gui.ui.play.keys import SessionKeys
from gym_gui.ui.play.live_session import LiveSession
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.frames import FrameWriter
from mosaic_protocol.live.key_map import Binding, KeyMap
from mosaic_protocol.live.messages import Command, Go, HandOver, Hello, Hold, Pause, Restart, SingleStep, State, Undo
from mosaic_worker.live.server import LiveServer

HANG = 60_000
KEYS = KeyMap((Binding(("left",), 0, "left"), Binding(("right",), 1, "right"), Binding(("a",), 2, "hop")))
HELLO = Hello("Game-v0", "other", KEYS, waits=True, fps=30.0)


class Played:
    """The session's side: what it was told, and what it tells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.taken: list[Command] = []
        self.server: LiveServer | None = None

    def listen(self, hello: Hello = HELLO) -> LiveServer:
        self.server = LiveServer(self.folder, hello, self.inbox.put, lambda: "")
        return self.server

    def publish(self, state: State) -> None:
        assert self.server is not None
        self.server.publish(state)

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None

    def commands(self) -> list[Command]:
        while not self.inbox.empty():
            command = self.inbox.get()
            if command is not None:
                self.taken.append(command)
        return self.taken


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    side = Played(tmp_path)
    yield side
    side.close()


Open = Callable[[], LiveSession]


@pytest.fixture
def open_session(played: Played) -> Iterator[Open]:
    opened: list[LiveSession] = []

    def make() -> LiveSession:
        opened.append(LiveSession(played.folder, "run"))
        return opened[-1]

    yield make
    for session in opened:
        session.close()


def test_a_session_is_joined_as_soon_as_it_listens(played: Played, open_session: Open, qtbot: QtBot) -> None:
    session, heard = open_session(), list[State]()
    session.state_changed.connect(heard.append)
    assert not session.is_joined
    session.send(Pause())  # refused, and no crash
    played.listen()
    qtbot.waitUntil(lambda: session.hello_message == HELLO, timeout=HANG)
    played.publish(State(steps=3, actor="policy"))
    qtbot.waitUntil(lambda: session.state.steps == 3, timeout=HANG)
    assert heard[-1] is session.state and session.is_joined
    session.send(Restart(7))
    qtbot.waitUntil(lambda: played.commands() == [Restart(7)], timeout=HANG)


def test_the_latest_picture_arrives_as_an_array(
    played: Played, open_session: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    played.listen()
    session, pictures = open_session(), list[np.ndarray]()
    session.frame_arrived.connect(pictures.append)
    writer = FrameWriter(4 * 2 * 3, tmp_path)
    try:
        for shade in (1, 2, 3):
            writer.put(4, 2, bytes([shade]) * 24)
        played.publish(State(frames=str(writer.path)))
        qtbot.waitUntil(lambda: len(pictures) > 0, timeout=HANG)
        assert pictures[-1].shape == (2, 4, 3) and pictures[-1].dtype == np.uint8 and int(pictures[-1].max()) == 3
        session.wants_frames = False
        count = len(pictures)
        writer.put(4, 2, bytes([9]) * 24)
        played.publish(State(steps=1, frames=str(writer.path)))
        qtbot.waitUntil(lambda: session.state.steps == 1, timeout=HANG)
        assert len(pictures) == count, "nobody looks"
        session.wants_frames = True
        qtbot.waitUntil(lambda: int(pictures[-1].max()) == 9, timeout=HANG)
    finally:
        writer.close()


def test_a_session_that_comes_back_is_joined_again(played: Played, open_session: Open, qtbot: QtBot) -> None:
    played.listen()
    session, ends = open_session(), list[str]()
    session.closed.connect(ends.append)
    qtbot.waitUntil(lambda: session.hello_message is not None, timeout=HANG)
    # As when the process was stopped for a while: the connection is gone, the session is not.
    session._client.close()  # type: ignore[union-attr]
    session._lost(SessionAwayError("the connection broke"))
    qtbot.waitUntil(lambda: session.is_joined, timeout=HANG)
    played.publish(State(steps=5))
    qtbot.waitUntil(lambda: session.state.steps == 5, timeout=HANG)
    assert ends == []
    with qtbot.waitSignal(session.closed, timeout=HANG):
        played.close()
    assert ends == ["The session ended."] and session.is_over


def test_giving_up_says_why_once_and_closing_says_nothing(open_session: Open) -> None:
    session, other, ends = open_session(), open_session(), list[str]()
    for one in (session, other):
        one.closed.connect(ends.append)
    session.give_up("the run failed")
    session.give_up("the run failed")
    other.close()
    other.give_up("late")
    assert ends == ["the run failed"]


# ---- the keyboard ----------------------------------------------------------------------------------------------------


class Desk(QWidget):
    """A stage with the focus of the keyboard, and a field beside it."""

    def __init__(self, session: LiveSession) -> None:
        super().__init__()
        self.stage, self.field, self.handed = QWidget(), QLineEdit(), 0
        layout = QVBoxLayout(self)
        layout.addWidget(self.stage)
        layout.addWidget(self.field)
        self.keys = SessionKeys(session, self._hand_over, self)
        self.keys.install(self.stage)

    def _hand_over(self) -> None:
        self.handed += 1


@pytest.fixture
def desk(played: Played, open_session: Open, qtbot: QtBot) -> Desk:
    played.listen()
    session = open_session()
    qtbot.waitUntil(lambda: session.hello_message is not None, timeout=HANG)
    made = Desk(session)
    qtbot.addWidget(made)
    made.show()
    made.stage.setFocus()
    return made


def test_held_keys_are_told_as_they_go_down_and_up(desk: Desk, played: Played, qtbot: QtBot) -> None:
    qtbot.keyPress(desk.stage, Qt.Key.Key_Left)
    qtbot.keyPress(desk.stage, Qt.Key.Key_A)
    qtbot.keyRelease(desk.stage, Qt.Key.Key_Left)
    desk.field.setFocus()  # which lets go of all
    expected = [Hold(("left",)), Hold(("left", "a")), Hold(("a",)), Hold(())]
    qtbot.waitUntil(lambda: played.commands() == expected, timeout=HANG)


def test_what_is_typed_into_a_field_never_reaches_the_game(desk: Desk, played: Played, qtbot: QtBot) -> None:
    desk.field.setFocus()
    qtbot.keyClicks(desk.field, "a r n. ")
    assert desk.field.text() == "a r n. " and played.commands() == []


def test_other_keys_steer_the_session(desk: Desk, played: Played, qtbot: QtBot) -> None:
    for key in (Qt.Key.Key_Space, Qt.Key.Key_Period, Qt.Key.Key_R, Qt.Key.Key_N, Qt.Key.Key_Tab, Qt.Key.Key_X):
        qtbot.keyClick(desk.stage, key)
    expected: list[Command] = [Pause(), SingleStep(), Restart("same"), Restart("next")]
    qtbot.waitUntil(lambda: played.commands() == expected, timeout=HANG)
    assert desk.handed == 1, "Tab does not leave the stage"
    played.publish(State(paused=True, can_undo=2))
    qtbot.waitUntil(lambda: desk.keys._session.state.paused, timeout=HANG)
    qtbot.keyClick(desk.stage, Qt.Key.Key_P)
    qtbot.keyClick(desk.stage, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(desk.stage, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)  # a shortcut of the window
    qtbot.waitUntil(lambda: played.commands() == [*expected, Go(), Undo()], timeout=HANG)


def test_a_key_of_the_game_takes_the_seat_back_at_once(desk: Desk, played: Played, qtbot: QtBot) -> None:
    played.publish(State(actor="policy"))
    qtbot.waitUntil(lambda: desk.keys._session.state.actor == "policy", timeout=HANG)
    qtbot.keyPress(desk.stage, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: played.commands() == [HandOver("human"), Hold(("right",))], timeout=HANG)


def test_a_game_that_needs_space_has_it_and_p_pauses(played: Played, open_session: Open, qtbot: QtBot) -> None:
    played.listen(Hello("Game-v0", "atari", KeyMap((Binding(("space",), 1, "fire"),)), waits=False, fps=30.0))
    session = open_session()
    qtbot.waitUntil(lambda: session.hello_message is not None, timeout=HANG)
    desk = Desk(session)
    qtbot.addWidget(desk)
    desk.show()
    desk.stage.setFocus()
    qtbot.keyPress(desk.stage, Qt.Key.Key_Space)
    qtbot.keyClick(desk.stage, Qt.Key.Key_P)
    qtbot.waitUntil(lambda: played.commands() == [Hold(("space",)), Pause()], timeout=HANG)


def test_shortcuts_with_the_same_key_do_not_fire_on_the_stage(desk: Desk) -> None:
    from PyQt6.QtGui import QKeyEvent

    override = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier, "a")
    override.ignore()
    desk.keys.eventFilter(desk.stage, override)
    assert override.isAccepted()


def test_a_session_elsewhere_is_joined_through_the_daemon_and_again_after_its_death(
    make_daemon: Callable[..., DaemonProcess], qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_session, "RETRIES", 2)
    daemon = make_daemon().start()
    paths = elsewhere(daemon, tmp_path / "elsewhere")
    tries = list[str]()

    def join() -> LiveClient:
        tries.append(run_id)
        return join_session(paths, run_id)

    with closing(MadeSession(daemon, tmp_path / "gate")) as made, closing(FrameWriter(4 * 2 * 3)) as writer:
        run_id = made.run_id
        session = LiveSession(paths.run(run_id).directory, run_id, join=join)
        pictures, ends = list[np.ndarray](), list[str]()
        session.frame_arrived.connect(pictures.append)
        session.closed.connect(ends.append)
        try:
            qtbot.waitUntil(lambda: session.is_joined, timeout=HANG)
            writer.put(4, 2, bytes([7]) * 24)
            made.server.publish(State(steps=1, frames=str(writer.path)))
            qtbot.waitUntil(lambda: session.state.steps == 1 and len(pictures) > 0, timeout=HANG)
            assert int(pictures[-1].min()) == 7
            session.send(Restart(3))
            assert made.next_command() == Restart(3)
            daemon.kill()
            qtbot.waitUntil(lambda: not session.is_joined, timeout=HANG)
            tries.clear()
            qtbot.waitUntil(lambda: len(tries) > 4, timeout=HANG)
            assert not ends, "of a session that cannot be reached nothing is known"
            daemon.start()
            made.server.publish(State(steps=2))
            qtbot.waitUntil(lambda: session.is_joined and session.state.steps == 2, timeout=HANG)
            made.close()
            qtbot.waitUntil(lambda: ends == ["The session ended."], timeout=HANG)
        finally:
            session.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "live-channel"]
