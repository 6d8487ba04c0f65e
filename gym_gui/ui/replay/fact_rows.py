"""Facts in rows: a name, perhaps a bar, and a value. Painted by hand, because they change with every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from PyQt6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.ui.theme import Theme, Themes

ROW_HEIGHT = 22
_NAME_SHARE, _VALUE_WIDTH, _GAP = 0.42, 66.0, 8.0
_BAR, _SHARE_BAR = 8.0, 10.0


@dataclass(frozen=True)
class Row:
    """``span``: from zero to the value between the least and the greatest of the episode, with a mark where it was
    before. ``share``: a bar from the left, 0 to 1. ``plain``: name and value alone."""

    name: str
    text: str
    kind: Literal["plain", "span", "share"] = "plain"
    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    before: float | None = None
    strong: bool = False
    colour: str = ""
    """Of the bar and a strong value, by the theme's name or as #rrggbb."""


class FactRows(QWidget):
    """As high as its rows; a text that does not fit is cut, and the whole of it is the tooltip."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.rows: list[Row] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        themes.changed.connect(self.update)

    def show_rows(self, rows: Sequence[Row]) -> None:
        if list(rows) == self.rows:
            return
        as_high = len(rows) == len(self.rows)
        self.rows = list(rows)
        self.setAccessibleDescription(", ".join(f"{row.name} {row.text}" for row in self.rows[:12]))
        if not as_high:
            self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, ROW_HEIGHT * len(self.rows))

    def minimumSizeHint(self) -> QSize:
        return QSize(140, ROW_HEIGHT * len(self.rows))

    def event(self, event: QEvent | None) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            number = event.pos().y() // ROW_HEIGHT
            if 0 <= number < len(self.rows):
                row = self.rows[number]
                QToolTip.showText(event.globalPos(), f"{row.name}: {row.text}", self)
                return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number, row in enumerate(self.rows):
            self._paint(painter, theme, row, QRectF(0, number * ROW_HEIGHT, self.width(), ROW_HEIGHT))

    def _paint(self, painter: QPainter, theme: Theme, row: Row, room: QRectF) -> None:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if row.strong else QFont.Weight.Normal)
        metrics = QFontMetricsF(font)
        left, right = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(font)
        has_bar = row.kind != "plain"
        value_width = _VALUE_WIDTH if has_bar else min(room.width() * 0.62, metrics.horizontalAdvance(row.text) + 1)
        name_width = room.width() * _NAME_SHARE if has_bar else room.width() - value_width - _GAP
        elide = Qt.TextElideMode.ElideRight
        painter.setPen(theme.colour("text" if row.strong or has_bar else "muted"))
        name = QRectF(room.left(), room.top(), name_width, room.height())
        painter.drawText(name, left | middle, metrics.elidedText(row.name, elide, name_width))
        value = QRectF(room.right() - value_width, room.top(), value_width, room.height())
        painter.setPen(_colour(theme, row.colour) if row.colour and not has_bar else theme.colour("text"))
        painter.drawText(value, right | middle, metrics.elidedText(row.text, elide, value_width))
        bar = QRectF(name.right() + _GAP, 0, value.left() - name.right() - 2 * _GAP, _BAR)
        if has_bar and bar.width() > 12:
            bar.moveTop(room.center().y() - bar.height() / 2)
            self._paint_bar(painter, theme, row, bar)

    def _paint_bar(self, painter: QPainter, theme: Theme, row: Row, bar: QRectF) -> None:
        colour = _colour(theme, row.colour or "accent")
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("field"))
        painter.drawRoundedRect(bar, 3, 3)
        if row.kind == "share":
            painter.setBrush(colour if row.strong else _faded(colour))
            painter.drawRoundedRect(QRectF(bar.left(), bar.top(), bar.width() * row.value, bar.height()), 3, 3)
            return
        low, high = min(row.low, 0.0), max(row.high, 0.0)
        span = high - low
        if span > 0:
            zero, at = (bar.left() + bar.width() * (one - low) / span for one in (0.0, _within(row.value, low, high)))
            painter.setBrush(colour)
            painter.drawRect(QRectF(min(zero, at), bar.top(), max(1.0, abs(at - zero)), bar.height()))
            painter.setPen(QPen(theme.colour("strong_border"), 1))
            painter.drawLine(QPointF(zero, bar.top() - 1), QPointF(zero, bar.bottom() + 1))
            if row.before is not None:
                mark = bar.left() + bar.width() * (_within(row.before, low, high) - low) / span
                painter.setPen(QPen(theme.colour("text"), 1.5))
                painter.drawLine(QPointF(mark, bar.top() - 2), QPointF(mark, bar.bottom() + 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(theme.colour("border"))
        painter.drawRoundedRect(bar, 3, 3)


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high) if value == value else low


def _colour(theme: Theme, name: str) -> QColor:
    return QColor(name) if name.startswith("#") else theme.colour(name)


def _faded(colour: QColor) -> QColor:
    faded = QColor(colour)
    faded.setAlphaF(0.45)
    return faded
