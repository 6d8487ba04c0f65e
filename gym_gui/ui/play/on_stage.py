"""A live session on the stage of the window, with the keyboard."""

from __future__ import annotations

from PyQt6.QtCore import QObject
from PyQt6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.play.desk import PlayDesk
from gym_gui.ui.play.keys import SessionKeys
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.stage_live import LiveStage


class SessionOnStage(QObject):
    """Gives the stage to the session that the desk has, and takes it back at its end."""

    def __init__(self, cockpit: Cockpit, desk: PlayDesk, stage: Stage) -> None:
        super().__init__(stage)
        self._cockpit, self._desk, self._stage = cockpit, desk, stage
        self._waiting: LiveStage | None = None
        """The one that gets the keyboard as soon as its session speaks."""
        desk.session_changed.connect(self._show)
        desk.status_changed.connect(self._give_keyboard)

    def _show(self, session: LiveSession | None) -> None:
        if session is None:
            self._waiting = None
            live, focused = self._stage.live, QApplication.focusWidget()
            held = live is not None and focused is not None and live.isAncestorOf(focused)
            self._stage.end_live()
            if held:  # else the last keys of the game go to whatever Qt finds next
                self._stage.setFocus()
            return
        shown = self._waiting = LiveStage(self._cockpit, session)
        SessionKeys(session, self._desk.hand_over, shown).install(shown)
        self._stage.show_live(shown)
        self._give_keyboard()

    def _give_keyboard(self) -> None:
        """A person who starts or joins a session wants to play: from then on the keyboard is with the stage, where a
        key that is pressed too early changes nothing. Somebody who types meanwhile is not interrupted."""
        shown: QWidget | None = self._stage if self._desk.status == "starting" else self._waiting
        if self._desk.status == "live":
            self._waiting = None
        if shown is not None and not isinstance(QApplication.focusWidget(), QLineEdit | QPlainTextEdit | QTextEdit):
            shown.setFocus()
