"""A line of text that is cut with an ellipsis where there is no room, instead of widening everything around it."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PyQt6.QtWidgets import QLabel, QSizePolicy, QStyle, QStyleOption, QWidget

_LEAST_WIDTH = 40


def cut_end(text: str, metrics: QFontMetrics, room: int) -> str:
    return metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)


def cut_name(text: str, metrics: QFontMetrics, room: int) -> str:
    """The end of a name distinguishes runs: a number or a seed, and all of the id where one stands behind it."""
    if metrics.horizontalAdvance(text) <= room:
        return text
    name, bracket, rest = text.rpartition(" (")
    if not bracket or not rest.endswith(")"):
        return metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, room)
    behind = f"{bracket}{rest}"
    return cut_end(name, metrics, room - metrics.horizontalAdvance(behind)) + behind


class ElidedLabel(QLabel):
    """Plain text on one line; the whole of it is the tooltip while it is cut. ``cut`` says where: at its end, or as the
    name of a run."""

    def __init__(
        self,
        text: str = "",
        parent: QWidget | None = None,
        *,
        cut: Callable[[str, QFontMetrics, int], str] = cut_end,
    ) -> None:
        super().__init__(text, parent)
        self._cut = cut
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent | None) -> None:
        room = self.contentsRect()
        shown = self._cut(self.text(), self.fontMetrics(), room.width())
        self.setToolTip(self.text() if shown != self.text() else "")
        painter = QPainter(self)
        option = QStyleOption()
        option.initFrom(self)
        style = self.style()
        if style is not None:
            style.drawPrimitive(QStyle.PrimitiveElement.PE_Widget, option, painter, self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(room, self.alignment() | Qt.TextFlag.TextSingleLine, shown)
        painter.end()
