"""The points of one metric of one run: appended in batches, kept in order of their steps, bounded in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FIRST_ROOM = 256
_LEAST_POINTS = 64
MOST_POINTS = 1_500_000
"""A buffer that holds so many makes its older half coarser instead of growing: 24 bytes a point, 36 MB a metric."""


class SeriesBuffer:
    """Steps, wall times and values side by side. Not thread-safe: it belongs to the thread that reads it.

    The arrays handed out are views that stay as they are until the next :meth:`append`; copy them for other threads.
    ``version`` changes with every append, ``rewrites`` only when points that were there moved, so that what was derived
    from them must be derived again.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = max(_LEAST_POINTS, most)
        self._data: Floats = np.empty((3, min(FIRST_ROOM, self._most)))
        self._length = 0
        self.version = 0
        self.rewrites = 0
        self.thinned = 0
        """How many points were given up to stay within bounds."""

    def __len__(self) -> int:
        return self._length

    @property
    def steps(self) -> Floats:
        return self._data[0, : self._length]

    @property
    def wall_times(self) -> Floats:
        return self._data[1, : self._length]

    @property
    def values(self) -> Floats:
        return self._data[2, : self._length]

    def append(self, steps: Floats, wall_times: Floats, values: Floats) -> None:
        """Add points; a value that is not finite is NaN. Steps that come late are put where they belong."""
        count = len(steps)
        if count == 0:
            return
        if count > self._most // 2:
            for part in range(0, count, self._most // 2):
                rows = slice(part, part + self._most // 2)
                self.append(steps[rows], wall_times[rows], values[rows])
            return
        self._make_room(count)
        begin, end = self._length, self._length + count
        self._data[0, begin:end] = steps
        self._data[1, begin:end] = wall_times
        self._data[2, begin:end] = values
        self._length = end
        self.version += 1
        self._restore_order(begin)

    def _make_room(self, count: int) -> None:
        while self._length + count > self._most:
            self._thin_older_half()
        needed = self._length + count
        room = self._data.shape[1]
        if needed > room:
            grown = np.empty((3, min(self._most, max(needed, 2 * room))))
            grown[:, : self._length] = self._data[:, : self._length]
            self._data = grown

    def _thin_older_half(self) -> None:
        """Of every four older points the lowest and the highest stay, so that the shape of the curve does."""
        groups = self._length // 8
        picked = _lows_and_highs(self._data[2, : 4 * groups])
        kept = len(picked)
        for row in self._data:
            row[:kept] = row[: 4 * groups][picked]
            row[kept : kept + self._length - 4 * groups] = row[4 * groups : self._length]
        self._length -= 4 * groups - kept
        self.thinned += 4 * groups - kept
        self.rewrites += 1

    def _restore_order(self, begin: int) -> None:
        steps = self.steps
        first = steps[max(0, begin - 1) :]
        if np.all(first[1:] >= first[:-1]):
            return
        place = int(np.searchsorted(steps[:begin], steps[begin:].min(), side="right"))
        order = np.argsort(steps[place:], kind="stable") + place
        self._data[:, place : self._length] = self._data[:, order]
        self.rewrites += 1


def _lows_and_highs(values: Floats) -> npt.NDArray[np.intp]:
    """Where the lowest and the highest of every four values are, in order. NaN is neither, unless all are.

    A knock-out by whole columns: several times as fast as argmin and argmax over rows of four.
    """
    numbers = np.arange(0, len(values), 4)

    def best(columns: list[Floats], wins: np.ufunc) -> npt.NDArray[np.intp]:
        left, right = wins(columns[0], columns[1]), wins(columns[2], columns[3])
        second, fourth = left != columns[0], right != columns[2]
        return np.asarray(np.where(wins(left, right) == left, second, 2 + fourth.astype(np.intp)), dtype=np.intp)

    columns = [values[column::4] for column in range(4)]
    if np.isnan(values).any():
        low = best([np.nan_to_num(column, nan=np.inf) for column in columns], np.minimum)
        high = best([np.nan_to_num(column, nan=-np.inf) for column in columns], np.maximum)
    else:
        low, high = best(columns, np.minimum), best(columns, np.maximum)
    high = np.where(high == low, (low + 1) % 4, high)
    picked = np.empty(2 * len(numbers), dtype=np.intp)
    picked[0::2], picked[1::2] = numbers + np.minimum(low, high), numbers + np.maximum(low, high)
    return picked
