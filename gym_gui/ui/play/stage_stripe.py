"""Who acted, as a stripe of colours: of the episode that is played, and in lists of episodes."""

from __future__ import annotations

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QPainter, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.ui.play.actors import ActorStripe, actor_colour, stripe_words
from gym_gui.ui.theme import Theme, Themes

_HEIGHT = 8
_SCALES = (1, 2, 5)


def length_of(steps: int, least: int = 50) -> int:
    """What the whole stripe stands for while the episode grows: 50, 100, 200, 500, 1000… steps."""
    power = 1
    while True:
        for scale in _SCALES:
            if max(steps, least) <= scale * power:
                return scale * power
        power *= 10


def paint_stripe(painter: QPainter, room: QRectF, stripe: ActorStripe, theme: Theme, whole: int | None = None) -> None:
    """The pieces from left to right; ``whole`` steps take all of the room, by default those that there are."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.colour("raised"))
    painter.drawRoundedRect(room, 2, 2)
    scale, at = room.width() / max(1, whole or stripe.steps), room.left()
    for actor, steps in stripe.pieces:
        painter.fillRect(
            QRectF(at, room.top(), max(1.0, steps * scale - 0.5), room.height()), actor_colour(actor, theme)
        )
        at += steps * scale


class StripeView(QWidget):
    """Call :meth:`show_stripe` again when there are more steps."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._stripe = ActorStripe()
        self._painted = (-1, "")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Who acted in this episode"))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(120, _HEIGHT + 4)

    def show_stripe(self, stripe: ActorStripe) -> None:
        self._stripe = stripe
        words = stripe_words(stripe)
        if (stripe.steps, words) != self._painted:
            self._painted = (stripe.steps, words)
            self.setToolTip(words)
            self.setAccessibleDescription(words)
            self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter = QPainter(self)
        room = QRectF(0, (self.height() - _HEIGHT) / 2, self.width(), _HEIGHT)
        paint_stripe(painter, room, self._stripe, self._themes.theme, length_of(self._stripe.steps))
