"""What a sweep would train, and how long that may take, said before it starts. Pure.

Bounds, not guesses: how many trials a pruner stops depends on their values, which nobody knows yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gym_gui.services.run_estimate import DAY, Estimate, spoken_time
from gym_gui.services.run_words import counted, size
from gym_gui.services.sweeps.model import MEDIAN_NEEDS, SweepSpec


@dataclass(frozen=True)
class SweepCost:
    """Of a sweep whose runs have a length; runs that crash and are tried again come on top. ``lanes``: runs that train
    at the same time; ``of_one``: what one run takes, None where nobody has measured its script."""

    runs: int
    least_steps: int
    most_steps: int
    lanes: int
    of_one: Estimate | None = None

    @property
    def least_seconds(self) -> float | None:
        return self._seconds(self.least_steps)

    @property
    def most_seconds(self) -> float | None:
        return self._seconds(self.most_steps)

    @property
    def bytes(self) -> int | None:
        """At most."""
        found = self.of_one
        return None if found is None or found.bytes is None else found.bytes * self.runs

    def _seconds(self, steps: int) -> float | None:
        return None if self.of_one is None else steps / self.of_one.steps_per_second / self.lanes

    def steps_told(self) -> str:
        if self.least_steps == self.most_steps:
            return f"{self.most_steps:,} in {counted(self.runs, 'run')}"
        return f"{self.least_steps:,} to {self.most_steps:,}, as the pruner finds, in up to {counted(self.runs, 'run')}"

    def brief(self) -> str:
        """Where there is room for one line; "" where the speed is not known."""
        if self.of_one is None:
            return ""
        shortest, longest = (spoken_time(one or 0.0) for one in (self.least_seconds, self.most_seconds))
        time = f"about {longest}" if shortest == longest else f"about {shortest} to {longest}"
        space = "" if self.bytes is None else f", up to {size(self.bytes)} of disk"
        return f"{time} for the whole sweep{space}"

    def sentence(self) -> str:
        """The same with what it rests on."""
        return f"{self.brief()}; each run {self.of_one.sentence()}" if self.of_one is not None else ""

    @property
    def warning(self) -> str:
        """Before it takes days; "" where it does not, or where the speed is not known."""
        most = self.most_seconds
        if most is None or most < DAY:
            return ""
        return f"this sweep may take {spoken_time(most)}: try fewer trials, seeds or steps first"

    def as_object(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "least_steps": self.least_steps,
            "most_steps": self.most_steps,
            "least_seconds": self.least_seconds,
            "most_seconds": self.most_seconds,
            "bytes": self.bytes,
            "estimate": None if self.of_one is None else self.of_one.as_object(),
        }


def cost(spec: SweepSpec, of_one: Estimate | None, free_lanes: int = 0) -> SweepCost | None:
    """None where the script alone knows how long a run is. ``free_lanes``: runs that the machine has room for, 0 where
    that is not known."""
    total, seeds = spec.total_steps, len(spec.seeds)
    if not total:
        return None
    runs = spec.trials * seeds
    lanes = max(1, min(spec.parallel, runs, free_lanes or spec.parallel))
    return SweepCost(runs, _least(spec, total), runs * total, lanes, of_one)


def _least(spec: SweepSpec, total: int) -> int:
    """The steps of a sweep whose pruner stops every trial that it may, at the first rung where it may."""
    ends = [*spec.rungs, total]
    going = spec.trials
    steps = going * ends[0]
    for begin, end in pairwise(ends):
        if spec.pruner == "asha":
            going = max(1, going // spec.eta)
        elif spec.pruner == "median":
            going = min(going, MEDIAN_NEEDS)
        steps += going * (end - begin)
    return steps + going * (len(spec.seeds) - 1) * total
