"""From a million points to what a screen can show: the lowest and the highest value of each column of pixels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gym_gui.ui.plots.series_buffer import Floats

BINS = 1200
BLOCK = 64

Places = npt.NDArray[np.intp]


class BlockExtremes:
    """The lowest and highest value of each whole block of a growing array: a million points need no second look.

    NaN gives way to numbers; a block of nothing else is NaN.
    """

    def __init__(self) -> None:
        self._room: Floats = np.empty((2, 0))
        self._blocks = 0
        self._of: object = None

    @property
    def lowest(self) -> Floats:
        return self._room[0, : self._blocks]

    @property
    def highest(self) -> Floats:
        return self._room[1, : self._blocks]

    def follow(self, values: Floats, of: object) -> None:
        """Take up what was appended; with another ``of`` than last time the values are new altogether."""
        if of != self._of:
            self._of, self._blocks = of, 0
        blocks = len(values) // BLOCK
        if blocks <= self._blocks:
            return
        if blocks > self._room.shape[1]:
            grown = np.empty((2, max(blocks, 2 * self._room.shape[1])))
            grown[:, : self._blocks] = self._room[:, : self._blocks]
            self._room = grown
        fresh = values[self._blocks * BLOCK : blocks * BLOCK].reshape(-1, BLOCK)
        lowest, highest = fresh.min(axis=1), fresh.max(axis=1)
        gaps = np.isnan(lowest)
        if gaps.any():
            lowest[gaps] = np.fmin.reduce(fresh[gaps], axis=1)
            highest[gaps] = np.fmax.reduce(fresh[gaps], axis=1)
        self._room[0, self._blocks : blocks], self._room[1, self._blocks : blocks] = lowest, highest
        self._blocks = blocks


def decimate(
    x: Floats,
    y: Floats,
    low: float,
    high: float,
    bins: int = BINS,
    *,
    blocks: BlockExtremes | None = None,
    logarithmic: bool = False,
) -> tuple[Floats, Floats]:
    """The points from ``low`` to ``high`` (``x`` ascending), at most two for each of ``bins`` equal parts of it.

    No extreme is lost, few points come back as they are, and the nearest point beyond either end is kept, so that a
    line runs to the edge of the view. A part in which every value is NaN is NaN; elsewhere NaN gives way to numbers.
    With the extremes of its ``blocks`` a long series is decimated from these. On a ``logarithmic`` axis
    the parts are equal there, and ``low`` must be positive.
    """
    begin = max(0, int(np.searchsorted(x, low, side="left")) - 1)
    end = min(len(x), int(np.searchsorted(x, high, side="right")) + 1)
    if end - begin <= 2 * bins:
        return x[begin:end], y[begin:end]
    edges = (np.geomspace if logarithmic else np.linspace)(low, high, bins + 1)[1:-1]
    if blocks is not None and end - begin > 2 * bins * BLOCK:
        return _from_blocks(x, y, begin, end, edges, blocks)
    starts, ends = _parts(x[begin:end], edges)
    part_x, part_y = x[begin:end], y[begin:end]
    lowest, highest = _extremes(part_y, part_y, starts)
    return _interleaved(part_x[starts], part_x[ends - 1], part_y[starts] > part_y[ends - 1], lowest, highest)


def _from_blocks(
    x: Floats, y: Floats, begin: int, end: int, edges: Floats, blocks: BlockExtremes
) -> tuple[Floats, Floats]:
    """The whole blocks by their extremes, the rest at either end point by point."""
    first, last = -(-begin // BLOCK), min(end // BLOCK, len(blocks.lowest))
    from_x, to_x = x[first * BLOCK : last * BLOCK : BLOCK], x[first * BLOCK + BLOCK - 1 : last * BLOCK : BLOCK]
    from_y, to_y = y[first * BLOCK : last * BLOCK : BLOCK], y[first * BLOCK + BLOCK - 1 : last * BLOCK : BLOCK]
    starts, ends = _parts(from_x, edges)
    lowest, highest = _extremes(blocks.lowest[first:last], blocks.highest[first:last], starts)
    falls = from_y[starts] > to_y[ends - 1]
    middle_x, middle_y = _interleaved(from_x[starts], to_x[ends - 1], falls, lowest, highest)
    head, tail = slice(begin, first * BLOCK), slice(last * BLOCK, end)
    return np.concatenate((x[head], middle_x, x[tail])), np.concatenate((y[head], middle_y, y[tail]))


def _parts(x: Floats, edges: Floats) -> tuple[Places, Places]:
    """Where each part that has points begins, and where it ends."""
    starts = np.unique(np.concatenate(([0], np.searchsorted(x, edges))))
    starts = starts[starts < len(x)]
    return starts, np.append(starts[1:], len(x))


def _extremes(lows: Floats, highs: Floats, starts: Places) -> tuple[Floats, Floats]:
    lowest, highest = np.minimum.reduceat(lows, starts), np.maximum.reduceat(highs, starts)
    if np.isnan(lowest).any():  # fmin, which ignores NaN, is several times as slow
        return np.fmin.reduceat(lows, starts), np.fmax.reduceat(highs, starts)
    return lowest, highest


def _interleaved(
    from_x: Floats, to_x: Floats, falls: npt.NDArray[np.bool_], lowest: Floats, highest: Floats
) -> tuple[Floats, Floats]:
    """Two points for each part; where it goes down, the highest one first."""
    x, y = np.empty(2 * len(from_x)), np.empty(2 * len(from_x))
    x[0::2], x[1::2] = from_x, to_x
    y[0::2] = np.where(falls, highest, lowest)
    y[1::2] = np.where(falls, lowest, highest)
    return x, y
