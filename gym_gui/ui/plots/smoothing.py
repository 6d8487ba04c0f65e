"""Exponential smoothing without the bias towards zero at the beginning, over long series and as they grow."""

from __future__ import annotations

import math

import numpy as np

from gym_gui.ui.plots.series_buffer import Floats, SeriesBuffer

_FORGOTTEN = 1e-9
"""What is left of a value after one block; two blocks on it is below the precision of a float."""
_ROUNDING = 1e-11
_CHUNK = 32_768
"""What stays in a processor's cache."""


def smooth(values: Floats, weight: float) -> Floats:
    """Each value becomes the mean of those up to it, one that is ``n`` points back counting ``weight ** n``.

    NaN counts for nothing, and the smoothed curve goes on through it; before the first number it is NaN.
    """
    return _smooth_on(values, weight, (0.0, 0.0))[0] if weight > 0 else values


class Smoothed:
    """The smoothed values of a growing series: what was smoothed once is not smoothed again."""

    def __init__(self, buffer: SeriesBuffer) -> None:
        self._buffer = buffer
        self._values: Floats = np.empty(0)
        self._length = 0
        self._of: tuple[float, int] = (-1.0, -1)
        self._state = (0.0, 0.0)

    def values(self, weight: float) -> Floats:
        """A view that stays until the buffer's next append."""
        if weight <= 0:
            return self._buffer.values
        if self._of != (weight, self._buffer.rewrites):
            self._of, self._state, self._length = (weight, self._buffer.rewrites), (0.0, 0.0), 0
        fresh, self._state = _smooth_on(self._buffer.values[self._length :], weight, self._state)
        self._extend(fresh)
        return self._values[: self._length]

    def _extend(self, fresh: Floats) -> None:
        end = self._length + len(fresh)
        if end > len(self._values):
            grown = np.empty(max(end, 2 * len(self._values)))
            grown[: self._length] = self._values[: self._length]
            self._values = grown
        self._values[self._length : end] = fresh
        self._length = end


def _smooth_on(values: Floats, weight: float, state: tuple[float, float]) -> tuple[Floats, tuple[float, float]]:
    """Smooth what follows points that left ``state`` behind: their decayed sum, and the sum of what they counted."""
    smoothed = np.empty(len(values))
    for begin in range(0, len(values), _CHUNK):
        chunk = values[begin : begin + _CHUNK]
        finite = np.isfinite(chunk)
        counted = np.ones(len(chunk)) if finite.all() else finite.astype(np.float64)
        sums = _decayed_sums(np.where(finite, chunk, 0.0), weight, state[0])
        counts = _decayed_sums(counted, weight, state[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.where(counts > 0, sums / counts, np.nan)
            # Rounding must not make a curve of one that is flat: an axis would be spread over nothing.
            flat = np.abs(means - chunk) <= _ROUNDING * np.abs(means)
        smoothed[begin : begin + _CHUNK] = np.where(flat, chunk, means)
        state = float(sums[-1]), float(counts[-1])
    return smoothed, state


def _decayed_sums(values: Floats, weight: float, before: float) -> Floats:
    """``sums[i] = weight * sums[i - 1] + values[i]`` without a loop: block by block, each carried into the next."""
    block = max(1, min(len(values), int(math.log(_FORGOTTEN) / math.log(weight))))
    blocks = -(-len(values) // block)
    padded = np.zeros(blocks * block)
    padded[: len(values)] = values
    powers = weight ** np.arange(block)
    inner = padded.reshape(blocks, block)
    inner /= powers
    np.cumsum(inner, axis=1, out=inner)
    inner *= powers
    inner += _carried(inner[:, -1], weight**block, before)[:, None] * (powers * weight)
    return padded[: len(values)]


def _carried(ends: Floats, decay: float, before: float) -> Floats:
    """What each block begins with: the end of the one before it, and the little that is left of the one before that."""
    carried = np.empty(len(ends))
    carried[0] = before
    if len(ends) > 1:
        carried[1] = ends[0] + decay * before
        carried[2:] = ends[1:-1] + decay * ends[:-2]
    return carried
