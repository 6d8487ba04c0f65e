"""States of one environment on the way, so that a place in a long episode is reached by few steps.

Where the state of an environment cannot be kept whole, none is kept, and the way leads over the beginning.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from mosaic_worker.state import env_state
from mosaic_worker.state.tensor_kinds import Tensors

EVERY_STEPS = 100
MOST_BYTES = 256 * 2**20
_MOST_DROPPED = 5


@dataclass(frozen=True)
class Snapshot:
    """The environment before a step, and what was seen there."""

    content: dict[str, Any]
    arrays: Tensors
    observation: Any

    @property
    def bytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays.values()) + 2000


class Snapshots:
    """Keeps states at every so many steps; when they take too much room, every second one goes."""

    def __init__(self, every: int = EVERY_STEPS, most_bytes: int = MOST_BYTES) -> None:
        self.every, self.most_bytes = every, most_bytes
        self.why_not = ""
        """Why no states are kept."""
        self._kept: dict[int, Snapshot] = {}
        self._dropped: set[int] = set()

    @property
    def places(self) -> list[int]:
        return sorted(self._kept)

    def offer(self, place: int, env: gym.Env[Any, Any], observation: Any) -> None:
        """Keep the state at this place if one is due; the beginning needs none, it is a reset. Raises nothing: a replay
        works without."""
        due = self.every and place and not place % self.every
        if self.why_not or not due or place in self._kept or place in self._dropped:
            return
        arrays: Tensors = {}
        try:
            content = env_state.capture(SimpleNamespace(envs=[env]), arrays)
        except Exception as error:  # noqa: BLE001 - foreign code is asked for its state in ways it may not expect
            self.stop(f"{type(error).__name__}: {error}")
            return
        if not content["complete"]:
            self.stop(f"{', '.join(content['missing'])} cannot be kept")
            return
        self._kept[place] = Snapshot(content, arrays, copy.deepcopy(observation))
        while sum(one.bytes for one in self._kept.values()) > self.most_bytes and len(self._kept) > 1:
            self.every *= 2
            self._kept = {place: one for place, one in self._kept.items() if place % self.every == 0}

    def before(self, place: int) -> tuple[int, Snapshot] | None:
        """The last state at or before a place."""
        places = self.places
        found = bisect_right(places, place)
        return (places[found - 1], self._kept[places[found - 1]]) if found else None

    def restore(self, snapshot: Snapshot, env: gym.Env[Any, Any]) -> None:
        env_state.restore(SimpleNamespace(envs=[env]), snapshot.content, snapshot.arrays)

    def drop(self, place: int) -> None:
        """The environment went on otherwise from this state. Simulators have moments in which that happens; where it
        happens again and again, part of the state was not found."""
        self._kept.pop(place, None)
        self._dropped.add(place)
        if len(self._dropped) >= _MOST_DROPPED:
            self.stop("the environment goes on otherwise from kept states")

    def forget_after(self, place: int) -> None:
        """The episode goes on otherwise from this place."""
        self._kept = {at: state for at, state in self._kept.items() if at <= place}

    def stop(self, why: str) -> None:
        """Keep no more, and trust none that are kept."""
        self.why_not = why
        self._kept.clear()
