"""How a world of numbered states is drawn: the cells of one that is a grid, and its actions in words."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

_ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
    "BlackjackEnv": ("stick", "hit"),
}
_CLIFF = ("FFFFFFFFFFFF", "FFFFFFFFFFFF", "FFFFFFFFFFFF", "SCCCCCCCCCCG")


def cells_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """The rows of the grid whose cells are the states, numbered from the left and from above; () where there is
    none."""
    inner: Any = env.unwrapped
    if type(inner).__name__ == "CliffWalkingEnv":
        return _CLIFF
    desc = getattr(inner, "desc", None)
    space: Any = env.observation_space
    if not isinstance(desc, np.ndarray) or desc.size != getattr(space, "n", -1):
        return ()
    return tuple("".join(cell.decode() if isinstance(cell, bytes) else str(cell) for cell in row) for row in desc)


def action_names_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    space: Any = env.action_space
    inner: Any = env.unwrapped
    if (known := _ACTIONS.get(type(inner).__name__)) is not None and len(known) == int(space.n):
        return known
    named = getattr(inner, "actions", None)
    if isinstance(named, type) and hasattr(named, "__members__") and len(named.__members__) == int(space.n):
        return tuple(str(name).replace("_", " ") for name in named.__members__)
    return tuple(f"action {number}" for number in range(int(space.n)))
