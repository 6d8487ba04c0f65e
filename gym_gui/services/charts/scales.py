"""Axes that people can read: where their marks are, and what stands beside them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum

_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_FARTHEST = 1e150
"""A diverged loss may be at the end of what a float holds, where differences overflow."""
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


class Unit(Enum):
    """What the numbers of an axis are."""

    PLAIN = "plain"
    SECONDS = "seconds"


def ticks(low: float, high: float, most: int, unit: Unit = Unit.PLAIN) -> list[float]:
    """At most about so many round numbers between two, ends included where they are round."""
    step = _step((high - low) / max(1, most), unit)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _step(least: float, unit: Unit) -> float:
    if unit is Unit.SECONDS and 1 <= least <= _TIMES[-1]:
        return float(next(one for one in _TIMES if one >= least))
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least * (1 - 1e-9))


def texts(values: Sequence[float], unit: Unit = Unit.PLAIN) -> list[str]:
    """What stands beside marks: as many digits as tell them apart, the same unit for all."""
    largest = max(map(abs, values), default=0.0)
    if unit is Unit.SECONDS:
        size, name = next(((size, name) for size, name in _UNITS if largest >= 2 * size), _UNITS[-1])
        return [f"{value / size:g} {name}" if value else "0" for value in values]
    size, name = next(((s, n) for s, n in ((1e9, "G"), (1e6, "M"), (1e4, "k")) if largest >= s), (1.0, ""))
    size = 1e3 if name == "k" else size
    shown: Callable[[float], str] = lambda value: f"{value / size:.6g}{name}" if value else "0"  # noqa: E731
    return [shown(value).replace("-", "−") for value in values]


def padded(low: float, high: float, spare: float = 0.05) -> tuple[float, float]:
    """A range with room at both ends; numbers that are all equal get some as well."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    low, high = max(low, -_FARTHEST), min(high, _FARTHEST)
    extent = high - low or abs(high) or 1.0
    return low - spare * extent, high + spare * extent
