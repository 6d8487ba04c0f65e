"""One plot of one metric: the curves of several runs, of which it only ever draws what can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PyQt6.QtCore import QEvent, QPointF, Qt, pyqtSignal
from PyQt6.QtGui import QColor, QMouseEvent, QPaintEvent, QWheelEvent
from PyQt6.QtWidgets import QWidget

from gym_gui.ui.plots.axes import ProgressAxis, ValueAxis, dress
from gym_gui.ui.plots.decimate import BINS
from gym_gui.ui.plots.drawing import Curve, Drawing, PlotOptions, draw, extent
from gym_gui.ui.plots.readout import Readout
from gym_gui.ui.plots.run_metrics import CPU
from gym_gui.ui.theme import Theme, Themes
from mosaic_protocol.headline import CPU_TAG

_FAINT = 70
_FAINTEST = 25
_BAND = 45
_EDGE = 0.02
_FEWEST_BINS = 200
_DOT = 6
_ASIDE = 0.1
"""Of a value that nothing differs from, how much of it is seen above and below."""


class _CurveItems:
    """What the scene holds for one curve, made once and given new points afterwards."""

    def __init__(self, plot: pg.PlotItem) -> None:
        self._plot = plot
        self.band = pg.PlotCurveItem(fillLevel="enclosed", pen=None)
        self.faint = pg.PlotCurveItem()
        self.line = pg.PlotCurveItem()
        self.dot = pg.ScatterPlotItem(size=_DOT, pen=None)
        """Of a curve with a single point, which is no line."""
        for depth, item in enumerate(self._all):
            item.setZValue(depth)
            plot.addItem(item)

    @property
    def _all(self) -> tuple[Any, ...]:
        return self.band, self.faint, self.line, self.dot

    def remove(self) -> None:
        for item in self._all:
            self._plot.removeItem(item)

    def paint_in(self, colour: QColor, others: int) -> None:
        """In its colour; raw values stand back the further, the more curves there are."""
        self.line.setPen(pg.mkPen(colour, width=1))
        self.faint.setPen(pg.mkPen(_lighter(colour, max(_FAINTEST, _FAINT - 15 * others)), width=1))
        self.dot.setBrush(pg.mkBrush(colour))
        self.band.setBrush(pg.mkBrush(_lighter(colour, _BAND)))

    def show(self, drawing: Drawing | None) -> None:
        points = (drawing.x, drawing.y) if drawing else _NOTHING
        _set(self.line, *points)
        self.dot.setData(*(points if len(points[0]) == 1 else _NOTHING))
        _set(self.faint, *(drawing.faint if drawing and drawing.faint else _NOTHING))
        band = drawing.band if drawing else None
        if band is None:
            _set(self.band, *_NOTHING)
            return
        known = np.isfinite(band.low) & np.isfinite(band.high)
        x = np.concatenate((band.x[known], band.x[known][::-1]))
        _set(self.band, x, np.concatenate((band.low[known], band.high[known][::-1])))


class _Box(pg.ViewBox):  # type: ignore[misc]
    """Around values that are all the same it looks a little to both sides; pyqtgraph keeps the range of what was shown
    before, by which a return of 0 stands between -50 and 50."""

    def setRange(self, rect: Any = None, xRange: Any = None, yRange: Any = None, *rest: Any, **named: Any) -> None:
        super().setRange(rect, _not_flat(xRange), _not_flat(yRange), *rest, **named)


def _not_flat(span: Any) -> Any:
    if span is None or span[0] != span[1] or not np.isfinite(span[0]):
        return span
    aside = abs(span[0]) * _ASIDE or 0.5
    return span[0] - aside, span[0] + aside


class CurvePlot(pg.PlotWidget):  # type: ignore[misc]
    """Draws when :meth:`refresh` is called, and only what changed. Drag to zoom, double-click to see all again.

    ``cursor_moved(object)`` brings the x under the mouse in the data's own terms, None when it left;
    ``zoomed(bool)`` whether the view is other than all there is.
    """

    cursor_moved = pyqtSignal(object)
    zoomed = pyqtSignal(bool)

    def __init__(self, tag: str, themes: Themes, parent: QWidget | None = None, *, wheel_zooms: bool = False) -> None:
        self._progress, self._value = ProgressAxis(), ValueAxis()
        axes = {"bottom": self._progress, "left": self._value}
        super().__init__(parent, viewBox=_Box(), axisItems=axes)
        self.tag = tag
        self.paints = 0
        self._themes = themes
        self._wheel_zooms = wheel_zooms
        self._curves: list[Curve] = []
        self._items: dict[str, _CurveItems] = {}
        self._options = PlotOptions()
        self._drawn: object = None
        self._is_zoomed = False
        self._prepare_view()
        self._show_axes(False)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.hide()
        self.addItem(self._cursor, ignoreBounds=True)
        self._readout = Readout(self)
        self._dress(themes.theme)
        themes.changed.connect(self._dress)

    def _prepare_view(self) -> None:
        plot, box = self.getPlotItem(), self.getViewBox()
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.showGrid(x=True, y=True, alpha=0.35)
        plot.setContentsMargins(0, 4, 6, 0)
        box.setMouseMode(pg.ViewBox.RectMode)
        box.setDefaultPadding(_EDGE)
        box.sigRangeChangedManually.connect(lambda *_: self._note_zoom(True))
        self.setFrameShape(self.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the keyboard's way are the commands of the panel

    # ---- what is shown -------------------------------------------------------------------------------------------

    @property
    def curves(self) -> Sequence[Curve]:
        return self._curves

    @property
    def options(self) -> PlotOptions:
        return self._options

    def set_curves(self, curves: Sequence[Curve]) -> None:
        """Show these from the next refresh on; a curve that was there keeps its items."""
        self._curves = list(curves)
        keys = {curve.key for curve in curves}
        for key in [key for key in self._items if key not in keys]:
            self._items.pop(key).remove()
        for curve in curves:
            if curve.key not in self._items:
                self._items[curve.key] = _CurveItems(self.getPlotItem())
                self._drawn = None  # it is empty, also when the same curve was drawn a moment ago
        self._dress(self._themes.theme)

    def set_options(self, options: PlotOptions) -> None:
        other_axes = (options.x, options.log_x, options.log_y) != (
            self._options.x,
            self._options.log_x,
            self._options.log_y,
        )
        self._options = options
        self._drawn = None
        if other_axes:
            self._progress.over = options.x
            self._progress.setLogMode(options.log_x)
            self._value.setLogMode(options.log_y)
            self._progress.picture = None
            self.show_cursor(None)
            self.reset_view()

    def refresh(self, *, unseen: bool = False) -> bool:
        """Draw what is new, if anybody can see it or ``unseen`` too; whether anything was drawn."""
        if not unseen and not self.is_seen:
            return False
        span = self._span()
        state = (span, self._options, self.width(), self._versions())
        if state == self._drawn:
            return False
        self._drawn = state
        bins = max(_FEWEST_BINS, min(BINS, round(self.getViewBox().width())))
        for curve in self._curves:
            drawing = draw(curve, self.tag, *span, self._options, bins) if span else None
            self._items[curve.key].show(drawing)
        self._show_axes(self.has_points)
        # Left to itself the view is fitted while it is painted, and everything painted once more for that.
        self.getViewBox().prepareForPaint()
        return True

    def _versions(self) -> list[tuple[object, ...]]:
        """What would be drawn otherwise when it changes: points, and where they lie."""
        axis = {CPU: CPU_TAG}.get(self._options.x, self._options.x)
        return [(curve.key, curve.version(self.tag), curve.version(axis)) for curve in self._curves]

    def _show_axes(self, shown: bool) -> None:
        """Without points their numbers are of what was there before, or of nothing."""
        for axis in (self._progress, self._value):
            axis.setOpacity(1.0 if shown else 0.0)

    @property
    def is_seen(self) -> bool:
        """Whether any of it is on the screen: neither hidden nor scrolled away."""
        viewport = self.viewport()
        return bool(self.isVisible() and viewport is not None and not viewport.visibleRegion().isEmpty())

    @property
    def has_points(self) -> bool:
        """Whether what was drawn last can be seen."""
        lines = (items.line for items in self._items.values())
        return any(line.yData is not None and bool(np.isfinite(line.yData).any()) for line in lines)

    def _span(self) -> tuple[float, float] | None:
        """The x from and to which there is something to draw."""
        everything = extent(self._curves, self.tag, self._options)
        box = self.getViewBox()
        if everything is None or box.autoRangeEnabled()[0]:
            return everything
        low, high = box.viewRange()[0]
        if self._options.log_x:
            low, high = 10 ** min(low, 300.0), 10 ** min(high, 300.0)
        return max(low, everything[0]), min(high, everything[1])

    # ---- the view ------------------------------------------------------------------------------------------------

    @property
    def is_zoomed(self) -> bool:
        return self._is_zoomed

    def reset_view(self) -> None:
        """See everything, and go on seeing everything while it grows."""
        self.enableAutoRange()
        self._note_zoom(False)

    def zoom_to(self, low: float, high: float) -> None:
        """See the x from ``low`` to ``high``; the values are fitted to it."""
        self.setXRange(*(np.log10((low, high)) if self._options.log_x else (low, high)), padding=0)
        self._note_zoom(True)

    def _note_zoom(self, zoomed: bool) -> None:
        if zoomed != self._is_zoomed:
            self._is_zoomed = zoomed
            self.zoomed.emit(zoomed)

    # ---- the cursor ----------------------------------------------------------------------------------------------

    def show_cursor(self, x: float | None, *, readout: bool = False) -> None:
        """A line at an x, with the values of the curves there if wanted."""
        if x is None or (self._options.log_x and x <= 0):
            self._cursor.hide()
            self._readout.hide()
            return
        place = float(np.log10(x)) if self._options.log_x else x
        self._cursor.setPos(place)
        self._cursor.show()
        if readout:
            left = self.mapFromScene(self.getViewBox().mapViewToScene(QPointF(place, 0))).x()
            self._readout.tell(self._curves, self.tag, x, self._options, self._themes.theme, left)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        point = self.mapToScene(event.position().toPoint())
        box = self.getViewBox()
        if event.buttons() == Qt.MouseButton.NoButton and box.sceneBoundingRect().contains(point):
            x = float(box.mapSceneToView(point).x())
            self.cursor_moved.emit(10**x if self._options.log_x else x)
        else:
            self.cursor_moved.emit(None)

    def leaveEvent(self, event: QEvent) -> None:
        self.cursor_moved.emit(None)
        super().leaveEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.reset_view()
        event.accept()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Among other plots the wheel scrolls, and zooms with Ctrl only."""
        if self._wheel_zooms or event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            super().wheelEvent(event)
            event.accept()
        else:
            event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        self.paints += 1
        super().paintEvent(event)

    # ---- the look ------------------------------------------------------------------------------------------------

    def _dress(self, theme: Theme) -> None:
        self.setBackground(theme.colour("panel"))
        for axis in (self._progress, self._value):
            dress(axis, theme)
        self._cursor.setPen(pg.mkPen(theme.colour("strong_border"), width=1))
        box: Any = self.getViewBox()
        box.rbScaleBox.setPen(pg.mkPen(theme.colour("accent")))
        box.rbScaleBox.setBrush(pg.mkBrush(_lighter(theme.colour("accent"), 40)))
        for curve in self._curves:
            self._items[curve.key].paint_in(theme.curve(curve.colour), len(self._curves) - 1)


_NOTHING = (np.empty(0), np.empty(0))


def _set(item: pg.PlotCurveItem, x: np.ndarray, y: np.ndarray) -> None:
    if len(x) == 0 and item.xData is not None and len(item.xData) == 0:
        return
    whole = bool(np.isfinite(y).all())
    item.setData(x, y, skipFiniteCheck=whole, connect="all" if whole else "finite")


def _lighter(colour: QColor, alpha: int) -> QColor:
    faint = QColor(colour)
    faint.setAlpha(alpha)
    return faint
