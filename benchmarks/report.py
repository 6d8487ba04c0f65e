"""What was measured, against which target, and the page that tells it. Pure: no clock, no files, no processes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import mean, median, pstdev, quantiles
from typing import Any, TypeVar

import numpy

from gym_gui.services.compare.statistics import Estimate, estimate, iqm

T = TypeVar("T")

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "≥": operator.ge,
    "≤": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Target:
    """A bound that a measurement must keep."""

    relation: str
    bound: float

    def is_reached(self, value: float) -> bool:
        """Not a number reaches nothing."""
        return _COMPARISONS[self.relation](value, self.bound)


@dataclass(frozen=True)
class Line:
    """One figure: the samples behind it, and the target it has. Without a target it is for information.

    What counts is the median of repeated measurements, which forgives a disturbed one, and the mean over seeds, since a
    seed that fails is no disturbance.
    """

    what: str
    values: Sequence[float]
    unit: str = ""
    target: Target | None = None
    over_seeds: bool = False
    is_iqm: bool = False
    """Over seeds the interquartile mean counts, and is shown with the interval of 95 % that the bootstrap gives it."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """When and how this line was measured, as far as that differs from the rest of its section."""

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"{self.what!r} was never measured")

    @property
    def centre(self) -> float:
        if self.is_iqm:
            return self._estimate.value
        return mean(self.values) if self.over_seeds else median(self.values)

    @property
    def _estimate(self) -> Estimate:
        return estimate(iqm, [numpy.array(self.values, dtype=float)])

    @property
    def reached(self) -> bool | None:
        """None where nothing is asked."""
        return None if self.target is None else self.target.is_reached(self.centre)

    @property
    def verdict(self) -> str:
        return {None: "for information", True: "pass", False: "**short**"}[self.reached]

    @property
    def measured(self) -> str:
        if self.is_iqm and (found := self._estimate).low is not None and found.high is not None:
            return f"{figure(found.value, self.unit)} (IQM, {figure(found.low)} to {figure(found.high)})"
        if self.over_seeds and len(self.values) > 1:
            return f"{figure(mean(self.values))} ± {figure(pstdev(self.values), self.unit)}"
        return figure(self.centre, self.unit)

    @property
    def spread(self) -> str:
        """Lowest to highest, and the middle half where there are enough samples to speak of one."""
        if len(self.values) == 1:
            return "one seed" if self.over_seeds else "once"
        if self.over_seeds:
            return ", ".join(map(figure, self.values)) + f" ({len(self.values)} seeds)"
        extent = f"{figure(min(self.values))} to {figure(max(self.values))} ({len(self.values)} times)"
        if len(self.values) < 4:
            return extent
        low, _, high = quantiles(self.values, n=4, method="inclusive")
        return f"{extent}, middle half {figure(low)} to {figure(high)}"


@dataclass(frozen=True)
class Section:
    """All that one benchmark found. ``problem`` says why it could not be made, when it could not."""

    name: str
    title: str
    method: str
    lines: Sequence[Line] = ()
    problem: str = ""
    measured: Mapping[str, str] = field(default_factory=dict)
    """When, on which commit and machine, under which load."""

    @property
    def command(self) -> str:
        return f'make bench ARGS="--only {self.name}"'

    def with_lines_of(self, part: Section) -> Section:
        """This section with the lines that were measured again, each in its place and with its own date."""
        apart = {name: value for name, value in part.measured.items() if self.measured.get(name) != value}
        fresh = {line.what: replace(line, apart=apart) for line in part.lines}
        lines = [fresh.pop(line.what, line) for line in self.lines]
        return replace(part, lines=[*lines, *fresh.values()], measured=self.measured)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Section:
        lines = [
            Line(**{**line, "target": Target(**line["target"]) if line["target"] else None})
            for line in document["lines"]
        ]
        return cls(**{**document, "lines": lines})


def chosen(candidates: Sequence[T], words: Sequence[str], title: Callable[[T], str] = str) -> list[T]:
    """Those whose title holds one of the words; all of them where no word is given."""
    return [one for one in candidates if not words or any(word in title(one) for word in words)]


def interleaved(pairs: int, first: Callable[[], T], second: Callable[[], T]) -> list[tuple[T, T]]:
    """Measure two things in the order ABBA ABBA …, so that a machine that drifts favours neither."""
    measured = []
    for number in range(pairs):
        if number % 2 == 0:
            measured.append((first(), second()))
        else:
            later = second()
            measured.append((first(), later))
    return measured


def ratios(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """First by second, pair by pair: what both suffered alike cancels out."""
    return [first / second for first, second in pairs]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that ``percent`` of a hundred values do not exceed, by nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def figure(value: float, unit: str = "") -> str:
    """A number with three significant digits, or all of its whole ones, and its unit."""
    if math.isfinite(value) and value != 0:
        decimals = max(0, 2 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{decimals}f}"
    else:
        text = f"{value:g}"
    return f"{text} {unit}".rstrip()


def page(sections: Sequence[Section]) -> str:
    """The whole report in Markdown. Each section says where and when it was measured: no two need to agree in that."""
    parts = ["# Benchmark results", _summary(sections)]
    parts += [_details(section) for section in sections]
    return "\n\n".join(parts) + "\n"


def exit_status(sections: Sequence[Section]) -> int:
    """0 when every target was reached, 1 when one was not, 2 when something could not be measured."""
    if any(section.problem for section in sections):
        return 2
    return 1 if any(line.reached is False for section in sections for line in section.lines) else 0


def _summary(sections: Sequence[Section]) -> str:
    rows = ["| What | Target | Figure | Verdict |", "|---|---|---|---|"]
    for section in sections:
        if section.problem:
            rows.append(f"| {section.title} | | | **not measured** |")
        rows += [
            f"| {line.what} | {_bound(line)} | {line.measured} | {line.verdict} |"
            for line in section.lines
            if line.target is not None
        ]
    return "\n".join(rows)


def _details(section: Section) -> str:
    parts = [f"## {section.title}", section.method, f"Command: `{section.command}`"]
    if section.measured:
        parts.append(_told(section.measured))
    if section.problem:
        parts.append(f"Not measured: {section.problem}")
    if section.lines:
        parts.append(_table(section.lines))
    return "\n\n".join(parts)


def _table(lines: Sequence[Line]) -> str:
    rows = ["| What | Target | Figure | Spread | Verdict |", "|---|---|---|---|---|"]
    rows += [f"| {line.what} | {_bound(line)} | {line.measured} | {line.spread} | {line.verdict} |" for line in lines]
    if any(line.apart for line in lines):
        apart = [" Measured apart |", "---|", *(f" {_told(line.apart).replace('|', '→')} |" for line in lines)]
        rows = [row + more for row, more in zip(rows, apart, strict=True)]
    return "\n".join(rows)


def _told(measured: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in measured.items())


def _bound(line: Line) -> str:
    if line.target is None:
        return ""
    return f"{line.target.relation} {line.target.bound:g} {line.unit}".rstrip()
