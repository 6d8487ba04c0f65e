"""A live session on the stage of the window, with the keyboard."""

from __future__ import annotations

from PyQt6.QtCore import QObject
from PyQt6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit

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
            self._stage.end_live()
            return
        shown = self._waiting = LiveStage(self._cockpit, session)
        SessionKeys(session, self._desk.hand_over, shown).install(shown)
        self._stage.show_live(shown)

    def _give_keyboard(self) -> None:
        """A person who starts or joins a session wants to play. Somebody who types meanwhile is not interrupted."""
        if self._desk.status == "live" and self._waiting is not None:
            shown, self._waiting = self._waiting, None
            if not isinstance(QApplication.focusWidget(), QLineEdit | QPlainTextEdit | QTextEdit):
                shown.setFocus()
