"""Where a run stands in the queue, as a text that sorts. Pure.

A key travels with its run and a position does not: clients hear of runs that changed, and when one run moves, the
positions of all behind it change while their keys stay. So a move is one changed record: decided, stored and sent like
every other change of a run, and nothing has to be numbered again.

A key is a whole number, and behind it as many fractions as it needs: ``800000000007``, ``800000000007.ffff``. All parts
have their full width and the last fraction is never 0000, so the order of texts is the order of keys, and between two
keys there is always a third.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

_WHOLE_DIGITS, _FRACTION_DIGITS = 12, 4
_BASE = 16**_FRACTION_DIGITS
MIDDLE = 16**_WHOLE_DIGITS // 2
"""The first runs stand around here: there is as much room before them as behind."""


class QueueKeys:
    """Hands out keys for the end of the queue, each of them once."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        self._last += 1
        return whole(self._last)

    def seen(self, key: str) -> None:
        """A run that was there before has this one: all that are handed out come behind it."""
        self._last = max(self._last, _parts(key)[0] - MIDDLE)


def whole(number: int) -> str:
    """The key of the run that came as number so and so."""
    return f"{MIDDLE + number:0{_WHOLE_DIGITS}x}"


def in_front_of(keys: Iterable[str]) -> str:
    """A key before all of these."""
    return whole(_parts(min(keys, default=whole(1)))[0] - MIDDLE - 1)


def between(low: str, high: str) -> str:
    """A key between two, in their middle: each move into the same gap costs a bit, on whichever side the next one is.
    Raises ValueError where ``low`` is not the lower."""
    if low >= high:
        raise ValueError(f"{low} does not come before {high}")
    below, above = _parts(low), _parts(high)
    key: list[int] = []
    bounded = True
    for level in count():
        least = below[level] if level < len(below) else 0
        most = _BASE if not bounded else above[level] if level < len(above) else 0
        if most - least > 1:
            return _text([*key, (least + most) // 2])
        key.append(least)
        bounded = bounded and most == least  # behind a smaller number every fraction is smaller
    raise AssertionError("there is always another level")


def _parts(key: str) -> list[int]:
    return [int(part, 16) for part in key.split(".")]


def _text(parts: list[int]) -> str:
    fractions = (f"{part:0{_FRACTION_DIGITS}x}" for part in parts[1:])
    return ".".join([f"{parts[0]:0{_WHOLE_DIGITS}x}", *fractions])
