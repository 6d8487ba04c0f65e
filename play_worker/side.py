"""One environment with its seat and the record of what happens there. Most sessions have one; several stand side by
side, and are played in lock-step."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import HandOver
from play_worker.actions import BadActionError, fitted, kept
from play_worker.actors import HumanActor
from play_worker.beginning import Beginning
from play_worker.games import make_game
from play_worker.history import Earlier, History
from play_worker.seat import Seat
from play_worker.stage import Stage

if TYPE_CHECKING:
    from mosaic_worker.recording.step_lane import StepLane
    from play_worker.beginning import Beginning

_NOTHING = object()


class Side:
    """Belongs to the session's thread."""

    def __init__(
        self,
        name: str,
        wish: HandOver,
        stage: Stage,
        params: Mapping[str, Any],
        lane: StepLane,
        wake: Callable[[], None],
    ) -> None:
        self.name, self.wish, self.stage = name, wish, stage
        self.key_map = stage.key_map
        self.seat = Seat(HumanActor(self.key_map, waits=stage.waits), stage.env, wake)
        self.history = History(lambda: make_game(stage.env_id, params))
        self.episode, self.step, self.total, self.over = -1, 0, 0.0, ""
        self.action = self.acted = ""
        """The last one, in words, and who took it."""
        self.problem = ""
        self.returns: list[float] = []
        """Of the episodes that were played to their end."""
        self.seen_turns = 0
        """How often the seat had changed hands when the session looked last."""
        self._lane = lane
        self._observation: Any = None
        self._chosen: Any = _NOTHING
        self._refusal = ""
        self._turn_told: tuple[int, int] = (-1, -1)
        self._advisor_told: tuple[str, int] = ("", -1)

    # ---- episodes ------------------------------------------------------------------------------------------------

    def begin_episode(self, seed: int) -> None:
        """Raises UsageError when the environment breaks."""
        self.step, self.total, self.over = 0, 0.0, ""
        self._observation = kept(self.stage.reset(seed))
        self.episode = self._lane.begin_episode(seed)
        self.history.begin(seed, self._observation)
        self.seat.begin_episode(seed)
        self.seat.human.last = None
        self.look_again()

    @property
    def is_playing(self) -> bool:
        return self.episode >= 0 and not self.over

    def look_again(self) -> None:
        """What was chosen no longer counts: somebody else plays, or from somewhere else."""
        self._chosen = _NOTHING
        if self.is_playing:
            self.seat.think(self._observation)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def choose(self) -> bool:
        """Have an action for the step to come; False while the actor does not know, or gave what is none."""
        if self._chosen is not _NOTHING:
            return True
        actor = self.seat.actor
        if (raw := actor.action(self._observation)) is None:
            return False
        try:
            self._chosen = fitted(self.stage.env.action_space, raw)
        except BadActionError as error:
            self._refuse(f"the {actor.name} actor gave a wrong action: {error}")
            return False
        return True

    def make_step(self) -> None:
        """Take the action that was chosen. Raises UsageError when the environment breaks."""
        action, self._chosen = self._chosen, _NOTHING
        value, extras = self._remarks(action)
        self._take(action, self.seat.actor.name, value, extras)
        if not self.over:
            self.seat.think(self._observation)

    def play_again(self, beginning: Beginning, after_each: Callable[[], None] = lambda: None) -> None:
        """Play a recorded episode, which has just begun here, up to the step that is taken over. Raises UsageError
        where the environment does not go along."""
        beginning.check(0, self._observation)
        for place, one in enumerate(beginning.steps(), start=1):
            reward = self._take(one.action, one.actor, one.value, one.extras)
            beginning.check(place, self._observation, reward)
            after_each()
        self.look_again()

    def _take(self, action: Any, actor: str, value: float | None, extras: dict[str, Any]) -> Any:
        """Make a step and record it; its reward."""
        observation, reward, terminated, truncated = self.stage.step(action)
        ended = terminated or truncated
        self._lane.append(
            self._observation,
            action,
            reward,
            terminated,
            truncated,
            value=value,
            actor=actor,
            extras=extras,
            final_observation=observation if ended else None,
        )
        self._observation = kept(observation)
        self.step += 1
        self.total += _as_number(reward)
        self.history.add(action, self.stage.env, self._observation, self.total)
        self.seat.human.last = action
        self.action, self.acted = self.in_words(action), actor
        if ended:
            self.over = "terminated" if terminated else "truncated"
            self.returns.append(self.total)
            self.seat.human.forget()
        return reward

    def _remarks(self, action: Any) -> tuple[float | None, dict[str, Any]]:
        """What the record is to know of a step besides: who began to play, and what the policy thought."""
        told = (self.seat.turns, self.episode)
        extras = dict(self.seat.actor.about) if self._turn_told != told else {}
        self._turn_told = told
        opinion, policy = self.seat.opinion, self.seat.policy
        if opinion is None or policy is None:
            return None, extras
        if not self.seat.is_human:
            return opinion.value, extras | opinion.extras
        if self._advisor_told != (policy.checkpoint, self.episode):
            self._advisor_told = (policy.checkpoint, self.episode)
            extras["advisor"] = policy.about
        advised = self._fitted(opinion.action)
        if advised is not None and not _equal(advised, action):
            extras["advised"] = advised
        return opinion.value, extras

    def _refuse(self, sentence: str) -> None:
        self._refusal = sentence
        if self.seat.is_human:
            self.problem = sentence
            return
        print(f"mosaic: {sentence}", file=sys.stderr, flush=True)
        self.seat.give_back(sentence)

    def taken_refusal(self) -> str:
        """Why the last action was none; empty when that was said."""
        sentence, self._refusal = self._refusal, ""
        return sentence

    # ---- going back ----------------------------------------------------------------------------------------------

    def earlier(self, steps: int) -> Earlier:
        """The episode as it was; nothing changes yet. Raises UsageError where it cannot be gone back."""
        return self.stage.busy("undo", lambda: self.history.earlier(steps))

    def go_back(self, earlier: Earlier) -> None:
        """Go on from there. What was played since stays recorded."""
        self._lane.undo(self.step - earlier.step, earlier.total)
        self.history.accept(earlier, self.stage.take(earlier.env))
        self._observation, self.step, self.total = earlier.observation, earlier.step, earlier.total
        self.action = self.acted = ""  # the last one has not happened any more
        if self.over:
            self.over = ""
            self.returns.pop()
        self.seat.human.forget()
        self.seat.actor.forget()
        self.look_again()

    # ---- what is told --------------------------------------------------------------------------------------------

    def in_words(self, action: Any) -> str:
        """Its name holds also where no key means it any more."""
        return self.key_map.label_of(action) or self.stage.key_map.label_of(action) or _brief(action)

    def preferred(self, action: Any) -> str:
        """What a policy would do, in words; nothing where it is no action."""
        found = self._fitted(action)
        return "" if found is None else self.in_words(found)

    def _fitted(self, action: Any) -> Any:
        try:
            return fitted(self.stage.env.action_space, action)
        except BadActionError:
            return None

    @property
    def is_waiting(self) -> bool:
        """Whether the next step waits for a person here."""
        return self.seat.is_human and self.is_playing

    def change_keys(self, key_map: KeyMap) -> None:
        self.key_map = self.seat.human.key_map = key_map

    def close(self) -> None:
        self.seat.close()
        self.history.close()
        self.stage.close()


def _brief(action: Any) -> str:
    text = " ".join(str(action).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) if isinstance(one, int) else repr(one) == repr(other)


def _as_number(reward: Any) -> float:
    """A reward that is no number is recorded as it is; the return is none any more."""
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        return math.nan
