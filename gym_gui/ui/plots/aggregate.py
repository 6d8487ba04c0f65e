"""Several seeds of one experiment as one curve: their mean and the interval that the true mean is likely in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gym_gui.ui.plots.series_buffer import Floats

GRID = 400
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_95_MORE = ((20, 2.086), (25, 2.060), (30, 2.042), (40, 2.021), (60, 2.000), (120, 1.980))
_T_95_MANY = 1.960


@dataclass(frozen=True)
class Band:
    """A mean with the bounds of its 95 % interval; they are NaN where only one seed got."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def aggregate(series: Sequence[tuple[Floats, Floats]], low: float, high: float, grid: int = GRID) -> Band:
    """Mean and interval (Student's t, 95 %) of several (x, y), ``x`` ascending, on a grid from ``low`` to ``high``.

    A seed counts wherever it has points around, so that one that is behind does not hide what the others did.
    """
    edges = np.linspace(low, high, grid + 1)
    x = (edges[:-1] + edges[1:]) / 2
    table = np.array([_on_grid(*one, edges) for one in series]).reshape(len(series), grid)
    finite = np.isfinite(table)
    count = finite.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(finite, table, 0.0).sum(axis=0) / count
        spread = np.sqrt(np.where(finite, (table - mean) ** 2, 0.0).sum(axis=0) / (count - 1))
        half = np.where(count > 1, _t_quantiles(count) * spread / np.sqrt(count), np.nan)
    seen = count > 0
    return Band(x[seen], mean[seen], (mean - half)[seen], (mean + half)[seen])


def _on_grid(x: Floats, y: Floats, edges: Floats) -> Floats:
    """The mean of the points in each cell; between two points the line that joins them; NaN beyond the ends."""
    cells = len(edges) - 1
    finite = np.isfinite(y)
    if not finite.all():
        x, y = x[finite], y[finite]
    if not len(x):
        return np.full(cells, np.nan)
    places = np.append(np.searchsorted(x, edges[:-1]), np.searchsorted(x, edges[-1], side="right"))
    count = np.diff(places)
    on_grid = np.interp((edges[:-1] + edges[1:]) / 2, x, y, left=np.nan, right=np.nan)
    filled = count > 0
    if filled.any():
        on_grid[filled] = np.add.reduceat(y[: places[-1]], places[:-1][filled]) / count[filled]
    return on_grid


def _t_quantiles(count: np.ndarray) -> Floats:
    quantiles = np.array([np.nan, np.nan, *_T_95])
    most = int(count.max(initial=0))
    if most >= len(quantiles):
        freedom = np.arange(len(quantiles) - 1, most)
        quantiles = np.concatenate([quantiles, [_t_beyond_table(int(n)) for n in freedom]])
    return np.asarray(quantiles[count])


def _t_beyond_table(freedom: int) -> float:
    """The tabled value of the next fewer degrees, which errs on the wide side."""
    known = [value for degrees, value in ((15, _T_95[-1]), *_T_95_MORE) if degrees <= freedom]
    return known[-1] if freedom < 1000 else _T_95_MANY
