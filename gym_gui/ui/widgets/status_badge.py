"""The state of a run as a coloured word: painted in tables, and as a widget beside headlines."""

from __future__ import annotations

from PyQt6.QtCore import QCoreApplication, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.ui.theme import PILL_TINT, Theme, Themes

_COLOURS = {
    "training": "accent",
    "playing": "accent",
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
    return theme.colour(_colour_name(word))


def _colour_name(word: str) -> str:
    return _COLOURS.get(word, "idle")


def state_title(word: str) -> str:
    """A state's word in the language of the application."""
    return QCoreApplication.translate("RunState", word)


def paint_badge(
    painter: QPainter, room: QRectF, word: str, theme: Theme, font: QFont, *, grey: bool = False, colour_name: str = ""
) -> float:
    """A pill with a dot and the word at the left of ``room``, in the middle of its height; the width it took.

    ``grey`` of a state that was true once: the daemon that would know better is away. ``colour_name`` for a word that
    is no state of a run.
    """
    name = "idle" if grey else colour_name or _colour_name(word)
    title, colour = state_title(word), theme.colour(name)
    width = min(room.width(), badge_width(word, font))
    pill = QRectF(room.left(), room.center().y() - _HEIGHT / 2, width, _HEIGHT)
    tint = QColor(colour)
    tint.setAlphaF(PILL_TINT)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(tint)
    painter.drawRoundedRect(pill, _HEIGHT / 2, _HEIGHT / 2)
    painter.setBrush(colour)
    painter.drawEllipse(QRectF(pill.left() + _PADDING, pill.center().y() - _DOT / 2, _DOT, _DOT))
    painter.setPen(theme.pill_text(name))
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
        self.colour_name = ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("State of the run"))
        themes.changed.connect(self.update)

    def show_state(self, word: str, detail: str = "", colour_name: str = "") -> None:
        """``colour_name``: of the theme, for a word that is no state of a run."""
        if (word, detail, colour_name) == (self.word, self.detail, self.colour_name):
            return
        self.word, self.detail, self.colour_name = word, detail, colour_name
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
        theme = self._themes.theme
        taken = paint_badge(painter, room, self.word, theme, self.font(), colour_name=self.colour_name)
        painter.setPen(theme.colour("muted"))
        left = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(room.adjusted(taken + _PADDING, 0, 0, 0), left, self.detail)
        painter.end()
