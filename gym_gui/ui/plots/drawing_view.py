"""A chart of the reports on the screen: the same shapes, in the colours of the theme, with values under the pointer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PyQt6.QtCore import QPointF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PyQt6.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.services.charts.drawing import Area, Dot, Drawing, Line, Shape, Words
from gym_gui.services.charts.panels import LinePanel, Panel, drawn, height_of
from gym_gui.services.run_words import quantity
from gym_gui.ui.theme import Theme, Themes

_NEAR = 9.0
_ROLES = {"ink": "text", "muted": "muted", "grid": "border", "axis": "strong_border", "paper": "panel"}


class DrawingView(QWidget):
    """Draws one panel as wide as there is room. :attr:`hidden_series` are those that are left out.

    ``colours`` has the number of the theme's curve colour for each series; without it, they come in order.
    """

    def __init__(
        self, themes: Themes, panel: Panel, colours: Sequence[int] | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._colours = colours
        self._themes, self._panel = themes, panel
        self.hidden_series: frozenset[int] = frozenset()
        self.drawing: Drawing = drawn(panel, 480)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(220)
        self.setFixedHeight(round(self.height_wanted))
        self.setMouseTracking(True)
        self.setAccessibleName(panel.title)
        themes.changed.connect(self.update)

    @property
    def height_wanted(self) -> float:
        return 270.0 if isinstance(self._panel, LinePanel) else height_of(self._panel)

    def sizeHint(self) -> QSize:
        return QSize(480, round(self.height_wanted))

    def show_panel(self, panel: Panel) -> None:
        """Draw another one in its place, such as the same with more points."""
        self._panel = panel
        self.setFixedHeight(round(self.height_wanted))
        self.setAccessibleName(panel.title)
        self.drawing = drawn(panel, max(220.0, float(self.width())), self.height_wanted)
        self.update()

    def hide_series(self, numbers: frozenset[int]) -> None:
        self.hidden_series = numbers
        self.update()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self.drawing = drawn(self._panel, max(220.0, float(self.width())), self.height_wanted)

    def shapes(self) -> list[Shape]:
        return [
            shape for shape in self.drawing.shapes if shape.series is None or shape.series not in self.hidden_series
        ]

    # ---- painting ------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        for shape in self.shapes():
            painter.save()
            match shape:
                case Line():
                    _paint_line(painter, shape, self.colour(shape))
                case Area():
                    painter.setPen(Qt.PenStyle.NoPen)
                    painter.setBrush(self.colour(shape))
                    painter.drawPolygon(_polygon(shape.points))
                case Dot():
                    painter.setPen(QPen(theme.colour("panel"), 1) if shape.outline else Qt.PenStyle.NoPen)
                    painter.setBrush(self.colour(shape))
                    painter.drawEllipse(QPointF(shape.x, shape.y), shape.radius, shape.radius)
                case Words():
                    self._paint_words(painter, shape, theme)
            painter.restore()
        painter.end()

    def colour(self, shape: Line | Area | Dot) -> QColor:
        """In the theme of now."""
        theme = self._themes.theme
        if self._colours is not None and shape.series is not None and shape.colour not in _ROLES:
            colour = theme.curve(self._colours[shape.series])
        else:
            colour = _colour(theme, shape.colour)
        colour.setAlphaF(shape.opacity)
        return colour

    def _paint_words(self, painter: QPainter, shape: Words, theme: Theme) -> None:
        font = QFont(self.font())
        font.setPixelSize(round(shape.size))
        font.setBold(shape.bold)
        width = QFontMetricsF(font).horizontalAdvance(shape.text)
        left = shape.x - {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
        painter.setFont(font)
        painter.setPen(_colour(theme, shape.colour))
        painter.drawText(QPointF(left, shape.y), shape.text)

    # ---- under the pointer ---------------------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        if event is None:
            return
        text = self.told_at(event.position())
        if text:
            QToolTip.showText(event.globalPosition().toPoint(), text, self)
        else:
            QToolTip.hideText()

    def told_at(self, place: QPointF) -> str:
        """What lies there: a run that is a dot, or the value of each curve."""
        dots = [shape for shape in self.shapes() if isinstance(shape, Dot) and shape.hint]
        near = [shape for shape in dots if math.hypot(shape.x - place.x(), shape.y - place.y()) <= _NEAR]
        if near:
            return "\n".join(shape.hint for shape in near)
        return self._values_at(place) if isinstance(self._panel, LinePanel) else ""

    def _values_at(self, place: QPointF) -> str:
        frame = self.drawing.frame
        assert isinstance(self._panel, LinePanel)
        if frame is None or not (frame.left <= place.x() <= frame.right and frame.top <= place.y() <= frame.bottom):
            return ""
        low, high = frame.x_range
        x = low + (place.x() - frame.left) / (frame.right - frame.left) * (high - low)
        lines = []
        for number, series in enumerate(self._panel.series):
            if number in self.hidden_series or not len(series.x):
                continue
            nearest = int(np.argmin(np.abs(series.x - x)))
            if math.isfinite(value := float(series.y[nearest])):
                lines.append(f"{series.label}: {quantity(value)}")
        return "\n".join([quantity(x), *lines]) if lines else ""


def _paint_line(painter: QPainter, shape: Line, colour: QColor) -> None:
    pen = QPen(colour, shape.width)
    if shape.dash:
        pen.setDashPattern([float(part) / max(shape.width, 1.0) for part in shape.dash.split()])
    painter.setPen(pen)
    known = np.isfinite(shape.points).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        painter.drawPolyline(_polygon(shape.points[begin:end]))


def _polygon(points: np.ndarray) -> QPolygonF:
    return QPolygonF([QPointF(float(x), float(y)) for x, y in points])


def _colour(theme: Theme, role: str) -> QColor:
    return theme.colour(_ROLES[role]) if role in _ROLES else theme.curve(int(role[1:]))
