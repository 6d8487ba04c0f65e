"""How much of something is taken: a name, a figure and a thin bar."""

from __future__ import annotations

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QPainter, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.ui.theme import Themes

_HEIGHT, _BAR = 38, 6


class Meter(QWidget):
    """Accent while there is room, the colour of a warning when nothing is left."""

    def __init__(self, themes: Themes, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes, self._title = themes, title
        self._figure, self._fraction = "", 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(title)
        themes.changed.connect(self.update)

    @property
    def figure(self) -> str:
        return self._figure

    def show_use(self, used: float, total: float, figure: str) -> None:
        self._figure, self._fraction = figure, min(1.0, used / total) if total > 0 else 0.0
        self.setAccessibleDescription(figure)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(160, _HEIGHT)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        theme, painter = self._themes.theme, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        words = QRectF(0, 0, self.width(), _HEIGHT - _BAR - 8)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setPen(theme.colour("text"))
        painter.drawText(words, middle | Qt.AlignmentFlag.AlignLeft, self._title)
        painter.setPen(theme.colour("muted"))
        painter.drawText(words, middle | Qt.AlignmentFlag.AlignRight, self._figure)
        track = QRectF(0, words.bottom() + 2, self.width(), _BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("raised"))
        painter.drawRoundedRect(track, _BAR / 2, _BAR / 2)
        if self._fraction > 0:
            painter.setBrush(theme.colour("warning" if self._fraction >= 1.0 else "accent"))
            done = QRectF(track.left(), track.top(), max(float(_BAR), track.width() * self._fraction), _BAR)
            painter.drawRoundedRect(done, _BAR / 2, _BAR / 2)
        painter.end()
