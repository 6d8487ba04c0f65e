"""Those who take the seat: a person, chance, a script. (A policy is in :mod:`.policy_actor`.)"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym

from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.regular_files import read_regular
from mosaic_worker.errors import UsageError

_MOST_SCRIPT_BYTES = 16 * 1024 * 1024
_MOST_WAITING = 8
"""Moves that a person may be ahead of a turn-based environment."""
_TAP_SECONDS = 0.15
"""How long a key counts as held that was struck in a terminal; a key that is held there strikes more often."""


class Actor(Protocol):
    """Chooses actions, in the session's thread. Raises nothing; :attr:`failure` says why it cannot go on."""

    name: str
    """As it stands in the record of steps."""

    @property
    def failure(self) -> str:
        """Why it gives the seat back, in one sentence; empty while it plays."""

    @property
    def about(self) -> dict[str, Any]:
        """What the record is to know besides the name, with the first step of a turn."""

    def begin_episode(self, seed: int) -> None: ...

    def action(self, observation: Any) -> Any:
        """What to do, as the actor spells it; None when it does not know yet. Asked again with the same observation
        until it does."""

    def forget(self) -> None:
        """The observation it was asked about is out of date."""

    def close(self) -> None: ...


class _Plain:
    failure: str = ""

    @property
    def about(self) -> dict[str, Any]:
        return {}

    def begin_episode(self, seed: int) -> None:
        """Nothing to prepare."""

    def forget(self) -> None:
        """Nothing was begun."""

    def close(self) -> None:
        """Nothing to end."""


class HumanActor(_Plain):
    """A person, by the keys that are held and struck."""

    name = "human"

    def __init__(self, key_map: KeyMap, *, waits: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.key_map, self._waits, self._clock = key_map, waits, clock
        self._held: tuple[str, ...] = ()
        self._taps: dict[str, float] = {}
        self._moves: deque[Any] = deque(maxlen=_MOST_WAITING)
        self.last: Any = None
        """The action that was played last, by any actor: without a key it goes on where the key map says no other."""

    @property
    def holds_keys(self) -> bool:
        return bool(self._held)

    def hold(self, keys: Sequence[str]) -> None:
        before, self._held = self._held, tuple(dict.fromkeys(keys))
        if self._waits and set(self._held) - set(before):
            self._move(self.key_map.action_for(self._held))

    def press(self, key: str) -> None:
        if self._waits:
            self._move(self.key_map.action_for((key,)))
        else:
            self._taps.pop(key, None)  # struck again, it is the last one
            self._taps[key] = self._clock() + _TAP_SECONDS

    def act(self, action: Any) -> None:
        """An action instead of a key: it is played once."""
        self._move(action)

    def action(self, observation: Any) -> Any:
        if self._moves:
            return self._moves.popleft()
        if self._waits:
            return None
        now = self._clock()
        struck = [key for key, until in self._taps.items() if until > now]
        found = self.key_map.action_for([*self._held, *(key for key in struck if key not in self._held)])
        self._taps = {key: self._taps[key] for key in struck}
        if found is not None:
            return found
        return self.last if self.key_map.idle is None else self.key_map.idle

    def forget(self) -> None:
        self._moves.clear()

    def _move(self, action: Any) -> None:
        if action is not None:
            self._moves.append(action)


class RandomActor(_Plain):
    """Draws actions; the same episode seed draws the same ones."""

    name = "random"

    def __init__(self, space: gym.Space[Any]) -> None:
        self._space = space

    def begin_episode(self, seed: int) -> None:
        self._space.seed(seed)

    def action(self, observation: Any) -> Any:
        return self._space.sample()


class ScriptedActor(_Plain):
    """Plays a list of actions, from the beginning in each episode."""

    name = "scripted"

    def __init__(self, actions: Sequence[Any]) -> None:
        self._actions, self._at = list(actions), 0

    def begin_episode(self, seed: int) -> None:
        self._at = 0

    def action(self, observation: Any) -> Any:
        if self._at >= len(self._actions):
            self.failure = "the script has no more actions"
            return None
        self._at += 1
        return self._actions[self._at - 1]


def read_script(file: str) -> list[Any]:
    """The actions in a file. Raises UsageError."""
    try:
        actions = json.loads(read_regular(Path(file).expanduser(), _MOST_SCRIPT_BYTES, follow=True))
    except OSError as error:
        raise UsageError(f"the script {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the script {file} is not JSON: {error}") from None
    if not isinstance(actions, list) or not actions:
        raise UsageError(f"the script {file} must hold a list of actions, such as [2, 2, 1]")
    return actions
