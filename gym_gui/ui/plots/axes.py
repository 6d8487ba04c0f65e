"""Axes of a plot in the style of the cockpit: short numbers, the theme's colours, no unit guessed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PyQt6.QtGui import QFont

from gym_gui.ui.plots.axis_text import clock_text, seconds_text, steps_text
from gym_gui.ui.plots.run_metrics import CLOCK, CPU, STEP, TIME
from gym_gui.ui.theme import Theme

VALUE_AXIS_WIDTH = 46
_FONT_POINTS = 8
_DECADES = 1.3
_LARGEST_POWER = 300
"""Between linear and logarithmic the numbers of the one are for a moment the powers of the other."""
_LINE_PIXELS, _WORD_PIXELS = 36, 60
"""Room for a number below another one, and beside another one."""


class _Axis(pg.AxisItem):  # type: ignore[misc]
    """On a logarithmic axis that shows less than two decades the powers of ten are too few to read it by."""

    def logTickValues(
        self, minVal: float, maxVal: float, size: float, stdTicks: list[Any]
    ) -> list[tuple[float | None, Any]]:
        room = _LINE_PIXELS if self.orientation in ("left", "right") else _WORD_PIXELS
        if maxVal - minVal >= _DECADES or not -_LARGEST_POWER < minVal <= maxVal < _LARGEST_POWER:
            apart = max(1, math.ceil((maxVal - minVal) * room / max(1.0, size)))
            return [(apart, [float(power) for power in range(math.ceil(minVal), math.floor(maxVal) + 1, apart)])]
        low, high = 10**minVal, 10**maxVal
        spacing = _round_number((high - low) * room / max(1.0, size))
        ticks = np.arange(math.ceil(low / spacing), math.floor(high / spacing) + 1) * spacing
        return [(spacing, np.log10(ticks[ticks > 0]).tolist())]


class ProgressAxis(_Axis):
    """The x axis: :attr:`over` says whether it shows steps, a time, or the time of day."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self.over = STEP
        _prepare(self)

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.logMode:
            return [self._text(10**value, 0.0) if abs(value) < _LARGEST_POWER else "" for value in values]
        return [self._text(value, spacing) for value in values]

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:
        if self.logMode or self.over not in (TIME, CLOCK, CPU):
            found: list[tuple[float, float]] = super().tickSpacing(minVal, maxVal, size)
            return found
        return [(_round_time((maxVal - minVal) * 90 / max(1.0, size)), 0)]

    def _text(self, value: float, spacing: float) -> str:
        if self.over == CLOCK:
            return clock_text(value, spacing)
        return seconds_text(value, spacing) if self.over in (TIME, CPU) else steps_text(value, spacing)


class ValueAxis(_Axis):
    """The y axis, of one width in all plots, so that their curves are aligned; or an x axis that shows values.
    ``counts``: only whole numbers mean something on it."""

    def __init__(self, side: str = "left", *, counts: bool = False) -> None:
        super().__init__(side)
        self._counts = counts
        _prepare(self)
        if side == "left":
            self.setWidth(VALUE_AXIS_WIDTH)

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = super().tickSpacing(minVal, maxVal, size)
        return [(max(1.0, spacing), offset) for spacing, offset in found] if self._counts else found

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.logMode:
            return [_power(value) for value in values]
        most = max((abs(value) for value in values), default=0.0)
        if most >= 10_000:
            return [steps_text(value, spacing) for value in values]
        if 0 < most < 0.001:
            return [f"{value:.1e}".replace("e-0", "e-") if value else "0" for value in values]
        decimals = max(0, min(5, math.ceil(-math.log10(spacing) - 1e-9)))
        return [f"{value:.{decimals}f}" for value in values]


def _prepare(axis: pg.AxisItem) -> None:
    axis.enableAutoSIPrefix(False)
    font = QFont()
    font.setPointSize(_FONT_POINTS)
    axis.setStyle(tickFont=font, tickLength=0, maxTickLevel=0, hideOverlappingLabels=True, tickTextOffset=5)


def dress(axis: pg.AxisItem, theme: Theme) -> None:
    axis.setPen(pg.mkPen(theme.colour("border")))
    axis.setTextPen(pg.mkPen(theme.colour("muted")))


def _round_number(value: float) -> float:
    """1, 2 or 5 times a power of ten, at least ``value``."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next((step * power for step in (1, 2, 5) if value <= step * power), 10 * power)


def _round_time(seconds: float) -> float:
    for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400):
        if seconds <= step:
            return max(step, 0.1) if seconds > 0.5 else 10 ** math.ceil(math.log10(max(seconds, 1e-3)))
    return 86_400.0 * math.ceil(seconds / 86_400)


def _power(exponent: float) -> str:
    if abs(exponent) >= _LARGEST_POWER:
        return ""
    value = 10**exponent
    if 0.001 <= value < 1e12:
        return steps_text(float(f"{value:.4g}"))
    return f"{value:.1e}".replace(".0e", "e").replace("e-0", "e-")
