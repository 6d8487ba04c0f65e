"""A curve and a histogram small enough for a card, painted by hand: no axes, no interaction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PyQt6.QtCore import QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PyQt6.QtWidgets import QSizePolicy, QWidget

_MARGIN = 3


class Sparkline(QWidget):
    """The course of one number."""

    def __init__(self, points: Sequence[Sequence[float]], colour: QColor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points = [(float(x), float(y)) for x, y in points if math.isfinite(y)]
        self._colour = colour
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Return over training"))

    def sizeHint(self) -> QSize:
        return QSize(120, 36)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if len(self._points) < 2:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._colour, 1.5))
        painter.drawPolyline(QPolygonF(self._placed()))

    def _placed(self) -> list[QPointF]:
        xs, ys = zip(*self._points, strict=True)
        width, height = self.width() - 2 * _MARGIN, self.height() - 2 * _MARGIN
        across, up = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
        return [
            QPointF(_MARGIN + (x - min(xs)) / across * width, _MARGIN + (1 - (y - min(ys)) / up) * height)
            for x, y in self._points
        ]


class Histogram(QWidget):
    """How often values fall into equal ranges, with the lowest and highest value below."""

    def __init__(self, colour: QColor, muted: QColor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colour, self._muted = colour, muted
        self.values: list[float] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.hide()

    def sizeHint(self) -> QSize:
        return QSize(240, 110)

    def show_values(self, values: Sequence[float]) -> None:
        """Takes no room while there is nothing to show."""
        self.values = [value for value in values if math.isfinite(value)]
        self.setVisible(bool(self.values))
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if not self.values:
            return
        painter = QPainter(self)
        counts = bins(self.values)
        base = self.height() - 18
        step = self.width() / len(counts)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour)
        for number, count in enumerate(counts):
            height = count / max(counts) * (base - 4)
            painter.drawRoundedRect(QRectF(number * step + 1, base - height, max(1.0, step - 2), height), 2, 2)
        painter.setPen(self._muted)
        edge = QRectF(0, base, self.width(), 18)
        painter.drawText(edge, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, f"{min(self.values):,.4g}")
        painter.drawText(edge, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, f"{max(self.values):,.4g}")


def bins(values: Sequence[float], most: int = 20) -> list[int]:
    """Counts in equal ranges from the lowest to the highest value; one range when all are alike."""
    low, high = min(values), max(values)
    if low == high:
        return [len(values)]
    number = min(most, max(5, math.isqrt(len(values)) + 1))
    counts = [0] * number
    for value in values:
        counts[min(number - 1, int((value - low) / (high - low) * number))] += 1
    return counts
