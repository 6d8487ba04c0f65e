"""Observations and actions in words, for environments that people know. An environment's own words come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_OBSERVATIONS: dict[str, tuple[str, ...]] = {
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole velocity"),
    "Acrobot": ("cos angle 1", "sin angle 1", "cos angle 2", "sin angle 2", "velocity 1", "velocity 2"),
    "MountainCar": ("position", "velocity"),
    "MountainCarContinuous": ("position", "velocity"),
    "Pendulum": ("cos angle", "sin angle", "velocity"),
    "LunarLander": (
        "x position",
        "y position",
        "x velocity",
        "y velocity",
        "angle",
        "angular velocity",
        "left leg down",
        "right leg down",
    ),
    "FrozenLake": ("field",),
    "CliffWalking": ("field",),
    "Taxi": ("state",),
    "Blackjack": ("your sum", "dealer shows", "usable ace"),
}
_ACTIONS: dict[str, tuple[str, ...]] = {
    "CartPole": ("push left", "push right"),
    "Acrobot": ("torque −1", "no torque", "torque +1"),
    "MountainCar": ("push left", "do nothing", "push right"),
    "LunarLander": ("do nothing", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}
_ACTION_PARTS: dict[str, tuple[str, ...]] = {
    "Pendulum": ("torque",),
    "MountainCarContinuous": ("force",),
    "LunarLander": ("main engine", "side engines"),
    "LunarLanderContinuous": ("main engine", "side engines"),
    "BipedalWalker": ("hip 1", "knee 1", "hip 2", "knee 2"),
    "CarRacing": ("steering", "gas", "brake"),
}


def _name(env_id: str) -> str:
    """CartPole-v1, package:CartPole-v1 and ALE/Pong-v5 without their version and namespace."""
    return env_id.rpartition(":")[2].rpartition("/")[2].rpartition("-v")[0] or env_id


def _known(table: Mapping[str, Sequence[str]], env_id: str, count: int) -> Sequence[str]:
    found = table.get(_name(env_id), ())
    return found if len(found) == count else ()


def observation_names(env_id: str, path: Sequence[str | int], count: int) -> list[str]:
    """Names for the numbers of one part of an observation; their place where nobody has named them."""
    known = _known(_OBSERVATIONS, env_id, count) if not path else ()
    if known:
        return list(known)
    prefix = "/".join(map(str, path))
    if count == 1:
        return [prefix or "observation"]
    return [f"{prefix}[{number}]" for number in range(count)]


def action_name(env_id: str, action: int, told: Sequence[str] = ()) -> str:
    """An action that is counted, in words; empty where nobody has named it. ``told`` by the environment itself."""
    names = told or _ACTIONS.get(_name(env_id), ())
    return names[action] if 0 <= action < len(names) else ""


def action_names(env_id: str, count: int, told: Sequence[str] = ()) -> list[str]:
    """All actions that are counted, in words or by number."""
    return [action_name(env_id, number, told) or str(number) for number in range(count)]


def action_part_names(env_id: str, count: int) -> list[str]:
    """Names for the numbers of a continuous action."""
    return list(_known(_ACTION_PARTS, env_id, count)) or [f"[{number}]" for number in range(count)]
