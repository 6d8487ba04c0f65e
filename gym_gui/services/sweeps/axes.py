"""A space as axes side by side: where each trial crosses each of them, and which trials are within given ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gym_gui.services.run_words import quantity
from gym_gui.services.sweeps.insight import objective_title, shown_value, worth
from gym_gui.services.sweeps.model import Sweep, Trial
from gym_gui.services.sweeps.space import Dimension

Places = npt.NDArray[np.float64]
Range = tuple[float, float]
OBJECTIVE = ""
"""The name of the last axis, which is no setting."""
_TICKS = 4


@dataclass(frozen=True)
class Axis:
    """From ``low`` at 0 to ``high`` at 1; of choices each has a place of its own."""

    name: str
    title: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    choices: tuple[object, ...] = ()

    def place(self, value: object) -> float:
        """Between 0 and 1; NaN for what is not on the axis."""
        return float(self.places([value])[0])

    def places(self, values: Sequence[object]) -> Places:
        """The same for many: a sweep may have ten thousand trials."""
        if self.choices:
            known = {_key(one): _spread(at, len(self.choices)) for at, one in enumerate(self.choices)}
            return np.array([known.get(_key(value), math.nan) for value in values])
        numbers = np.array([value if type(value) in (int, float) else math.nan for value in values], dtype=np.float64)
        if self.high <= self.low:
            return np.where(np.isfinite(numbers), 0.5, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.log:
                numbers = np.log(numbers / self.low) / math.log(self.high / self.low)
            else:
                numbers = (numbers - self.low) / (self.high - self.low)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def value(self, place: float) -> float:
        """What stands at a place of a range."""
        if self.log:
            return float(self.low * (self.high / self.low) ** place)
        return self.low + place * (self.high - self.low)

    def text(self, place: float) -> str:
        """What stands at a place, in words."""
        if self.choices:
            last = len(self.choices) - 1
            return shown_value(self.choices[min(last, max(0, round(place * last)))] if last else self.choices[0])
        value = self.value(place)
        if self.name == OBJECTIVE:
            return quantity(value)
        return shown_value(round(value) if self.whole else float(f"{value:.3g}"))

    def ticks(self) -> list[tuple[float, str]]:
        """(place, text) of a few values to read the axis by."""
        if self.choices:
            return [(_spread(at, len(self.choices)), shown_value(one)) for at, one in enumerate(self.choices)][:12]
        inner = _decades(self) if self.log else _round_values(self)
        found = dict.fromkeys([0.0, *inner, 1.0])
        return [(place, self.text(place)) for place in found]


def axes_of(sweep: Sweep) -> list[Axis]:
    """One for each setting that is searched, and last the objective as far as it was seen."""
    values = [value for trial in sweep.trials if (value := worth(trial)) is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    settings = [_axis(name, one) for name, one in sweep.spec.space.items()]
    return [*settings, Axis(OBJECTIVE, objective_title(sweep.spec), low, high)]


def places_of(axes: Sequence[Axis], trials: Sequence[Trial]) -> Places:
    """A row for each trial with its place on each axis."""
    columns = [
        axis.places([worth(trial) if axis.name == OBJECTIVE else trial.params.get(axis.name) for trial in trials])
        for axis in axes
    ]
    return np.stack(columns, axis=1)


def within(places: Places, names: Sequence[str], ranges: Mapping[str, Range]) -> npt.NDArray[np.bool_]:
    """Which rows are inside every range; what has no place on an axis is outside of any range on it."""
    inside = np.ones(len(places), dtype=bool)
    for name, (low, high) in ranges.items():
        if name in names:
            column = places[:, list(names).index(name)]
            with np.errstate(invalid="ignore"):
                inside &= (column >= low - 1e-9) & (column <= high + 1e-9)
    return inside


def filter_text(axes: Sequence[Axis], ranges: Mapping[str, Range]) -> str:
    """What is filtered for, in words: ``learning_rate 0.0001 to 0.003, episodic return from 200``."""
    told = []
    for axis in axes:
        if axis.name not in ranges:
            continue
        low, high = ranges[axis.name]
        if high >= 1:
            told.append(f"{axis.title} from {axis.text(low)}")
        elif low <= 0:
            told.append(f"{axis.title} up to {axis.text(high)}")
        else:
            told.append(f"{axis.title} {axis.text(low)} to {axis.text(high)}")
    return ", ".join(told)


def _axis(name: str, one: Dimension) -> Axis:
    if one.kind == "choice":
        return Axis(name, name, choices=one.choices)
    return Axis(name, name, one.low, one.high, one.log, one.kind == "int")


def _key(value: object) -> tuple[bool, object]:
    """True is not the number 1."""
    return isinstance(value, bool), value


def _spread(at: int, count: int) -> float:
    return at / (count - 1) if count > 1 else 0.5


def _decades(axis: Axis) -> list[float]:
    powers = range(math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high)) + 1)
    apart = max(1, math.ceil(len(powers) / _TICKS))
    return [place for power in powers[::apart] if 0.12 < (place := axis.place(10.0**power)) < 0.88]


def _round_values(axis: Axis) -> list[float]:
    span = axis.high - axis.low
    if span <= 0:
        return []
    step = _round_step(span / _TICKS)
    values = (step * number for number in range(math.ceil(axis.low / step), math.floor(axis.high / step) + 1))
    return [place for value in values if 0.12 < (place := axis.place(value)) < 0.88]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least), 10 * power)
