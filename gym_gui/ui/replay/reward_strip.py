"""The episode at a glance: reward of each step, who acted, and where the replay stands. Drag it to go anywhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PyQt6.QtCore import QPointF, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.services.replay.episode_record import EpisodeRecord, Stripe
from gym_gui.ui.play.actors import actor_colour, actor_title
from gym_gui.ui.theme import Theme, Themes, blended

_BAND, _TICKS, _GAP = 14.0, 18.0, 6.0
_LEAST_BARS = 16.0
FULL, LOW, FLAT = 112, 76, 44
_STEPS = (1, 2, 5)
Numbers = npt.NDArray[np.float64]


def columns(rewards: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Where there are more steps than columns: the greatest and the least reward of each, 0 among them."""
    finite = np.where(np.isfinite(rewards), rewards, 0.0)
    if len(finite) <= count or not count:
        return np.maximum(finite, 0.0), np.minimum(finite, 0.0)
    edges = np.linspace(0, len(finite), count, endpoint=False).astype(np.int64)
    return np.maximum(np.maximum.reduceat(finite, edges), 0.0), np.minimum(np.minimum.reduceat(finite, edges), 0.0)


def ticks(steps: int, most: int) -> list[int]:
    """Places to name on the axis: the beginning, round numbers, the end."""
    if steps < 1 or most < 2:
        return [0]
    unit = 1
    while True:
        for factor in _STEPS:
            every = factor * unit
            if steps / every <= most - 1:
                inner = [place for place in range(every, steps, every) if steps - place > every * 0.4]
                return [0, *inner, steps]
        unit *= 10


