"""Small drawings of what is in a dataset: bars of a histogram, and ranges of columns against what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PyQt6.QtCore import QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.services.datasets.inside import Histogram, Range
from gym_gui.services.datasets.words import number
from gym_gui.services.run_words import quantity
from gym_gui.ui.theme import Themes

_ROW = 22.0


class HistogramView(QWidget):
    """Bars, the ends of the axis, and marks such as the reference scores where they lie within it."""

    def __init__(self, themes: Themes, noun: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes, self._noun = themes, noun
        self.drawn: Histogram | None = None
        self.marks: Mapping[str, float] = {}
        self.setMinimumSize(160, 110)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(280, 120)

    def show_histogram(self, drawn: Histogram | None, marks: Mapping[str, float] | None = None) -> None:
        self.drawn, self.marks = drawn, marks or {}
        self.setAccessibleDescription(_in_words(drawn, self._noun) if drawn is not None else "")
        self.update()

    def _room(self) -> QRectF:
        return QRectF(self.rect()).adjusted(2, 14 if self.marks else 4, -2, -18)

    def _place(self, value: float) -> float:
        assert self.drawn is not None
        low, high = self.drawn.edges[0], self.drawn.edges[-1]
        return self._room().left() + (value - low) / (high - low) * self._room().width()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if self.drawn is None:
            return
        painter, theme, room = QPainter(self), self._themes.theme, self._room()
        highest = max(self.drawn.counts) or 1
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("accent"))
        for number_, count in enumerate(self.drawn.counts):
            left, right = (self._place(edge) for edge in self.drawn.edges[number_ : number_ + 2])
            if len(self.drawn.counts) == 1:  # all alike: one bar, as wide as a bar
                middle = (left + right) / 2
                left, right = middle - 12, middle + 12
            tall = max(1.0, count / highest * room.height()) if count else 0.0
            painter.drawRect(QRectF(left + 0.5, room.bottom() - tall, max(1.0, right - left - 1), tall))
        painter.setPen(QPen(theme.colour("strong_border"), 1))
        painter.drawLine(room.bottomLeft(), room.bottomRight())
        self._paint_marks(painter, room)
        painter.setPen(theme.colour("muted"))
        ends = [quantity(self.drawn.edges[0]), quantity(self.drawn.edges[-1])]
        if len(self.drawn.counts) == 1:
            ends = ["", quantity((self.drawn.edges[0] + self.drawn.edges[-1]) / 2)]
            painter.drawText(QRectF(room.left(), room.bottom() + 2, room.width(), 16), _CENTRE, ends[1])
        else:
            below = QRectF(room.left(), room.bottom() + 2, room.width(), 16)
            painter.drawText(below, _LEFT, ends[0])
            painter.drawText(below, _RIGHT, ends[1])
        painter.end()

    def _paint_marks(self, painter: QPainter, room: QRectF) -> None:
        assert self.drawn is not None
        theme = self._themes.theme
        metrics = QFontMetricsF(self.font())
        for name, value in self.marks.items():
            if not self.drawn.edges[0] <= value <= self.drawn.edges[-1]:
                continue
            at = self._place(value)
            painter.setPen(QPen(theme.colour("warning"), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(at, room.top()), QPointF(at, room.bottom()))
            left = min(max(room.left(), at - metrics.horizontalAdvance(name) / 2), room.right() - 60)
            painter.drawText(QPointF(left, room.top() - 3), name)

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        if event is None or self.drawn is None:
            return
        told = self.told_at(event.position().x())
        QToolTip.showText(event.globalPosition().toPoint(), told, self) if told else QToolTip.hideText()

    def told_at(self, x: float) -> str:
        """How many there are below a place."""
        if self.drawn is None:
            return ""
        for place, count in enumerate(self.drawn.counts):
            low, high = self.drawn.edges[place : place + 2]
            if self._place(low) <= x < self._place(high):
                return f"{quantity(low)} … {quantity(high)}: {count:,} {self._noun}"
        return ""


_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter


def _in_words(drawn: Histogram, noun: str) -> str:
    bars = zip(drawn.edges, drawn.edges[1:], drawn.counts, strict=False)
    return "; ".join(f"{quantity(low)} to {quantity(high)}: {count:,} {noun}" for low, high, count in bars if count)


class RangesView(QWidget):
    """A row for each column: a frame for what is allowed, a bar in it for what the data has, and both in numbers."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.ranges: Sequence[Range] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Ranges of the columns"))
        themes.changed.connect(self.update)

    def show_ranges(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self.setFixedHeight(round(_ROW * len(ranges)) or 1)
        self.setAccessibleDescription("; ".join(f"{one.name}: {_said(one)}" for one in ranges))
        self.setToolTip(self.tr("Frame: what the environment allows. Bar: what the data has."))
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        metrics = QFontMetricsF(self.font())
        named = max((metrics.horizontalAdvance(one.name) for one in self.ranges), default=0.0) + 10
        said = max((metrics.horizontalAdvance(_said(one)) for one in self.ranges), default=0.0) + 10
        track = self.width() - named - said
        for place, one in enumerate(self.ranges):
            line = QRectF(0, place * _ROW, self.width(), _ROW)
            painter.setPen(theme.colour("muted"))
            painter.drawText(line, _LEFT, one.name)
            painter.setPen(theme.colour("bad" if one.is_outside else "text"))
            painter.drawText(line, _RIGHT, _said(one))
            if track >= 40:
                self._paint_bar(painter, one, QRectF(named, line.top() + 6, track, _ROW - 12))
        painter.end()

    def _paint_bar(self, painter: QPainter, one: Range, room: QRectF) -> None:
        theme = self._themes.theme
        bounded = one.least is not None and one.most is not None and one.most > one.least
        frame = QPen(theme.colour("strong_border"), 1)
        if not bounded:
            frame.setStyle(Qt.PenStyle.DotLine)
        painter.setPen(frame)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(room)
        if one.low is None or one.high is None:
            return
        left, right = room.left(), room.right()
        if bounded:
            assert one.least is not None and one.most is not None
            scale = room.width() / (one.most - one.least)
            left = max(room.left(), room.left() + (one.low - one.least) * scale)
            right = min(room.right(), room.left() + (one.high - one.least) * scale)
        colour = QColor(theme.colour("bad" if one.is_outside else "accent"))
        colour.setAlphaF(1.0 if bounded else 0.35)
        painter.fillRect(QRectF(left, room.top() + 1, max(2.0, right - left), room.height() - 1), colour)


def _said(one: Range) -> str:
    data = f"{number(one.low)} … {number(one.high)}"
    if one.least is None and one.most is None:
        return f"{data}  of any"
    return f"{data}  of {number(one.least)} … {number(one.most)}"
