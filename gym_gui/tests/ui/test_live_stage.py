"""The stage of a session, against sessions in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PyQt6.QtCore import QEvent, QObject, QPoint, QSize, Qt
from PyQt6.QtGui import QPaintEvent, QRegion
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.play.actors import HUMAN
from gym_gui.ui.play.keys import SessionKeys
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.sessions import LiveSessions
from gym_gui.ui.play.stage_live import LiveStage
from gym_gui.ui.play.stage_picture import Picture
from gym_gui.ui.play.stage_seats import SeatFrames
from gym_gui.ui.play.stage_transport import Transport
from gym_gui.ui.theme import Themes
from mosaic_protocol.live.messages import HandOver, State, socket_of
from play_worker.tests.by_hand import Session

Open = Callable[..., tuple[Session, LiveStage]]


@pytest.fixture
def stage(make_cockpit: MakeCockpit) -> Stage:
    window = make_cockpit(parts=[Part("stage", "Stage", Place.STAGE, Stage)]).window
    window.resize(900, 700)
    found = window.findChild(Stage)
    assert found is not None
    return found


@pytest.fixture
def open_session(stage: Stage, qtbot: QtBot, tmp_path: Path) -> Iterator[Open]:
    """A session in a process of its own, on the stage."""
    sessions: list[Session] = []

    def make(env_id: str, **params: Any) -> tuple[Session, LiveStage]:
        session = Session(tmp_path / f"session-{len(sessions)}", env_id, **params)
        sessions.append(session)
        runs = session.folder / "runs"
        qtbot.waitUntil(lambda: runs.is_dir() and any(runs.iterdir()), timeout=HANG)
        live = LiveSession(session.run_dir, parent=stage)
        shown = LiveStage(stage._cockpit, live)
        stage.show_live(shown)
        return session, shown

    yield make
    if stage.live is not None:
        assert isinstance(stage.live, LiveStage)
        stage.live.session.close()
    stage.end_live()
    for session in sessions:
        session.__exit__(None, None, None)


def test_a_person_plays_a_game_of_turns_on_the_stage(open_session: Open, stage: Stage, qtbot: QtBot) -> None:
    _, shown = open_session("FrozenLake-v1", slippery=False)
    assert shown.badge.word == "starting" and not shown.transport.pause.usable
    qtbot.waitUntil(lambda: shown.badge.word == "your turn", timeout=HANG)
    assert shown.name.text() == "FrozenLake-v1" and shown.about.text() == "seed 7 · slippery off"
    assert shown.sentence.text() == "Your move." and shown.transport.pause.usable
    assert LiveSessions.of(stage._cockpit.bridge).get(shown.session.run_id) is shown.session
    keys = SessionKeys(shown.session, lambda: None, shown)
    keys.install(shown)
    shown.setFocus()
    qtbot.waitUntil(shown.hasFocus, timeout=HANG)
    for made, key in enumerate((Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down)):
        QTest.keyClick(shown, key)
        qtbot.waitUntil(lambda made=made: shown.session.state.step == made + 1, timeout=HANG)
    picture = shown.pictures[0]
    qtbot.waitUntil(lambda: picture.shown == "raw" and picture.frame.paints > 0, timeout=HANG)
    assert shown.view_choice.isVisible()
    assert [chip.text for chip in picture.hud.right] == ["3", "0", "1×"]
    assert shown.stripe_view.toolTip() == "you 3"
    shown.view_choice.choose("grid")
    assert picture.shown == "grid"
    qtbot.waitUntil(lambda: picture.grid.paints > 0, timeout=HANG)
    assert [cell.ground is not None for cell in picture.grid.rows[1]] == [False, False, True, False], "the player"
    QTest.keyClicks(shown, "?")
    assert picture.hud.shows_keys and ("←", "left") in picture.hud.key_rows
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Right):
        before = shown.session.state.step
        QTest.keyClick(shown, key)
        qtbot.waitUntil(lambda before=before: shown.session.state.step > before, timeout=HANG)
    qtbot.waitUntil(lambda: shown.badge.word == "goal", timeout=HANG)
    assert "return +1; any key begins the next episode" in shown.sentence.text()


def test_the_buttons_steer_and_show_what_the_session_says(open_session: Open, qtbot: QtBot) -> None:
    _, shown = open_session("CartPole-v1", actor="random", speed=0.5)
    session, transport = shown.session, shown.transport
    qtbot.waitUntil(lambda: session.state.steps > 2 and shown.badge.word == "playing", timeout=HANG)
    assert transport.speeds.choice == "0.5"
    qtbot.mouseClick(transport.pause, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: shown.badge.word == "paused" and transport.pause.text() == "Go", timeout=HANG)
    held = session.state.steps
    qtbot.mouseClick(transport.step, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: session.state.steps == held + 1, timeout=HANG)
    qtbot.mouseClick(transport.next, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: session.state.step == 0 and session.state.episode > 0, timeout=HANG)
    seed = session.state.seed
    qtbot.mouseClick(transport.same, Qt.MouseButton.LeftButton)
    episode = session.state.episode
    qtbot.waitUntil(lambda: session.state.episode > episode and session.state.seed == seed, timeout=HANG)
    transport.speeds.buttons["0"].click()
    qtbot.waitUntil(lambda: session.state.speed == 0, timeout=HANG)
    qtbot.mouseClick(transport.pause, Qt.MouseButton.LeftButton)
    picture = shown.pictures[0].frame
    painted = picture.paints
    qtbot.waitUntil(lambda: picture.paints > painted + 10, timeout=HANG)
    session.send(HandOver("human"))
    qtbot.waitUntil(lambda: shown.pictures[0].hud.left[-1].actor == HUMAN, timeout=HANG)
    assert shown.badge.word in ("your turn", "fell", "balanced")


def test_a_refused_command_and_a_hold_of_the_run_are_said(open_session: Open, qtbot: QtBot) -> None:
    _, shown = open_session("CartPole-v1", actor="random", speed=0.25)
    qtbot.waitUntil(lambda: shown.badge.word == "playing", timeout=HANG)
    shown.session.send(HandOver("policy", checkpoint="/nowhere"))
    qtbot.waitUntil(lambda: shown.sentence.property("role") == "error", timeout=HANG)
    assert "nowhere" in shown.sentence.text()
    shown._take(State(held=True))
    shown.session.state = State(held=True)
    shown.tell()
    assert shown.badge.word == "held"


def test_a_killed_session_is_disconnected_then_ended(open_session: Open, qtbot: QtBot) -> None:
    session, shown = open_session("CartPole-v1", actor="random", speed=1)
    qtbot.waitUntil(lambda: shown.badge.word == "playing", timeout=HANG)
    words: list[str] = []
    shown._timer.timeout.connect(lambda: words.append(shown.badge.word))
    session.kill()
    qtbot.waitUntil(lambda: shown.badge.word == "ended", timeout=HANG)
    assert not shown.transport.pause.usable and "ended" in shown.sentence.text()
    assert socket_of(session.run_dir).exists() <= ("disconnected" in words), "one that left a socket is looked for"


def test_the_stage_fits_into_small_rooms(open_session: Open, stage: Stage, qtbot: QtBot) -> None:
    _, shown = open_session("FrozenLake-v1")
    qtbot.waitUntil(lambda: shown.pictures[0].shown == "raw", timeout=HANG)
    shown.fit(QSize(690, 280))
    assert not shown.about.isVisible() and shown.transport.isVisible()
    shown.fit(QSize(900, 700))
    assert shown.about.isVisible()


@pytest.mark.parametrize("width", [420, 520, 800])
def test_the_speeds_keep_their_words_in_a_narrow_stage(qapp: QApplication, qtbot: QtBot, width: int) -> None:
    transport = Transport(Themes(qapp))
    qtbot.addWidget(transport)
    transport.setFixedWidth(width)
    transport.show()
    transport.fit(width)
    qtbot.waitExposed(transport)
    qtbot.wait(20)
    for button in transport.speeds.buttons.values():
        assert button.width() >= button.sizeHint().width(), button.text()


# ---- several seats -----------------------------------------------------------------------------------------------


def test_several_seats_stand_beside_each_other_with_their_own_pictures_and_chips(
    open_session: Open, qtbot: QtBot
) -> None:
    _, shown = open_session("CartPole-v1", seats="random,random", speed=2)
    state = lambda: shown.session.state  # noqa: E731
    qtbot.waitUntil(lambda: len(shown.pictures) == 2 and len(state().rounds) > 0, timeout=HANG)
    qtbot.waitUntil(lambda: all(picture.frame.paints > 2 for picture in shown.pictures), timeout=HANG)
    assert [picture.hud.left[0].text for picture in shown.pictures] == [seat.name for seat in state().seats]
    assert "rounds: " in shown.about.text()
    first, second = shown.pictures
    assert first.geometry().right() < second.geometry().left() and first.height() == second.height()
    shown._take(State())
    assert len(shown.pictures) == 1, "a session that has one seat has one picture"


def test_pictures_of_a_seat_that_is_gone_are_none(qtbot: QtBot, tmp_path: Path) -> None:
    session = LiveSession(tmp_path / "nowhere")
    frames = SeatFrames(session.frame)
    frames.follow({2: None})  # type: ignore[dict-item]
    frames._look()
    frames.follow({})
    session.close()
    assert not frames._timer.isActive()


def test_a_frame_after_a_rest_is_painted_without_waiting_for_the_clock(
    stage: Stage, qtbot: QtBot, tmp_path: Path
) -> None:
    live = LiveSession(tmp_path / "nowhere", parent=stage)
    shown = LiveStage(stage._cockpit, live)
    stage.show_live(shown)
    view = shown.pictures[0].frame
    view._timer.setInterval(3_600_000)
    live.frame_arrived.emit(np.zeros((40, 60, 3), np.uint8))
    qtbot.waitUntil(lambda: view.paints == 1, timeout=HANG)
    live.close()


class PaintedRooms(QObject):
    """Which parts of a widget were painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.rooms: list[QRegion] = []
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if isinstance(event, QPaintEvent):
            self.rooms.append(event.region())
        return False


def test_chips_above_a_picture_are_painted_although_only_the_picture_was(qapp: QApplication, qtbot: QtBot) -> None:
    picture = Picture(Themes(qapp))
    qtbot.addWidget(picture)
    picture.resize(480, 360)
    picture.keep_whole(True)
    picture.show_frame(np.zeros((64, 64, 3), np.uint8))
    picture.show()
    painted = PaintedRooms(picture.hud)
    for step in (1, 2, 3):
        painted.rooms.clear()
        picture.show_state(State(step=step, frames="frames"), 1.0)
        picture.frame.repaint()
        at = picture.hud.rect().topRight() + QPoint(-20, 20)
        qtbot.waitUntil(lambda at=at: any(room.contains(at) for room in painted.rooms), timeout=HANG)
