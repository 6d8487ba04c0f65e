"""``python -m gym_gui.tests.support.cockpit_at_play RUN_ID watch|steer|end``: a whole cockpit with a person at it, in a
process that can be killed. Says ``playing`` when it takes part in the session; ``end`` ends the session and itself."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PyQt6.QtCore import QEvent, Qt, QTimer
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QApplication

from gym_gui.services.run_words import is_over
from gym_gui.tests.ui.whole_window import part, train_dock
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.play.desk import PlayDesk
from mosaic_protocol.paths import MosaicPaths

_LOOK_MILLISECONDS = 10
_KEYS = {Qt.Key.Key_1: "1", Qt.Key.Key_2: "2", Qt.Key.Key_Tab: "\t"}


class Person:
    """Joins the session, and does there what it was asked to."""

    def __init__(self, cockpit: CockpitApp, run_id: str, intent: str) -> None:
        self._cockpit, self._run_id, self._intent = cockpit, run_id, intent
        play = train_dock(cockpit).play
        assert play is not None
        self._desk: PlayDesk = play.desk
        self._acts: Callable[[], None] = self._join
        self._turns = 0
        self._timer = QTimer()
        self._timer.timeout.connect(self._act)
        self._timer.start(_LOOK_MILLISECONDS)

    def _act(self) -> None:
        self._acts()

    def _join(self) -> None:
        if self._desk.status == "live" and self._desk.session is not None and self._desk.session.state.frames:
            self._acts = {"watch": self._watch, "steer": self._steer, "end": self._end}[self._intent]
            print("playing", flush=True)
            return
        run = self._cockpit.window.cockpit.runs.get(self._run_id)
        if run is not None and is_over(run):
            self._leave()  # says nothing: the test notices
        elif run is not None and self._desk.status == "idle":
            self._desk.join(self._run_id)

    def _watch(self) -> None:
        """Who was killed before may have left the seat to the person."""
        session = self._desk.session
        if session is not None and session.state.actor == "human" and not session.state.loading:
            self._desk.hand_over()

    def _steer(self) -> None:
        """Keys of the game, and now and then the seat changes hands."""
        self._turns += 1
        key = Qt.Key.Key_Tab if self._turns % 7 == 0 else (Qt.Key.Key_1, Qt.Key.Key_2)[self._turns % 2]
        live = part(self._cockpit, Stage).live
        if live is None:
            return
        kinds = (QEvent.Type.KeyPress, QEvent.Type.KeyRelease) if self._turns % 3 else (QEvent.Type.KeyPress,)
        for kind in kinds:  # some keys are still down when the process is killed
            QApplication.sendEvent(live, QKeyEvent(kind, key, Qt.KeyboardModifier.NoModifier, _KEYS[key]))

    def _end(self) -> None:
        if self._desk.status == "live":
            self._desk.end()
        elif self._desk.status == "idle":
            self._leave()

    def _leave(self) -> None:
        self._timer.stop()
        self._cockpit.window.close()


def main() -> int:
    app = QApplication(sys.argv[:1])
    cockpit = CockpitApp(app, MosaicPaths.from_environment(), start_daemon=False)
    cockpit.open()
    person = Person(cockpit, *sys.argv[1:])
    try:
        app.exec()
    finally:
        cockpit.close()
    assert person is not None
    return 1 if cockpit.reporter.reports else 0


if __name__ == "__main__":
    sys.exit(main())
