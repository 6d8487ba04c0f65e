"""The state of a run as a coloured word: painted in tables, and as a widget beside headlines."""

from __future__ import annotations

from PyQt6.QtCore import QCoreApplication, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.ui.theme import Theme, Themes

_COLOURS = {
    "training": "accent",
    "starting": "accent",
    "resuming": "accent",
    "pausing": "warning",
    "paused": "warning",
    "stopping": "warning",
    "ending": "warning",
    "queued": "idle",
    "canceled": "idle",
    "completed": "good",
    "failed": "bad",
    "timed out": "bad",
    "lost": "bad",
}
_HEIGHT = 20.0
_DOT = 6.0
_PADDING = 8.0
_GAP = 5.0


def state_colour(word: str, theme: Theme) -> QColor:
    """The colour that stands for a state everywhere."""
    return theme.colour(_COLOURS.get(word, "idle"))


def state_title(word: str) -> str:
    """A state's word in the language of the application."""
    return QCoreApplication.translate("RunState", word)


def paint_badge(painter: QPainter, room: QRectF, word: str, theme: Theme, font: QFont) -> float:
    """A pill with a dot and the word at the left of ``room``, in the middle of its height; the width it took."""
    title, colour = state_title(word), state_colour(word, theme)
    width = min(room.width(), badge_width(word, font))
    pill = QRectF(room.left(), room.center().y() - _HEIGHT / 2, width, _HEIGHT)
    tint = QColor(colour)
    tint.setAlpha(38)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(tint)
    painter.drawRoundedRect(pill, _HEIGHT / 2, _HEIGHT / 2)
    painter.setBrush(colour)
    painter.drawEllipse(QRectF(pill.left() + _PADDING, pill.center().y() - _DOT / 2, _DOT, _DOT))
    painter.setPen(colour)
    painter.setFont(font)
    painter.drawText(
        pill.adjusted(_PADDING + _DOT + _GAP, 0, 0, 0),
        Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
        title,
    )
    painter.restore()
    return width


def badge_width(word: str, font: QFont) -> float:
    return 2 * _PADDING + _DOT + _GAP + QFontMetricsF(font).horizontalAdvance(state_title(word))


class StatusBadge(QWidget):
    """A run's state with a short text beside it, such as the elapsed time. Without a word it is empty."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.word = ""
        self.detail = ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("State of the run"))
        themes.changed.connect(self.update)

    def show_state(self, word: str, detail: str = "") -> None:
        if (word, detail) == (self.word, self.detail):
            return
        self.word, self.detail = word, detail
        self.setAccessibleDescription(f"{word} {detail}".strip())
        self.setToolTip(f"{state_title(word)} {detail}".strip())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        if not self.word:
            return QSize(0, int(_HEIGHT))
        detail = QFontMetricsF(self.font()).horizontalAdvance(self.detail) + _PADDING if self.detail else 0.0
        return QSize(int(badge_width(self.word, self.font()) + detail) + 2, int(_HEIGHT) + 2)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if not self.word:
            return
        painter = QPainter(self)
        room = QRectF(self.rect())
        taken = paint_badge(painter, room, self.word, self._themes.theme, self.font())
        painter.setPen(self._themes.theme.colour("muted"))
        left = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(room.adjusted(taken + _PADDING, 0, 0, 0), left, self.detail)
        painter.end()
