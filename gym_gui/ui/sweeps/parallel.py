"""Parallel coordinates: an axis for each setting and one for the objective, a line for each trial across them.

Drag along an axis to let only the trials pass that cross it there; a click on it takes that away. By keyboard Left and
Right go from axis to axis, Up and Down raise and lower the range's lower end, with Shift its upper end, Delete takes it
away, Escape all of them.
"""

from __future__ import annotations

import math

import numpy as np
from PyQt6.QtCore import QPointF, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.services.sweeps.axes import Range
from gym_gui.services.sweeps.model import TrialState
from gym_gui.ui.sweeps.desk import SweepDesk
from gym_gui.ui.sweeps.picture import SweepPicture
from gym_gui.ui.theme import Theme, Themes

MOST_LINES = 600
"""Of the best; more could not be told apart."""
_SIDE, _HEAD, _FOOT = 54.0, 26.0, 12.0
_NEAR, _GRIP, _BRUSH = 18.0, 4.0, 12.0
_STEP = 0.05
_LEAST_RANGE = 0.01


class ParallelCoordinates(QWidget):
    """Draws the desk's picture, and sets its filter. ``chosen(int)``: somebody pointed at the line of this trial."""

    chosen = pyqtSignal(int)

    def __init__(self, desk: SweepDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk, self._themes = desk, themes
        self._lines: QPixmap | None = None
        self._axis = 0
        """The axis that keys are about."""
        self._drag: tuple[int, float, float] | None = None
        """(axis, where it began, where it is), while somebody drags."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(self.tr("Parallel coordinates of the trials"))
        self.setToolTip(
            self.tr(
                "A line for each trial. Drag along an axis to filter, click a line to choose its trial.\n"
                "Keys: Left and Right choose an axis, Up and Down move the lower end of its range, with Shift the "
                "upper end, Delete takes the range away, Escape all of them."
            )
        )
        for changed in (desk.changed, desk.filtered, desk.trial_changed, desk.opened):
            changed.connect(self._draw_again)
        themes.changed.connect(self._draw_again)

    def minimumSizeHint(self) -> QSize:
        return QSize(240, 110)

    def sizeHint(self) -> QSize:
        return QSize(620, 220)

    # ---- places --------------------------------------------------------------------------------------------------

    @property
    def _picture(self) -> SweepPicture | None:
        return self._desk.picture

    def _room(self) -> QRectF:
        return QRectF(self.rect()).adjusted(_SIDE, _HEAD, -_SIDE, -_FOOT)

    def _x(self, axis: int) -> float:
        count = len(self._picture.axes) if self._picture is not None else 1
        room = self._room()
        return room.left() + room.width() * axis / max(1, count - 1)

    def _y(self, place: float) -> float:
        room = self._room()
        return room.bottom() - place * room.height()

    def _place(self, y: float) -> float:
        room = self._room()
        return min(1.0, max(0.0, (room.bottom() - y) / max(1.0, room.height())))

    def _axis_at(self, x: float) -> int | None:
        if self._picture is None:
            return None
        axis = min(range(len(self._picture.axes)), key=lambda one: abs(self._x(one) - x))
        return axis if abs(self._x(axis) - x) <= _NEAR else None

    # ---- drawing -------------------------------------------------------------------------------------------------

    def _draw_again(self, *_: object) -> None:
        self._lines = None
        if self._picture is not None:
            self._axis = min(self._axis, len(self._picture.axes) - 1)
        self.update()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        self._lines = None
        super().resizeEvent(event)

    def focusInEvent(self, event: QFocusEvent | None) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent | None) -> None:
        super().focusOutEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        picture, theme = self._picture, self._themes.theme
        if picture is None:
            return
        if self._lines is None:
            self._lines = self._paint_lines(picture, theme)
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._lines)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_axes(painter, picture, theme)
        self._paint_marked(painter, picture, theme)
        painter.end()

    def _paint_lines(self, picture: SweepPicture, theme: Theme) -> QPixmap:
        """All lines but the marked one, the worst first; the best of those that pass are the strongest."""
        ratio = self.devicePixelRatioF()
        pixmap = QPixmap(self.size() * ratio)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        passing = self._desk.passing()
        shown = min(len(picture.trials), MOST_LINES)
        passed = [row for row in range(shown) if passing[row]]
        faint = [row for row in range(shown) if not passing[row]]
        for row in reversed(faint):
            painter.setPen(_pen(theme.colour("idle"), 0.10))
            painter.drawPath(self._path(picture, row))
        for order, row in reversed(list(enumerate(passed))):
            complete = picture.trials[row].state is TrialState.COMPLETE
            rank = 1 - order / max(1, len(passed))
            strength = 0.25 + 0.6 * rank**2
            painter.setPen(_pen(theme.colour("accent" if complete else "idle"), strength if complete else 0.3))
            painter.drawPath(self._path(picture, row))
        painter.end()
        return pixmap

    def _path(self, picture: SweepPicture, row: int) -> QPainterPath:
        """A smooth line through a trial's places; it breaks where the trial has none."""
        path, before = QPainterPath(), None
        for axis, place in enumerate(picture.places[row]):
            if not math.isfinite(place):
                before = None
                continue
            point = QPointF(self._x(axis), self._y(float(place)))
            if before is None:
                path.moveTo(point)
            else:
                middle = (before.x() + point.x()) / 2
                path.cubicTo(QPointF(middle, before.y()), QPointF(middle, point.y()), point)
            before = point
        return path

    def _paint_marked(self, painter: QPainter, picture: SweepPicture, theme: Theme) -> None:
        """The chosen trial, or else the best."""
        trial = self._desk.trial
        row = picture.rows.get(trial.number) if trial is not None else None
        if row is None:
            return
        painter.setPen(QPen(theme.colour("warning"), 2.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(self._path(picture, row))
        painter.setBrush(theme.colour("warning"))
        painter.setPen(Qt.PenStyle.NoPen)
        for axis, place in enumerate(picture.places[row]):
            if math.isfinite(place):
                painter.drawEllipse(QPointF(self._x(axis), self._y(float(place))), 3.5, 3.5)

    def _paint_axes(self, painter: QPainter, picture: SweepPicture, theme: Theme) -> None:
        font = painter.font()
        font.setPixelSize(11)
        metrics = QFontMetricsF(font)
        gap = self._room().width() / max(1, len(picture.axes) - 1)
        for number, axis in enumerate(picture.axes):
            x = self._x(number)
            painter.setPen(QPen(theme.colour("strong_border"), 1.2))
            painter.drawLine(QPointF(x, self._y(0)), QPointF(x, self._y(1)))
            self._paint_range(painter, number, axis.name, theme)
            font.setBold(True)
            painter.setFont(font)
            named = self.hasFocus() and number == self._axis
            painter.setPen(theme.colour("accent" if named else "text"))
            inner = 0 < number < len(picture.axes) - 1
            width = min(gap, 150.0 if inner else 2 * _SIDE) - 6
            head = QRectF(x - width / 2, 0, width, _HEAD - 6)
            title = QFontMetricsF(font).elidedText(axis.title, Qt.TextElideMode.ElideMiddle, head.width())
            painter.drawText(head, Qt.AlignmentFlag.AlignCenter, title)
            font.setBold(False)
            painter.setFont(font)
            self._paint_ticks(painter, number, metrics, theme)

    def _paint_ticks(self, painter: QPainter, number: int, metrics: QFontMetricsF, theme: Theme) -> None:
        """Beside the axis, on a ground of their own: lines run behind them."""
        assert self._picture is not None
        x, last = self._x(number), number == len(self._picture.axes) - 1
        ground = theme.colour("panel")
        ground.setAlpha(190)
        taken = math.inf
        for place, text in self._picture.axes[number].ticks():
            y = self._y(place)
            if taken - y < metrics.height():
                continue
            taken = y
            width = metrics.horizontalAdvance(text)
            left = x + 7 if last else x - 7 - width
            room = QRectF(left, y - metrics.height() / 2, width, metrics.height())
            painter.fillRect(room.adjusted(-2, 1, 2, -1), ground)
            painter.setPen(theme.colour("muted"))
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)
            painter.setPen(QPen(theme.colour("strong_border"), 1.2))
            painter.drawLine(QPointF(x - 3, y), QPointF(x + 3, y))

    def _paint_range(self, painter: QPainter, number: int, name: str, theme: Theme) -> None:
        wanted = self._dragged(number) or self._desk.ranges.get(name)
        if wanted is None:
            return
        x, low, high = self._x(number), self._y(wanted[0]), self._y(wanted[1])
        tint = theme.colour("accent")
        tint.setAlphaF(0.28)
        painter.setPen(QPen(theme.colour("accent"), 1.2))
        painter.setBrush(tint)
        painter.drawRoundedRect(QRectF(x - _BRUSH / 2, high, _BRUSH, max(2.0, low - high)), 3, 3)

    def _dragged(self, number: int) -> Range | None:
        if self._drag is None or self._drag[0] != number:
            return None
        low, high = sorted(self._drag[1:])
        return (low, high) if high - low > _LEAST_RANGE else None

    # ---- the mouse -----------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        if event is None or event.button() != Qt.MouseButton.LeftButton or self._picture is None:
            return
        axis = self._axis_at(event.position().x())
        if axis is not None:
            self._axis = axis
            place = self._place(event.position().y())
            self._drag = (axis, place, place)
        self.update()

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        if event is None:
            return
        if self._drag is not None:
            self._drag = (*self._drag[:2], self._place(event.position().y()))
            self.update()
        else:
            over_axis = self._axis_at(event.position().x()) is not None
            self.setCursor(Qt.CursorShape.SplitVCursor if over_axis else Qt.CursorShape.ArrowCursor)

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:
        if event is None or self._picture is None or event.button() != Qt.MouseButton.LeftButton:
            return
        drag, self._drag = self._drag, None
        if drag is None:
            self._choose_at(event.position())
            return
        low, high = sorted(drag[1:])
        name = self._picture.axes[drag[0]].name
        if high - low > _LEAST_RANGE:
            self._desk.set_range(name, (low, high))
        elif name in self._desk.ranges:
            self._desk.set_range(name, None)
        else:
            self._choose_at(event.position())
        self.update()

    def _choose_at(self, point: QPointF) -> None:
        number = self.trial_at(point)
        if number is not None:
            self.chosen.emit(number)

    def trial_at(self, point: QPointF) -> int | None:
        """The trial whose line is nearest to a point, among those that pass; None where none is near."""
        picture = self._picture
        if picture is None or not len(picture.trials):
            return None
        room = self._room()
        across = (point.x() - room.left()) / max(1.0, room.width()) * (len(picture.axes) - 1)
        left = min(max(0, math.floor(across)), max(0, len(picture.axes) - 2))
        part = _eased(min(1.0, max(0.0, across - left)))
        places = picture.places[:MOST_LINES]
        right = min(left + 1, len(picture.axes) - 1)
        heights = places[:, left] * (1 - part) + places[:, right] * part
        away = np.abs(heights - (room.bottom() - point.y()) / max(1.0, room.height())) * room.height()
        away = np.where(self._desk.passing()[:MOST_LINES] & np.isfinite(away), away, np.inf)
        nearest = int(np.argmin(away))
        return picture.trials[nearest].number if away[nearest] <= 2 * _GRIP else None

    # ---- the keyboard --------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is None or self._picture is None or not self._on_key(event):
            super().keyPressEvent(event)

    def _on_key(self, event: QKeyEvent) -> bool:
        assert self._picture is not None
        keys, key = Qt.Key, event.key()
        name = self._picture.axes[self._axis].name
        if key in (keys.Key_Left, keys.Key_Right):
            self._axis = (self._axis + (1 if key == keys.Key_Right else -1)) % len(self._picture.axes)
            self.update()
        elif key in (keys.Key_Up, keys.Key_Down):
            upper = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._move_end(name, _STEP if key == keys.Key_Up else -_STEP, upper=upper)
        elif key in (keys.Key_Delete, keys.Key_Backspace):
            self._desk.set_range(name, None)
        elif key == keys.Key_Escape and self._desk.ranges:
            self._desk.clear_filter()
        else:
            return False
        return True

    def _move_end(self, name: str, by: float, *, upper: bool) -> None:
        low, high = self._desk.ranges.get(name, (0.0, 1.0))
        if upper:
            high = min(1.0, max(low + _STEP, high + by))
        else:
            low = max(0.0, min(high - _STEP, low + by))
        self._desk.set_range(name, (round(low, 4), round(high, 4)))


def _pen(colour: QColor, strength: float) -> QPen:
    colour.setAlphaF(strength)
    return QPen(colour, 1.3)


def _eased(part: float) -> float:
    """How high the smooth line between two axes is at a part of the way; near enough to point at it."""
    return part * part * (3 - 2 * part)
