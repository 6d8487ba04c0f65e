"""A curve and a histogram small enough for a card, painted by hand: no axes, no interaction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PyQt6.QtCore import QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.ui.theme import Themes

_MARGIN = 3
_LABEL_HEIGHT, _WIDEST_BAR = 18, 28.0
_HEIGHT, _ALIKE_HEIGHT = 110, 44


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
    """How often values fall into equal ranges, with the lowest and highest value below; equal values are one bar."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.values: list[float] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Returns of the episodes"))
        themes.changed.connect(self.update)
        self.hide()

    def sizeHint(self) -> QSize:
        alike = self.values and min(self.values) == max(self.values)
        return QSize(240, _ALIKE_HEIGHT if alike else _HEIGHT)

    def show_values(self, values: Sequence[float]) -> None:
        """Takes no room while there is nothing to show, and little for values that are all the same: how high a single
        bar is says nothing, and the list of checkpoints above it needs the room."""
        self.values = [value for value in values if math.isfinite(value)]
        self.setVisible(bool(self.values))
        self.setAccessibleDescription(", ".join(text for _, text in self.labels()))
        self.updateGeometry()
        self.update()

    def labels(self) -> list[tuple[Qt.AlignmentFlag, str]]:
        """What stands below the bars, and at which side."""
        if not self.values:
            return []
        low, high = min(self.values), max(self.values)
        if low == high:
            alike = self.tr("1 episode: {value}") if len(self.values) == 1 else self.tr("all {count} episodes: {value}")
            return [(Qt.AlignmentFlag.AlignHCenter, alike.format(count=len(self.values), value=f"{low:,.4g}"))]
        return [(Qt.AlignmentFlag.AlignLeft, f"{low:,.4g}"), (Qt.AlignmentFlag.AlignRight, f"{high:,.4g}")]

    def bars(self) -> list[QRectF]:
        """Where the bars are. One bar alone has the width of one among many: a block would say nothing."""
        counts, base = bins(self.values), self.height() - _LABEL_HEIGHT
        step = self.width() / len(counts)
        width = min(step - 2, _WIDEST_BAR) if len(counts) == 1 else max(1.0, step - 2)
        heights = [count / max(counts) * (base - 4) for count in counts]
        lefts = [number * step + (step - width) / 2 for number in range(len(counts))]
        return [QRectF(left, base - high, width, high) for left, high in zip(lefts, heights, strict=True)]

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if not self.values:
            return
        painter, theme = QPainter(self), self._themes.theme
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("accent"))
        for bar in self.bars():
            painter.drawRoundedRect(bar, 2, 2)
        painter.setPen(theme.colour("muted"))
        edge = QRectF(0, self.height() - _LABEL_HEIGHT, self.width(), _LABEL_HEIGHT)
        for side, text in self.labels():
            painter.drawText(edge, side | Qt.AlignmentFlag.AlignVCenter, text)


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
