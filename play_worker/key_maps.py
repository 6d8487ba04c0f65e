"""The keys of each family of environments, as tables.

Keys are chosen so that no map needs ``p r n q`` or ``.``, ``+``, ``-`` and Tab: those steer the session in a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_protocol.live.key_map import Binding, KeyMap, KeyMapError
from play_worker.actions import BadActionError, fitted

_FREE_KEYS = "1234567890asdwefghjklzxcvbmtyuio"
_PAIRS = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"), ("f", "h"), ("g", "t"), ("j", "l"), ("k", "i"))
"""One pair of keys for each number of a continuous action: less and more."""

_ARROWS_LAKE = {"left": (0, "left"), "down": (1, "down"), "right": (2, "right"), "up": (3, "up")}
_PUSH = {"left": (0, "push left"), "right": (2, "push right")}
DISCRETE: dict[str, tuple[dict[str, tuple[int, str]], tuple[int, str] | None]] = {
    # Environment: keys, and the action while no key is held (None: the last one goes on).
    "FrozenLake": (_ARROWS_LAKE, None),
    "FrozenLake8x8": (_ARROWS_LAKE, None),
    "CliffWalking": ({"up": (0, "up"), "right": (1, "right"), "down": (2, "down"), "left": (3, "left")}, None),
    "Taxi": (
        {
            "down": (0, "south"),
            "up": (1, "north"),
            "right": (2, "east"),
            "left": (3, "west"),
            "space": (4, "pick up"),
            "d": (5, "drop off"),
        },
        None,
    ),
    "Blackjack": ({"s": (0, "stick"), "h": (1, "hit")}, None),
    "CartPole": ({"left": (0, "push left"), "right": (1, "push right")}, None),
    "MountainCar": (_PUSH, (1, "coast")),
    "Acrobot": ({"left": (0, "turn left"), "right": (2, "turn right")}, (1, "let swing")),
    "LunarLander": (
        {"left": (1, "left engine"), "up": (2, "main engine"), "right": (3, "right engine")},
        (0, "do nothing"),
    ),
    "CarRacing": (
        {"right": (1, "steer right"), "left": (2, "steer left"), "up": (3, "gas"), "down": (4, "brake")},
        (0, "do nothing"),
    ),
    "MiniGrid": (
        {
            "left": (0, "turn left"),
            "right": (1, "turn right"),
            "up": (2, "go forward"),
            "a": (3, "pick up"),
            "d": (4, "drop"),
            "space": (5, "toggle"),
            "enter": (6, "done"),
        },
        None,
    ),
}
_SAME_KEYS = {
    "CliffWalkingSlippery": "CliffWalking",
    "BabyAI": "MiniGrid",
    "LunarLanderContinuous": "LunarLander",
    "BipedalWalkerHardcore": "BipedalWalker",
}

CONTINUOUS: dict[str, tuple[dict[str, tuple[Sequence[float], str]], Sequence[float]]] = {
    # Environment: what each key contributes, and what holds without keys.
    "Pendulum": ({"left": ([2.0], "turn left"), "right": ([-2.0], "turn right")}, [0.0]),
    "MountainCarContinuous": ({"left": ([-1.0], "push left"), "right": ([1.0], "push right")}, [0.0]),
    "LunarLander": (
        {
            "up": ([1.0, 0.0], "main engine"),
            "left": ([0.0, -1.0], "left engine"),
            "right": ([0.0, 1.0], "right engine"),
        },
        [0.0, 0.0],
    ),
    "BipedalWalker": (
        {
            "a": ([-1.0, 0.0, 0.0, 0.0], "left hip back"),
            "d": ([1.0, 0.0, 0.0, 0.0], "left hip forth"),
            "s": ([0.0, -1.0, 0.0, 0.0], "left knee bends"),
            "w": ([0.0, 1.0, 0.0, 0.0], "left knee stretches"),
            "left": ([0.0, 0.0, -1.0, 0.0], "right hip back"),
            "right": ([0.0, 0.0, 1.0, 0.0], "right hip forth"),
            "down": ([0.0, 0.0, 0.0, -1.0], "right knee bends"),
            "up": ([0.0, 0.0, 0.0, 1.0], "right knee stretches"),
        },
        [0.0, 0.0, 0.0, 0.0],
    ),
    "CarRacing": (
        {
            "left": ([-1.0, 0.0, 0.0], "steer left"),
            "right": ([1.0, 0.0, 0.0], "steer right"),
            "up": ([0.0, 0.6, 0.0], "gas"),
            "down": ([0.0, 0.0, 0.8], "brake"),
        },
        [0.0, 0.0, 0.0],
    ),
}
_ATARI_KEYS = {"FIRE": "space", "UP": "up", "DOWN": "down", "LEFT": "left", "RIGHT": "right"}


def key_map_for(env: gym.Env[Any, Any], family: str) -> KeyMap:
    """The table of the environment, else keys for any environment with such actions."""
    space, name = env.action_space, _base_name(env)
    if isinstance(space, gym.spaces.Discrete):
        if family == "atari" and (meanings := _action_meanings(env)):
            return _atari(meanings)
        known = DISCRETE.get(name)
        if known is not None and all(int(action) < space.n for action, _ in known[0].values()):
            return _choices(*known)
        return _any_discrete(space)
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1:
        table = CONTINUOUS.get(_SAME_KEYS.get(name, name))
        if table is not None and len(table[1]) == space.shape[0]:
            return _sums(*table)
        return _any_box(space)
    if isinstance(space, gym.spaces.MultiDiscrete) and len(space.shape) == 1:
        return _any_parts([int(count) - 1 for count in space.nvec])
    if isinstance(space, gym.spaces.MultiBinary) and len(space.shape) == 1:
        return _any_parts([1] * int(space.shape[0]))
    return KeyMap()


def with_changes(key_map: KeyMap, changes: Mapping[str, Any], space: gym.Space[Any]) -> KeyMap:
    """The keys with a person's own. Raises :class:`KeyMapError`, also for a key that means no action of ``space``: it
    would be found out when it is pressed, in the middle of the game."""
    changed = key_map.changed(changes)
    for key, action in changes.items():
        try:
            if action is not None:
                fitted(space, action)
        except BadActionError as error:
            raise KeyMapError(f"the key {key!r} cannot be used: {error}") from None
    return changed


def _base_name(env: gym.Env[Any, Any]) -> str:
    name = env.spec.name if env.spec is not None else ""
    first = name.partition("-")[0]
    base = first if first in ("MiniGrid", "BabyAI") else name
    return _SAME_KEYS.get(base, base)


def _choices(table: dict[str, tuple[int, str]], idle: tuple[int, str] | None) -> KeyMap:
    bindings = tuple(Binding((key,), action, label) for key, (action, label) in table.items())
    return KeyMap(bindings, idle=None if idle is None else idle[0], idle_label="" if idle is None else idle[1])


def _sums(table: dict[str, tuple[Sequence[float], str]], idle: Sequence[float]) -> KeyMap:
    bindings = tuple(Binding((key,), list(part), label) for key, (part, label) in table.items())
    return KeyMap(bindings, adds=True, idle=list(idle), idle_label="let go")


def _any_discrete(space: gym.spaces.Discrete[Any]) -> KeyMap:
    first, count = int(space.start), min(int(space.n), len(_FREE_KEYS))
    keys = (Binding((_FREE_KEYS[at],), first + at, f"action {first + at}") for at in range(count))
    return KeyMap(tuple(keys))


def _any_box(space: gym.spaces.Box) -> KeyMap:
    size = int(space.shape[0])
    low = np.where(np.isfinite(space.low), space.low, -1.0)
    high = np.where(np.isfinite(space.high), space.high, 1.0)
    idle = np.clip(np.zeros(size), low, high)
    found = []
    for at, (less, more) in enumerate(_PAIRS[:size]):
        for key, bound, sign in ((less, low, "−"), (more, high, "+")):
            part = [0.0] * size
            part[at] = float(bound[at])
            found.append(Binding((key,), part, f"{sign}{at + 1}"))
    return KeyMap(tuple(found), adds=True, idle=idle.tolist(), idle_label="let go")


def _any_parts(most: Sequence[int]) -> KeyMap:
    """One key raises one part of the action by one: held together they add up."""
    found = []
    for at, top in enumerate(most[: len(_FREE_KEYS)]):
        part = [0] * len(most)
        part[at] = min(1, top)
        found.append(Binding((_FREE_KEYS[at],), part, f"part {at + 1}"))
    return KeyMap(tuple(found), adds=True, idle=[0] * len(most), idle_label="let go")


def _action_meanings(env: gym.Env[Any, Any]) -> list[str]:
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    return [str(one) for one in meanings()] if callable(meanings) else []


def _atari(meanings: Sequence[str]) -> KeyMap:
    """Games name their actions (UPRIGHTFIRE): the keys are in the name."""
    found = []
    for action, meaning in enumerate(meanings):
        keys = tuple(key for word, key in _ATARI_KEYS.items() if word in meaning)
        if keys:
            words = [word.lower() for word in _ATARI_KEYS if word in meaning]
            found.append(Binding(keys, action, " ".join(words)))
    idle = meanings.index("NOOP") if "NOOP" in meanings else None
    return KeyMap(tuple(found), idle=idle, idle_label="do nothing" if idle is not None else "")
