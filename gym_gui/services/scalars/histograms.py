"""Histograms of event files side by side: how a distribution moves over the steps of a run. Pure numpy.

Each step has buckets of its own. To be compared they are laid over one row of equal buckets; the count of a bucket is
taken to lie evenly in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROWS = 48
"""Of a picture of many steps: a row is some pixels high there."""
_FARTHEST = 1e150
"""The difference of two edges is still a number."""
_THINNEST = 1e-9
"""Of all that is shown: a bucket of one value alone is taken to be so wide."""


@dataclass(frozen=True)
class Histogram:
    """One step: buckets with something in them, from ``lefts`` to ``rights``."""

    step: int
    wall_time: float
    lefts: Floats
    rights: Floats
    counts: Floats

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def ends(self) -> tuple[float, float] | None:
        """From the least to the greatest value; None for an empty one."""
        return (float(self.lefts.min()), float(self.rights.max())) if len(self.counts) else None


@dataclass(frozen=True)
class Heat:
    """``shares[row, column]``: how much of a step's values lies between two edges; a column for each of ``steps``."""

    steps: tuple[int, ...]
    edges: Floats
    shares: Floats


def histogram_of(buckets: Sequence[tuple[float, float, float]], step: int, wall_time: float) -> Histogram:
    """From what a file says: buckets without a finite edge or without anything in them are left out."""
    table = np.array(buckets, np.float64).reshape(-1, 3)
    table = table[np.isfinite(table).all(axis=1) & (table[:, 2] > 0)]
    edges = np.sort(np.clip(table[:, :2], -_FARTHEST, _FARTHEST), axis=1)
    return Histogram(step, wall_time, edges[:, 0], edges[:, 1], np.minimum(table[:, 2], _FARTHEST))


def heat(histograms: Sequence[Histogram], rows: int = ROWS) -> Heat:
    """All of them on one row of edges, each as shares of its own total."""
    ends = [one.ends for one in histograms if one.ends is not None]
    low, high = (min(first for first, _ in ends), max(last for _, last in ends)) if ends else (0.0, 1.0)
    if low == high:  # one value alone: a bucket around it
        half = max(abs(low) * 0.01, 0.5)
        low, high = low - half, high + half
    edges = np.linspace(low, high, rows + 1)
    columns = [_shares(one, edges) for one in histograms]
    shares = np.stack(columns, axis=1) if columns else np.zeros((rows, 0))
    return Heat(tuple(one.step for one in histograms), edges, shares)


def _shares(one: Histogram, edges: Floats) -> Floats:
    """What lies below each edge, bucket by bucket; the differences are what lies between them."""
    if not len(one.counts):
        return np.zeros(len(edges) - 1)
    width = np.maximum(one.rights - one.lefts, (edges[-1] - edges[0]) * _THINNEST)
    parts = one.counts / one.counts.max()  # a sum of huge counts would be infinite
    below = np.clip((edges[:, None] - one.lefts) / width, 0.0, 1.0) @ parts
    below[-1] = parts.sum()  # a value on the last edge belongs to the last row
    return np.asarray(np.diff(below) / parts.sum())