class RewardStrip(QWidget):
    """``wanted(int)``: somebody points at this place. Keys are its owner's business."""

    wanted = pyqtSignal(int)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._record: EpisodeRecord | None = None
        self._steps, self._place, self._limit = 0, 0, -1
        self._drawn: QPixmap | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Steps of the episode"))
        self.setToolTip(self.tr("Drag to any step. ← → one step, Shift ten, Home and End, [ ] hand-overs, Space plays"))
        self._height = FULL
        themes.changed.connect(self._redraw)

    def sizeHint(self) -> QSize:
        return QSize(300, self._height)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self.sizeHint().height())

    def set_height(self, height: int) -> None:
        """One of :data:`FULL`, :data:`LOW` and :data:`FLAT`, which has no rewards."""
        if height != self._height:
            self._height = height
            self.updateGeometry()
            self._redraw()

    def show_episode(self, record: EpisodeRecord | None, steps: int, limit: int = -1) -> None:
        """``limit``: the first step that differs; what follows is faded. -1 where none does."""
        if (record, steps, limit) != (self._record, self._steps, self._limit):
            self._record, self._steps, self._limit = record, steps, limit
            self._redraw()

    def show_place(self, place: int) -> None:
        if place != self._place:
            self._place = place
            self.setAccessibleDescription(self.tr("step {place} of {steps}").format(place=place, steps=self._steps))
            self.update()

    # ---- pointing ------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        if event is not None and event.button() == Qt.MouseButton.LeftButton:
            self.wanted.emit(self.place_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        if event is not None and event.buttons() & Qt.MouseButton.LeftButton:
            self.wanted.emit(self.place_at(event.position().x()))

    def place_at(self, x: float) -> int:
        room = self._room()
        share = (x - room.left()) / max(1.0, room.width())
        return round(min(max(share, 0.0), 1.0) * self._steps)

    def _x(self, place: float) -> float:
        room = self._room()
        return room.left() + room.width() * place / max(1, self._steps)

    def _room(self) -> QRectF:
        return QRectF(self.rect()).adjusted(14, 8, -14, -4)

    # ---- painting ------------------------------------------------------------------------------------------------

    def _redraw(self) -> None:
        self._drawn = None
        self.update()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._drawn = None

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if self._drawn is None or self._drawn.devicePixelRatioF() != self.devicePixelRatioF():
            self._drawn = self._draw()
        painter, theme = QPainter(self), self._themes.theme
        painter.drawPixmap(0, 0, self._drawn)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.hasFocus():
            painter.setPen(QPen(theme.colour("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 8, 8)
        if self._steps:
            chip = self._chip()
            self._paint_ticks(painter, theme, chip)
            self._paint_cursor(painter, theme, chip)

    def _bold(self) -> QFont:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def _chip(self) -> QRectF:
        """Where the number of the place stands."""
        room = self._room()
        width = QFontMetricsF(self._bold()).horizontalAdvance(f"{self._place:,}") + 12
        left = min(max(self._x(self._place) - width / 2, 2.0), self.width() - width - 2)
        return QRectF(left, room.bottom() - _TICKS + 2, width, _TICKS - 1)

    def _paint_cursor(self, painter: QPainter, theme: Theme, chip: QRectF) -> None:
        room, x = self._room(), self._x(self._place)
        painter.setPen(QPen(theme.colour("text"), 2))
        painter.drawLine(QPointF(x, room.top()), QPointF(x, room.bottom() - _TICKS + 2))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("text"))
        painter.drawRoundedRect(chip, 5, 5)
        painter.setPen(theme.colour("window"))
        painter.setFont(self._bold())
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, f"{self._place:,}")

    def _draw(self) -> QPixmap:
        """Everything but the cursor, once for an episode and a size."""
        ratio, theme = self.devicePixelRatioF(), self._themes.theme
        drawn = QPixmap(self.size() * ratio)
        drawn.setDevicePixelRatio(ratio)
        drawn.fill(Qt.GlobalColor.transparent)
        painter = QPainter(drawn)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(theme.colour("border"))
        painter.setBrush(theme.colour("panel"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        room = self._room()
        band = QRectF(room.left(), room.bottom() - _TICKS - _BAND, room.width(), _BAND)
        if self._record is not None:
            bars = QRectF(room.left(), room.top(), room.width(), band.top() - _GAP - room.top())
            if bars.height() >= _LEAST_BARS:
                self._draw_rewards(painter, theme, bars, self._record.rewards)
            for stripe in self._record.stripes:
                self._draw_stripe(painter, theme, band, stripe)
        elif self._steps:
            painter.fillRect(band, theme.colour("raised"))
        if self._limit >= 0:
            veil = QColor(theme.colour("panel"))
            veil.setAlphaF(0.6)
            x = self._x(self._limit)
            painter.fillRect(QRectF(x, room.top(), room.right() - x, band.bottom() - room.top()), veil)
            painter.setPen(QPen(theme.colour("warning"), 1.5, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, room.top()), QPointF(x, band.bottom()))
        painter.end()
        return drawn

    def _draw_rewards(self, painter: QPainter, theme: Theme, room: QRectF, rewards: Numbers) -> None:
        font = QFont(self.font())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.85))
        if self._height == FULL:
            painter.setFont(font)
            painter.setPen(theme.colour("muted"))
            painter.drawText(room, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, self.tr("reward per step"))
            room = room.adjusted(0, QFontMetricsF(font).height() + 1, 0, 0)
        above, below = columns(rewards, int(room.width() / 2))
        high, low = float(above.max(initial=0.0)), float(below.min(initial=0.0))
        span = high - low or 1.0
        zero = room.top() + room.height() * high / span
        width = room.width() / max(1, len(above))
        thick = max(1.0, min(width - 1, 3.0))
        for values, colour in ((above, theme.colour("good")), (below, theme.colour("bad"))):
            for number in np.flatnonzero(values):
                height = -room.height() * float(values[number]) / span
                x = room.left() + (number + 0.5) * width - thick / 2
                painter.fillRect(QRectF(x, min(zero, zero + height), thick, max(1.0, abs(height))), colour)
        painter.setPen(theme.colour("border"))
        painter.drawLine(QPointF(room.left(), zero), QPointF(room.right(), zero))

    def _draw_stripe(self, painter: QPainter, theme: Theme, band: QRectF, stripe: Stripe) -> None:
        left, right = self._x(stripe.first), self._x(stripe.end)
        piece = QRectF(left, band.top(), max(1.0, right - left - 1), band.height())
        colour = actor_colour(stripe.actor, theme)
        painter.fillRect(piece, colour)
        name = actor_title(stripe.actor)
        font = QFont(self.font())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.85))
        font.setWeight(QFont.Weight.DemiBold)
        if QFontMetricsF(font).horizontalAdvance(name) + 10 < piece.width():
            painter.setFont(font)
            painter.setPen(blended(QColor("#000000"), colour, 0.85))
            painter.drawText(piece, Qt.AlignmentFlag.AlignCenter, name)

    def _paint_ticks(self, painter: QPainter, theme: Theme, chip: QRectF) -> None:
        """Those that the cursor leaves room for."""
        painter.setFont(self.font())
        painter.setPen(theme.colour("muted"))
        metrics, room = QFontMetricsF(self.font()), self._room()
        for place in ticks(self._steps, max(2, int(room.width() / 90))):
            text = f"{place:,}"
            width = metrics.horizontalAdvance(text)
            left = min(max(self._x(place) - width / 2, room.left()), room.right() - width)
            label = QRectF(left, room.bottom() - _TICKS, width + 1, _TICKS)
            if not label.intersects(chip.adjusted(-3, 0, 3, 0)):
                painter.drawText(label, Qt.AlignmentFlag.AlignVCenter, text)
