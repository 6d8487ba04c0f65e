"""Whether what an environment gave is what was recorded, to the bit, and in words where it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mosaic_protocol.steps import heap
from mosaic_protocol.steps.chunk import REWARD
from mosaic_protocol.steps.columns import Path
from mosaic_protocol.steps.recorded_episodes import Leaves, RecordedEpisode
from mosaic_worker.recording.step_fields import leaves

_MOST_TEXT = 120


@dataclass(frozen=True)
class Difference:
    """The first thing that is not as it was recorded."""

    place: int
    """The step within its episode, counted from 0."""
    number: int
    """The same step within its run."""
    what: str
    """``observation``, ``reward``, ``terminated``, ``truncated``; with the part that differs where there are many."""
    recorded: str
    came: str

    def __str__(self) -> str:
        return f"step {self.place} differs: {self.what} was {self.recorded}, now it is {self.came}"


def taken_apart(value: Any) -> Leaves:
    """A value as the recorder takes it apart."""
    return dict(leaves((), value))


def observation_difference(
    recorded: Mapping[Path, Any], came: Any, called: str = "observation"
) -> tuple[str, str, str] | None:
    """(what, recorded, came) of the first part that differs. What was not recorded is not compared."""
    if not recorded:
        return None
    parts = {(): came} if set(recorded) == {()} else taken_apart(came)
    for path in dict.fromkeys((*recorded, *parts)):
        name = "/".join((called, *map(str, path)))
        if path not in parts:
            return name, shown(recorded[path]), "not there"
        if path not in recorded:
            return name, "not there", shown(parts[path])
        if not same(recorded[path], parts[path]):
            return _element(name, recorded[path], parts[path])
    return None


def same(recorded: Any, came: Any) -> bool:
    """Equal in type, form and every bit; one NaN is like another."""
    if isinstance(came, np.ndarray | np.generic | bool | int | float) and not isinstance(recorded, str | None):
        ours, theirs = np.asarray(recorded), np.asarray(came)
        if (ours.dtype.kind, ours.dtype.itemsize, ours.shape) != (
            theirs.dtype.kind,
            theirs.dtype.itemsize,
            theirs.shape,
        ):
            return False
        if ours.dtype.kind in "fc":
            return bool(np.array_equal(ours, theirs, equal_nan=True))
        return bool(np.array_equal(ours, theirs))
    return _alike(recorded, _as_recorded(came))


def recorded_rewards(episode: RecordedEpisode) -> list[Any]:
    """As the environment gave them: one that is no number is among its step's extras, and NaN in the column. NaN alone
    is a reward that was NaN, or one that was too large to be recorded."""
    found: list[Any] = episode.rewards.tolist()
    for place, told in episode.extras.items():
        if math.isnan(found[place]) and REWARD in told:
            found[place] = told[REWARD]
    return found


def same_reward(recorded: Any, came: Any) -> bool | None:
    """Whether a reward is the recorded one; None where there is none to compare it with."""
    try:
        number = float(came)  # as the recorder tries
    except (TypeError, ValueError, OverflowError):
        return None if isinstance(recorded, float) and math.isnan(recorded) else same(recorded, came)
    if not isinstance(recorded, float):
        return False
    return recorded == number or (math.isnan(recorded) and math.isnan(number))


def shown(value: Any) -> str:
    """A value in few characters."""
    text = " ".join(str(value.tolist() if isinstance(value, np.ndarray | np.generic) else value).split())
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def _element(name: str, recorded: Any, came: Any) -> tuple[str, str, str]:
    """Of arrays the first number that differs, and how many do."""
    ours, theirs = np.asarray(recorded), np.asarray(came)
    if not ours.shape or ours.shape != theirs.shape or ours.dtype != theirs.dtype or ours.dtype.kind not in "biuf":
        return name, _with_form(recorded), _with_form(came)
    unequal = ours != theirs
    if ours.dtype.kind == "f":
        unequal &= ~(np.isnan(ours) & np.isnan(theirs))
    place = tuple(int(index[0]) for index in np.nonzero(unequal))
    many = f" ({int(unequal.sum())} of {unequal.size} numbers differ)" if unequal.sum() > 1 else ""
    return f"{name}[{', '.join(map(str, place))}]", shown(ours[place]), f"{shown(theirs[place])}{many}"


def _with_form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return f"{shown(value)} ({type(value).__name__})"


def _as_recorded(value: Any) -> Any:
    """What the recorder's heap makes of a value: tuples become lists, objects their text."""
    return next(heap.entries(heap.packed(0, "", value))).value


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(other, np.ndarray) and isinstance(one, np.ndarray) and same(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)
