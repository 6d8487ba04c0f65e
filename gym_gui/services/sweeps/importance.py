"""Which settings the good trials have in common: importance by how much the best of them differ from all.

For each setting two densities over its range are compared: of the best quarter of the trials and of all trials. A
setting that the good trials share stands far from the crowd (Pearson's divergence), one that does not matter is spread
like all. This is the idea of PED-ANOVA; it needs the order of trials only, so it may count those that were pruned as
worse than every complete one, whatever their rung. numpy alone, some milliseconds for thousands of trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gym_gui.services.sweeps.axes import Axis, axes_of, places_of
from gym_gui.services.sweeps.insight import worth
from gym_gui.services.sweeps.model import Sweep, Trial, TrialState

Floats = npt.NDArray[np.float64]
FEWEST = 8
"""Trials that were judged; of fewer nothing is said."""
_BEST_SHARE = 0.25
_BINS = 32
_RESAMPLES = 24
_LEAST_DENSITY = 1e-9


@dataclass(frozen=True)
class Importance:
    """The setting's share of all that was found, between 0 and 1, and how much it varies when trials are drawn again
    (one standard deviation)."""

    setting: str
    share: float
    spread: float


def importance_of(sweep: Sweep) -> list[Importance]:
    """Most important first; nothing where too few trials were judged, or one setting alone is searched."""
    ranked = _ranked(sweep)
    axes = axes_of(sweep)[:-1] if len(ranked) >= FEWEST else []
    if len(axes) < 2:
        return []
    cells = np.stack([_cells(axis, places) for axis, places in zip(axes, places_of(axes, ranked).T, strict=True)])
    sizes = [len(axis.choices) or _BINS for axis in axes]
    shares = _shares(cells, sizes, smooth=[not axis.choices for axis in axes])
    chance = np.random.default_rng(0)
    again = [
        _shares(cells[:, np.sort(chance.integers(len(ranked), size=len(ranked)))], sizes, [not a.choices for a in axes])
        for _ in range(_RESAMPLES)
    ]
    spreads = np.std(again, axis=0)
    found = [
        Importance(axis.name, float(share), float(spread))
        for axis, share, spread in zip(axes, shares, spreads, strict=True)
    ]
    return sorted(found, key=lambda one: -one.share)


def _ranked(sweep: Sweep) -> list[Trial]:
    """Judged trials, best first: complete ones by value, then pruned ones by the rung they came to and their value."""
    judged = [t for t in sweep.trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED) and worth(t) is not None]
    sign = sweep.spec.sign()

    def key(trial: Trial) -> tuple[bool, int, float]:
        is_pruned = trial.state is TrialState.PRUNED
        return is_pruned, -trial.last_rung if is_pruned else 0, -sign * (worth(trial) or 0.0)

    return sorted(judged, key=key)


def _cells(axis: Axis, places: Floats) -> npt.NDArray[np.int64]:
    """Which cell of the axis each place is in; a choice is a cell."""
    count = len(axis.choices) or _BINS
    known = np.nan_to_num(places, nan=0.5)
    if axis.choices:
        return np.rint(known * (count - 1)).astype(np.int64)
    return np.clip((known * count).astype(np.int64), 0, count - 1)


def _shares(cells: npt.NDArray[np.int64], sizes: list[int], smooth: list[bool]) -> Floats:
    """Rows are settings, columns trials from the best to the worst."""
    best = max(2, round(_BEST_SHARE * cells.shape[1]))
    found = np.array(
        [
            _divergence(_density(row[:best], size, kernel), _density(row, size, kernel))
            for row, size, kernel in zip(cells, sizes, smooth, strict=True)
        ]
    )
    total = found.sum()
    return found / total if total > 0 else np.full(len(found), 1 / len(found))


def _density(cells: npt.NDArray[np.int64], size: int, smooth: bool) -> Floats:
    """Of a range with a Gaussian kernel of Scott's width, so that few trials do not look like peaks."""
    counts = np.bincount(cells, minlength=size).astype(np.float64)
    if smooth:
        width = max(1.0, float(np.std(cells)) * len(cells) ** -0.2)
        away = np.arange(size)
        kernel = np.exp(-0.5 * ((away[:, None] - away[None, :]) / width) ** 2)
        counts = (kernel / kernel.sum(axis=0)) @ counts
    else:
        counts += 1.0 / size
    found: Floats = np.maximum(counts / counts.sum(), _LEAST_DENSITY)
    return found


def _divergence(best: Floats, everything: Floats) -> float:
    return float(np.sum(everything * (best / everything - 1) ** 2))
