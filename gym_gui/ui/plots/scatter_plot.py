"""A dot for each of many trials: some filled, some hollow, one of them marked, and a line of the best if wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QWheelEvent
from PyQt6.QtWidgets import QWidget

from gym_gui.ui.plots.axes import ValueAxis, dress
from gym_gui.ui.theme import Theme, Themes

_SIZE, _MARKED = 7, 11


class ScatterPlot(pg.PlotWidget):  # type: ignore[misc]
    """``chosen(int)``: somebody pointed at the dot with this number. Fits itself to its dots. ``counted``: their x
    are whole numbers, as those of trials are."""

    chosen = pyqtSignal(int)

    def __init__(self, themes: Themes, parent: QWidget | None = None, *, counted: bool = False) -> None:
        self._bottom, self._left = ValueAxis("bottom", counts=counted), ValueAxis()
        super().__init__(parent, axisItems={"bottom": self._bottom, "left": self._left})
        self._themes = themes
        self._points: list[tuple[float, float, bool, int]] = []
        self._line: list[tuple[float, float]] = []
        self._marked: int | None = None
        self._best = pg.PlotCurveItem(stepMode="right")
        self._dots = pg.ScatterPlotItem(pxMode=True)
        self._mark = pg.ScatterPlotItem(pxMode=True)
        for depth, item in enumerate((self._best, self._dots, self._mark)):
            item.setZValue(depth)
            self.addItem(item)
        self._dots.sigClicked.connect(self._clicked)
        self._prepare()
        themes.changed.connect(self._dress)
        self._dress(themes.theme)

    def _prepare(self) -> None:
        plot = self.getPlotItem()
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.showGrid(x=True, y=True, alpha=0.35)
        plot.setContentsMargins(0, 4, 8, 0)
        plot.setMouseEnabled(False, False)
        self.setFrameShape(self.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the table of trials is the keyboard's way

    # ---- what is shown -------------------------------------------------------------------------------------------

    def show_points(
        self,
        points: Sequence[tuple[float, float, bool, int]],
        line: Sequence[tuple[float, float]] = (),
        *,
        log: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        """``points``: (x, value, filled, number); ``line``: x and value wherever the best changed; ``names``: what x
        means where it is a place in a list."""
        known = [point for point in points if math.isfinite(point[0]) and (not log or point[0] > 0)]
        self._points = [(math.log10(x) if log else x, y, filled, number) for x, y, filled, number in known]
        self._line = list(line)
        self._bottom.setLogMode(log)
        self._bottom.setTicks([list(enumerate(names))] if names else None)
        self._draw()

    def mark(self, number: int | None) -> None:
        """Make one of the dots stand out."""
        self._marked = number
        self._draw_mark()

    @property
    def numbers(self) -> list[int]:
        return [number for *_, number in self._points]

    # ---- drawing -------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        theme = self._themes.theme
        accent, idle = theme.colour("accent"), theme.colour("idle")
        panel = pg.mkBrush(theme.colour("panel"))
        self._dots.setData(
            x=[x for x, *_ in self._points],
            y=[y for _, y, *_ in self._points],
            data=[number for *_, number in self._points],
            size=_SIZE,
            pen=[pg.mkPen(accent if filled else idle) for _, _, filled, _ in self._points],
            brush=[pg.mkBrush(accent) if filled else panel for _, _, filled, _ in self._points],
        )
        line = list(self._line)
        if line and self._points:
            line.append((max(line[-1][0], *(x for x, *_ in self._points)), line[-1][1]))
        self._best.setData(np.array([x for x, _ in line], dtype=float), np.array([y for _, y in line], dtype=float))
        self._draw_mark()
        self.getPlotItem().getViewBox().autoRange(padding=0.06)

    def _draw_mark(self) -> None:
        found = [(x, y) for x, y, _, number in self._points if number == self._marked]
        self._mark.setData(x=[x for x, _ in found], y=[y for _, y in found])

    def _dress(self, theme: Theme) -> None:
        self.setBackground(theme.colour("panel"))
        for axis in (self._bottom, self._left):
            dress(axis, theme)
        self._best.setPen(pg.mkPen(theme.colour("warning"), width=2))
        self._mark.setSize(_MARKED)
        self._mark.setPen(pg.mkPen(theme.colour("text")))
        self._mark.setBrush(pg.mkBrush(theme.colour("warning")))
        self._draw()

    # ---- pointing ------------------------------------------------------------------------------------------------

    def _clicked(self, _: object, points: Sequence[Any], *__: object) -> None:
        if len(points):
            self.chosen.emit(int(points[0].data()))

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # it scrolls what is around
