"""The way an episode went, so that it can be gone back.

An earlier step is reached in a second environment: from the nearest state that was kept before it, or from the seed,
with the same actions. What is seen on the way is compared with what was seen then, so the running episode is given up
only for one that is known to be the same. Where the environment goes on otherwise, nothing is undone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_worker.errors import UsageError
from mosaic_worker.replay.snapshots import Snapshots
from play_worker.actions import kept

MOST_STEPS = 100_000
"""Of an episode: a longer one cannot be undone."""


@dataclass(frozen=True)
class Earlier:
    """An environment that stands at an earlier step."""

    env: gym.Env[Any, Any]
    observation: Any
    step: int
    total: float
    """The return up to there."""


class History:
    """One episode after the other. Belongs to one thread; closes the second environment, not the first."""

    def __init__(self, make: Callable[[], gym.Env[Any, Any]]) -> None:
        self._make = make
        self._twin: gym.Env[Any, Any] | None = None
        self.begin(0, None)

    def begin(self, seed: int, observation: Any) -> None:
        """An episode was begun with a reset."""
        self._seed = seed
        self._actions: list[Any] = []
        self._seen = [_fingerprint(observation)]
        self._totals = [0.0]
        self._states = Snapshots()
        self._why_not = ""

    def forget(self, why: str = "this episode cannot be undone: nobody watched when it began") -> None:
        """Nothing will be undone in this episode, and what to say if somebody wants it."""
        self._why_not = why
        self._actions, self._seen, self._totals, self._states = [], [], [], Snapshots(every=0)

    def add(self, action: Any, env: gym.Env[Any, Any], observation: Any, total: float) -> None:
        """A step was made, and led to this."""
        if self._why_not:
            return
        if len(self._actions) >= MOST_STEPS:
            self.forget(f"this episode cannot be undone: it has more than {MOST_STEPS:,} steps")
            return
        self._actions.append(kept(action))
        self._seen.append(_fingerprint(observation))
        self._totals.append(total)
        self._states.offer(len(self._actions), env, observation)

    def __len__(self) -> int:
        return len(self._actions)

    def earlier(self, steps: int) -> Earlier:
        """Where the episode was so many steps ago; nothing changes yet. Raises UsageError where that cannot be had."""
        place = len(self) - steps
        if place < 0 and not len(self):
            raise UsageError(self._why_not or "there is no step to undo")
        if place < 0:
            raise UsageError(f"{steps} steps cannot be undone: the episode has {len(self)}")
        if self._twin is None:
            self._twin = self._make()
        try:
            while True:
                kept_state = self._states.before(place)
                observation = self._simulated(self._twin, kept_state[0] if kept_state else None, place)
                if observation is not _OTHERWISE:
                    return Earlier(self._twin, observation, place, self._totals[place])
                if kept_state is None:
                    break
                self._states.drop(kept_state[0])
        except UsageError:
            raise
        except Exception as error:  # an environment is foreign code
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise UsageError(f"this cannot be undone: the environment failed on the way back: {reason}") from error
        self.forget("this episode cannot be undone: the environment does not go the same way twice")
        raise UsageError(self._why_not)

    def accept(self, earlier: Earlier, left: gym.Env[Any, Any]) -> None:
        """The episode goes on from there; ``left`` is the environment that it was in."""
        self._twin = left
        del self._actions[earlier.step :], self._seen[earlier.step + 1 :], self._totals[earlier.step + 1 :]
        self._states.forget_after(earlier.step)

    def close(self) -> None:
        if self._twin is not None:
            self._twin.close()

    def _simulated(self, env: gym.Env[Any, Any], state_at: int | None, place: int) -> Any:
        """What is seen at a place, or that it is not the same."""
        observation, _ = env.reset(seed=self._seed)
        at = 0
        if state_at is not None and (found := self._states.before(state_at)) is not None:
            self._states.restore(found[1], env)
            at, observation = state_at, kept(found[1].observation)
        while True:
            if _fingerprint(observation) != self._seen[at]:
                return _OTHERWISE
            if at == place:
                return kept(observation)
            observation = env.step(self._actions[at])[0]
            at += 1


_OTHERWISE = object()


def _fingerprint(value: Any, before: int = 0) -> int:
    """A number that tells observations apart, so that a picture need not be kept for each step."""
    if isinstance(value, np.ndarray | np.generic):
        return zlib.crc32(value.tobytes(), before)
    if isinstance(value, dict):
        for name, inner in value.items():
            before = _fingerprint(inner, zlib.crc32(str(name).encode(), before))
        return before
    if isinstance(value, tuple | list):
        for inner in value:
            before = _fingerprint(inner, before)
        return before
    return zlib.crc32(repr(value).encode(), before)
