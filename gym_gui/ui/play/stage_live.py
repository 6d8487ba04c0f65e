"""The stage of a live session: what it shows, how it stands, and the buttons that steer it.

It is shown with :meth:`gym_gui.ui.panels.stage.Stage.show_live`. The session belongs to its caller and outlives it.
"""

from __future__ import annotations

from PyQt6.QtCore import QSize, Qt, QTimer
from PyQt6.QtGui import QHideEvent, QKeyEvent, QShowEvent
from PyQt6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.play import words
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.policy_names import policy_name
from gym_gui.ui.play.sessions import LiveSessions
from gym_gui.ui.play.stage_picture import Picture, Shown
from gym_gui.ui.play.stage_seats import SeatFrames
from gym_gui.ui.play.stage_stripe import StripeView
from gym_gui.ui.play.stage_transport import Transport
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.frame_view import Frame
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.live.messages import Hello, State
from mosaic_protocol.plain_text import one_line

_LOOK_MILLISECONDS = 250
_REFUSAL_MILLISECONDS = 5000
_NARROW, _LOW, _FLAT, _TINY = 560, 390, 330, 270
_VIEW = "play.view"
_TILES = ("toy_text", "minigrid")
"""Families whose pictures are full of tiles up to their corners."""


class LiveStage(QWidget):
    """Shows one session from before its first word until after its last."""

    def __init__(self, cockpit: Cockpit, session: LiveSession) -> None:
        super().__init__()
        self._cockpit, self.session = cockpit, session
        self._sessions = LiveSessions.of(cockpit.bridge)
        themes = cockpit.themes
        self.name = ElidedLabel()
        self.name.setProperty("role", "huge")
        self.badge = StatusBadge(themes)
        self.badge.setAccessibleName(self.tr("State of the session"))
        self.place = QLabel()
        self.place.setProperty("role", "muted")
        self.view_choice = Segments(
            [
                ("grid", self.tr("grid"), self.tr("Draw the environment's characters as a grid")),
                ("raw", self.tr("raw"), self.tr("Show the picture that the environment draws")),
            ]
        )
        for button in self.view_choice.buttons.values():
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keyboard with the game
        self.about = ElidedLabel()
        self.about.setProperty("role", "muted")
        self.pictures = [Picture(themes)]
        self.sentence = ElidedLabel()
        self.sentence.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.transport = Transport(themes)
        self.stripe_view = StripeView(themes)
        self._stripe_label = QLabel(self.tr("who acted"))
        self._stripe_label.setProperty("role", "muted")
        self._seats = SeatFrames(session.frame, self)
        self._closed: str | None = session_end(session)
        self._refusal = ""
        self._is_tiny = False
        self._lay_out()
        self._refusal_timer = QTimer(self)
        self._refusal_timer.setSingleShot(True)
        self._refusal_timer.setInterval(_REFUSAL_MILLISECONDS)
        self._refusal_timer.timeout.connect(self._forget_refusal)
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_MILLISECONDS)
        self._timer.timeout.connect(self.tell)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._connect()

    def _lay_out(self) -> None:
        head = self._head = QHBoxLayout()
        head.addWidget(self.name)
        head.addSpacing(6)
        head.addWidget(self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        head.addWidget(self.place, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self.view_choice, 0, Qt.AlignmentFlag.AlignVCenter)
        self._card = QFrame()
        self._card.setProperty("role", "card")
        self._card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._grid = QGridLayout(self._card)
        self._grid.setContentsMargins(1, 1, 1, 1)
        self._grid.setSpacing(2)
        self._grid.addWidget(self.pictures[0], 0, 0)
        stripe = QHBoxLayout()
        stripe.setSpacing(12)
        stripe.addWidget(self._stripe_label)
        stripe.addWidget(self.stripe_view, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addWidget(self.about)
        layout.addWidget(self._card, 1)
        layout.addWidget(self.sentence)
        layout.addWidget(self.transport)
        layout.addLayout(stripe)
        self.view_choice.hide()
        self.fit(QSize(800, 600))

    def _connect(self) -> None:
        session = self.session
        self._sessions.add(session)
        session.hello.connect(self._greet)
        session.state_changed.connect(self._take)
        session.frame_arrived.connect(self._show_frame)
        session.refused.connect(self._refuse)
        session.closed.connect(self._end)
        self.transport.wanted.connect(session.send)
        self.view_choice.choose(self._cockpit.preferences.get(_VIEW, "raw"))
        self.view_choice.chosen.connect(self._choose_view)
        self._choose_view(self.view_choice.choice)
        if session.hello_message is not None:
            self._greet(session.hello_message)
            self._take(session.state)
        self.tell()

    # ---- room ----------------------------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        """Modest: it takes all there is, and what scrolls around it must not scroll for more."""
        return self.minimumSizeHint()

    def fit(self, room: QSize) -> None:
        """In a small window the picture keeps its room, and words give way."""
        narrow, low = room.width() < _NARROW, room.height() < _LOW
        flat, tiny = room.height() < _FLAT, room.height() < _TINY
        side = 12 if narrow or low else 20
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.setContentsMargins(side, 6 if low else 14, side, 6 if low else 12)
        layout.setSpacing(4 if low else 8)
        set_style_property(self.name, "role", "title" if low or narrow else "huge")
        self.about.setVisible(not flat)
        self.place.setVisible(not narrow and not tiny)
        self._stripe_label.setVisible(not narrow and not tiny)
        self.stripe_view.setVisible(not tiny)
        if tiny != self._is_tiny:
            self._is_tiny = tiny
            # One line says it all: the sentence stands beside the name.
            self._head.insertWidget(3, self.sentence, 1) if tiny else layout.insertWidget(3, self.sentence)
            self._keep_corners()
        self.transport.fit(room.width() - 2 * side)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """What the keyboard of the session leaves over: ``?`` lists the keys."""
        if event is not None and event.text() == "?":
            self.toggle_keys()
        else:
            super().keyPressEvent(event)

    def toggle_keys(self) -> None:
        """List the keys over the picture, or not."""
        for picture in self.pictures:
            picture.hud.toggle_keys()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.session.wants_frames = True
        self._timer.start()
        self._seats.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self.session.wants_frames = False
        self._timer.stop()
        self._seats.stop()

    # ---- what the session says -----------------------------------------------------------------------------------

    def _greet(self, hello: Hello) -> None:
        self._closed = None
        for picture in self.pictures:
            self._introduce(picture, hello)
        self.tell()

    def _introduce(self, picture: Picture, hello: Hello) -> None:
        picture.show_keys(hello.key_map)
        self._keep_corners()

    def _keep_corners(self) -> None:
        """Games of tiles are not covered by chips, unless there is hardly any room for either."""
        hello = self.session.hello_message
        for picture in self.pictures:
            picture.keep_whole(hello is not None and hello.family in _TILES and not self._is_tiny)

    def _take(self, state: State) -> None:
        self.stripe_view.show_stripe(self._sessions.stripe_of(self.session.run_id))
        self._arrange_seats(state)
        if state.seats:
            env_id = self.session.hello_message.env_id if self.session.hello_message is not None else ""
            for picture, seat in zip(self.pictures, state.seats, strict=True):
                ended = words.outcome(env_id, seat.over, seat.total).word if seat.over else ""
                policy = self._policy_name(seat.checkpoint) if seat.checkpoint else ""
                picture.show_state(seat, None, ended=ended, policy=policy)
        else:
            self.pictures[0].show_state(state, state.speed)
        self.transport.show_state(state)
        self.view_choice.setVisible(bool(state.text) and bool(state.frames))
        self.tell()

    def _show_frame(self, frame: Frame) -> None:
        self.pictures[0].show_frame(frame)

    def _refuse(self, why: str) -> None:
        self._refusal = why
        self._refusal_timer.start()
        self.tell()

    def _forget_refusal(self) -> None:
        self._refusal = ""
        self.tell()

    def _end(self, reason: str) -> None:
        self._closed = reason
        self.tell()

    # ---- several seats -------------------------------------------------------------------------------------------

    def _arrange_seats(self, state: State) -> None:
        """One picture for each seat, next to each other."""
        wanted = max(1, len(state.seats))
        hello = self.session.hello_message
        while len(self.pictures) < wanted:
            picture = Picture(self._cockpit.themes)
            picture.want(self.pictures[0].wanted)
            if hello is not None:
                self._introduce(picture, hello)
            self._grid.addWidget(picture, 0, len(self.pictures))
            self.pictures.append(picture)
        while len(self.pictures) > wanted:
            self.pictures.pop().deleteLater()
        # The session brings the pictures of the first seat itself.
        self._seats.follow(dict(enumerate(self.pictures[1:], 2)))

    def _choose_view(self, name: str) -> None:
        shown: Shown = "grid" if name == "grid" else "raw"
        self._cockpit.preferences.put(_VIEW, shown)
        for picture in self.pictures:
            picture.want(shown)

    # ---- telling -------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Say how it stands; also by the clock, because a session that is gone says nothing."""
        session, hello, state = self.session, self.session.hello_message, self.session.state
        said = words.situation(hello, state, self._closed, joined=session.is_joined, named=self._policy_name)
        self.name.setText(one_line(hello.env_id) if hello is not None else self._name_of_run())
        self.badge.show_state(said.word, colour_name=said.colour)
        self.about.setText(words.about(hello, state, self._policy_name))
        episode = self.tr("episode {number}").format(number=state.episode)
        self.place.setText(episode if hello is not None else "")
        refused = bool(self._refusal) and self._closed is None
        set_style_property(self.sentence, "role", "error" if refused else said.role)
        self.sentence.setText(one_line(self._refusal) if refused else said.sentence)
        self.transport.set_usable(self._closed is None and hello is not None and session.is_joined)

    def _policy_name(self, place: str) -> str:
        return policy_name(self._cockpit, place)

    def _name_of_run(self) -> str:
        run = self._cockpit.runs.get(self.session.run_id)
        return self._cockpit.runs.label(run) if run is not None else self.tr("Live session")


def session_end(session: LiveSession) -> str | None:
    """Why a session that is over ended; None of one that may still be joined."""
    return "" if session.is_over else None
