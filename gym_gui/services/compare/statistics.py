"""Aggregates over runs and environments with intervals, after "Deep RL at the Edge of the Statistical Precipice".

Pure, and numpy alone: the package of that paper is archived and needs an old pandas. Its numbers are the oracle of the
tests (``tools/comparison_oracle.py`` makes them again).

The *scores* of a group are one array for each environment, one score for each run; environments may have different
numbers of runs. Intervals come from the stratified bootstrap: runs are drawn again within each environment, so that
every resample has as many runs of each as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = Sequence[Array]
Aggregate: TypeAlias = Callable[[Scores], Array]
"""From arrays whose last axis are runs, one for each environment, to one number for all leading axes."""

SAMPLES = 2000
CONFIDENCE = 0.95
FEWEST_RUNS = 2
"""Of one run nothing can be said about others: no interval is invented."""
_TRIMMED = 0.25
_MOST_NUMBERS = 4_000_000
"""Drawn at once; what is more goes in slices, so that memory stays small whatever is compared."""


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval that holds it in 95 of 100 repetitions of the experiment; without one where there are
    too few runs."""

    value: float
    low: float | None = None
    high: float | None = None


# ---- aggregates --------------------------------------------------------------------------------------------------


def iqm(scores: Scores) -> Array:
    """The mean of the middle half of all runs of all environments."""
    together = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = int(_TRIMMED * together.shape[-1])
    return np.asarray(together[..., cut : together.shape[-1] - cut].mean(axis=-1))


def mean(scores: Scores) -> Array:
    """The mean over environments of the mean over runs."""
    return np.asarray(_each(scores).mean(axis=-1))


def median(scores: Scores) -> Array:
    """The median over environments of the mean over runs; of a single environment the median over its runs."""
    if len(scores) == 1:
        return np.asarray(np.median(scores[0], axis=-1))
    return np.asarray(np.median(_each(scores), axis=-1))


def optimality_gap(best: float) -> Aggregate:
    """By how much runs fall short of the best score; what is above it makes up for nothing."""

    def gap(scores: Scores) -> Array:
        return np.asarray(best - _each([np.minimum(one, best) for one in scores]).mean(axis=-1))

    return gap


def _each(scores: Scores) -> Array:
    return np.stack([one.mean(axis=-1) for one in scores], axis=-1)


def estimate(aggregate: Aggregate, scores: Scores, *, samples: int = SAMPLES, seed: int = 0) -> Estimate:
    """An aggregate with its interval. Every environment needs a run; without a second one there is no interval."""
    return estimates(aggregate, [one[None] for one in scores], samples=samples, seed=seed)[0]


def estimates(aggregate: Aggregate, scores: Scores, *, samples: int = SAMPLES, seed: int = 0) -> list[Estimate]:
    """The same at several points: each array has a row for each of them, with a score for each run. A run that is drawn
    is drawn for all points, since its scores along a curve depend on each other."""
    values = aggregate(scores)
    if any(one.shape[-1] < FEWEST_RUNS for one in scores):
        return [Estimate(float(value)) for value in values]
    low, high = _intervals(_resampled(aggregate, scores, samples, seed, numbers=sum(one.size for one in scores)))
    return [Estimate(*map(float, three)) for three in zip(values, low, high, strict=True)]


def profile_estimates(scores: Scores, levels: Array, *, samples: int = SAMPLES, seed: int = 0) -> list[Estimate]:
    """For each level how many of the runs score above it, environments counted alike: a performance profile."""
    above = [(one[None, :] > levels[:, None]).astype(np.float64) for one in scores]
    return estimates(mean, above, samples=samples, seed=seed)


def _resampled(aggregate: Aggregate, scores: Scores, samples: int, seed: int, *, numbers: int) -> Array:
    """``numbers``: how many an aggregate of one resample handles."""
    chance, found = np.random.default_rng(seed), list[Array]()
    at_once = max(1, _MOST_NUMBERS // numbers)
    for begin in range(0, samples, at_once):
        count = min(at_once, samples - begin)
        found.append(aggregate([_drawn(chance, one, count) for one in scores]))
    return np.concatenate(found, axis=-1)


def _drawn(chance: np.random.Generator, scores: Array, count: int) -> Array:
    runs = scores.shape[-1]
    return np.take(scores, chance.integers(runs, size=(count, runs)), axis=-1)


def _intervals(values: Array) -> tuple[Array, Array]:
    """Of resamples along the last axis."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail], axis=-1)
    return np.asarray(low), np.asarray(high)


# ---- one against another -----------------------------------------------------------------------------------------


def improvement(better: Scores, worse: Scores) -> Array:
    """How probable it is that a run of the first group beats one of the second in the same environment; a draw counts
    half."""
    return np.asarray(np.stack([_beats(one, other) for one, other in zip(better, worse, strict=True)], -1).mean(-1))


def _beats(one: Array, other: Array) -> Array:
    mine, theirs = one[..., :, None], other[..., None, :]
    return np.asarray(((mine > theirs) + 0.5 * (mine == theirs)).mean(axis=(-1, -2)))


def improvement_estimate(better: Scores, worse: Scores, *, samples: int = SAMPLES, seed: int = 0) -> Estimate:
    """The same with its interval; both groups are drawn again."""
    value = float(improvement(better, worse))
    if any(len(one) < FEWEST_RUNS for one in (*better, *worse)):
        return Estimate(value)
    middle = len(better)

    def both(scores: Scores) -> Array:
        return improvement(scores[:middle], scores[middle:])

    pairs = sum(len(one) * len(other) for one, other in zip(better, worse, strict=True))
    low, high = _intervals(_resampled(both, (*better, *worse), samples, seed, numbers=pairs))
    return Estimate(value, float(low), float(high))


# ---- scores of different environments ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """What scores of an environment are measured by: what chance reaches is 0, what a good agent reaches is 1."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not np.isfinite([self.low, self.high]).all() or self.low == self.high:
            raise ValueError("a reference has two different finite numbers")

    def normalised(self, scores: Array) -> Array:
        return (scores - self.low) / (self.high - self.low)
