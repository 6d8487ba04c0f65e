"""Who acted in the episode that is being played, from the states of its session. Without Qt."""

from __future__ import annotations

from gym_gui.ui.play.actors import UNKNOWN, ActorStripe, last_actor
from mosaic_protocol.live.messages import State


class LiveStripe:
    """Takes the states of one session as they come; some are passed over when many come at once."""

    def __init__(self) -> None:
        self._episode: int | None = None
        self.stripe = ActorStripe()

    def take(self, state: State) -> ActorStripe:
        """The stripe as of this state: steps since the last one belong to who made the last of them. Who was not there
        at the beginning of the episode does not know who made its first steps."""
        if state.episode != self._episode:
            is_first_look, self._episode = self._episode is None, state.episode
            self.stripe = ActorStripe()
            if is_first_look:
                self.stripe.add(UNKNOWN, state.step)
        self.stripe.cut(state.step)
        self.stripe.add(last_actor(state), state.step - self.stripe.steps)
        return self.stripe
