"""What every describer promises, and the parts that several share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Seen:
    """An observation in words, and as a picture where there is one."""

    text: str
    picture: NDArray[np.uint8] | None = None


class Describer(Protocol):
    """Puts one environment into words. It has no state: the same observation gives the same words, so that a resumed
    run, a checkpoint that acts and a replay ask the same."""

    rules: str
    """What the environment is about, the same in every step."""
    actions: Sequence[str]
    """A word for each action, in the order of their numbers."""
    idle: int
    """The action that is taken where the model gives none that is valid."""
    family: str

    def describe(self, observation: Any) -> Seen: ...

    def expects(self, observation: Any, action: int) -> Any:
        """The observation that the action leads to by the rules, or None where that cannot be said."""

    def progression(self, observation: Any) -> float | None:
        """How far towards the goal this is, from 0 to 1; None where nobody can say."""


class PlainDescriber:
    """The answers of a describer that knows no more."""

    rules = ""
    actions: Sequence[str] = ()
    idle = 0
    family = "generic"

    def expects(self, observation: Any, action: int) -> Any:
        return None

    def progression(self, observation: Any) -> float | None:
        return None


def shown_number(value: Any) -> str:
    """Short, and the same on every machine."""
    text = f"{float(value):.3f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def are_same(one: Any, other: Any) -> bool:
    """Whether two observations are equal, however they are nested."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_same(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(are_same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
