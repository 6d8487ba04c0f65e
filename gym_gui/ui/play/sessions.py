"""The live sessions that this cockpit takes part in: where the parts of the window find them by their run."""

from __future__ import annotations

from PyQt6 import sip
from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.play.actors import ActorStripe
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.live_stripe import LiveStripe
from mosaic_protocol.live.messages import Hello

MOST_REMEMBERED = 64
"""How many sessions that are over still say what their actions are called."""


class LiveSessions(QObject):
    """Lives in the GUI's thread; :meth:`of` gives the one of a bridge. ``joined(str)`` brings the run of a session that
    was added."""

    joined = pyqtSignal(str)

    def __init__(self, bridge: TrainerBridge) -> None:
        super().__init__(bridge)
        self._sessions: dict[str, LiveSession] = {}
        self._greetings: dict[str, Hello] = {}
        self._stripes: dict[str, LiveStripe] = {}

    @classmethod
    def of(cls, bridge: TrainerBridge) -> LiveSessions:
        found: LiveSessions | None = bridge.findChild(cls)
        return cls(bridge) if found is None else found

    def add(self, session: LiveSession) -> None:
        """Make a session known. Its maker keeps it and closes it; adding it again changes nothing."""
        if self.get(session.run_id) is session:
            return
        run_id = session.run_id
        self._sessions[run_id] = session
        stripe = self._stripes[run_id] = LiveStripe()
        session.hello.connect(lambda hello: self._greet(run_id, hello))
        session.state_changed.connect(stripe.take)
        if session.hello_message is not None:
            self._greet(run_id, session.hello_message)
            stripe.take(session.state)
        self.joined.emit(run_id)

    def get(self, run_id: str) -> LiveSession | None:
        """The session of a run, as long as its owner keeps it."""
        session = self._sessions.get(run_id)
        if session is not None and sip.isdeleted(session):
            del self._sessions[run_id], self._stripes[run_id]
            return None
        return session

    def stripe_of(self, run_id: str) -> ActorStripe:
        """Who acted in the episode that the session of a run is in, since it was added here."""
        stripe = self._stripes.get(run_id)
        return stripe.stripe if stripe is not None else ActorStripe()

    def hello_of(self, run_id: str) -> Hello | None:
        """What the session of a run said of itself, also after its end."""
        return self._greetings.get(run_id)

    def _greet(self, run_id: str, hello: Hello) -> None:
        self._greetings.pop(run_id, None)
        self._greetings[run_id] = hello
        while len(self._greetings) > MOST_REMEMBERED:
            self._greetings.pop(next(iter(self._greetings)))
