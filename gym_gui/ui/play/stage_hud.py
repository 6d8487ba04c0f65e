"""What stands over the picture of a session: chips with who acts and how it goes, and on demand the keys.

Painted by hand in one widget that no click stops at: it costs a picture next to nothing, and is drawn only as often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from PyQt6.QtCore import QPointF, QRect, QRectF, QSize, Qt, QTimer
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen, QPixmap, QRegion
from PyQt6.QtWidgets import QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.play.actors import actor_colour, actor_icon, actor_title
from gym_gui.ui.play.keys import STEERING
from gym_gui.ui.play.words import keys_in_words, signed, speed_words
from gym_gui.ui.theme import Theme, Themes
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import SeatState, State
from mosaic_protocol.plain_text import one_line

_HEIGHT, _PADDING, _GAP, _MARGIN = 26.0, 8.0, 6.0, 10.0
_ICON = 15.0
_OPAQUE = 0.84
_SOON_MILLISECONDS = 40
_MOST_PILLS = 200
_LONGEST_POLICY, _SHORTEST_POLICY = 24, 8
_NOT_WITHOUT = 4
"""A chip so heavy stays, and the name of a policy gives way to it as far as it can."""
_ROW = 22.0
_KEY_WIDTH, _MOST_LABEL = 62.0, 170.0
BAND = round(_HEIGHT + 2 * 6)
"""What the chips need above a picture that they must not cover."""
_STEERING = (*STEERING.items(), ("+ −", "speed"), ("?", "these keys"))


@dataclass(frozen=True)
class Chip:
    """``name`` is muted before ``text``; ``colour`` is that of an actor, ``dot`` a recording's."""

    text: str
    name: str = ""
    actor: str | None = None
    dot: bool = False
    weight: int = 0
    """Of chips that do not fit the heaviest stay."""


def chips(
    state: State | SeatState, speed: float | None, *, ended: str = "", policy: str = ""
) -> tuple[list[Chip], list[Chip]]:
    """What stands at the left and at the right. Of one of several seats ``ended`` is how its episode ended, and
    ``policy`` which of them plays there."""
    who = actor_title(state.actor)
    named = Chip(one_line(state.name), weight=4) if isinstance(state, SeatState) else Chip("REC", dot=True, weight=1)
    left = [named]
    left.append(Chip(_end_of(one_line(policy)) or who[:1].upper() + who[1:], actor=state.actor, weight=6))
    right = [Chip(f"{state.step:,}", "step", weight=3), Chip(signed(state.total), "return", weight=5)]
    if ended:
        right.append(Chip(ended, weight=4))
    if speed is not None:
        right.append(Chip(speed_words(speed), "speed", weight=2))
    return left, right


def _end_of(name: str) -> str:
    """Names of runs of one kind differ in their ends."""
    return name if len(name) <= _LONGEST_POLICY else f"…{name[1 - _LONGEST_POLICY :]}"


class Hud(QWidget):
    """Lies over a picture, as large as it. :attr:`shows_keys` has it list the keys."""

    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self._themes = themes
        self.left: list[Chip] = []
        self.right: list[Chip] = []
        self.key_rows: list[tuple[str, str]] = []
        self.shows_keys = False
        self.in_band = False
        """Whether the chips stand above the picture instead of over it."""
        # A picture that comes repaints what lies over it; without one the chips come soon by themselves. At once they
        # would have the picture painted twice.
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MILLISECONDS)
        self._soon.timeout.connect(lambda: self.update(self._chips_room))
        self._icons: dict[tuple[str, str, float], QPixmap] = {}
        self._pills: dict[tuple[int, str, str, float], QPixmap] = {}
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        themes.changed.connect(self.update)

    def show_chips(self, left: list[Chip], right: list[Chip]) -> None:
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            said = [f"{chip.name} {chip.text}".strip() for chip in (*left, *right)]
            self.setAccessibleDescription(", ".join(said))
            if not self._soon.isActive():
                self._soon.start()

    def show_keys(self, key_map: KeyMap | None) -> None:
        self.key_rows = keys_in_words(key_map) if key_map is not None else []
        self.update()

    def toggle_keys(self) -> None:
        self.shows_keys = not self.shows_keys
        self.update()

    @property
    def _top(self) -> float:
        return (BAND - _HEIGHT) / 2 if self.in_band else _MARGIN

    @property
    def _chips_room(self) -> QRect:
        """The rows of the widget in which chips stand."""
        return QRect(0, 0, self.width(), math.ceil(self._top + _HEIGHT))

    def paintEvent(self, event: QPaintEvent | None) -> None:
        # A picture beside or below the chips repaints its own rectangle, and the chips stay as they were.
        if event is None or QRegion(self._chips_room).subtracted(event.region()).isEmpty():
            self._soon.stop()
        painter, theme = QPainter(self), self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, right = self._fitting()
        at = _MARGIN
        for chip in left:
            at += self._paint_chip(painter, theme, chip, at) + _GAP
        at = self.width() - _MARGIN
        for chip in reversed(right):
            at -= self._width(chip)
            self._paint_chip(painter, theme, chip, at)
            at -= _GAP
        if self.shows_keys:
            self._paint_keys(painter, theme)

    def _fitting(self) -> tuple[list[Chip], list[Chip]]:
        """The heaviest chips that stand beside each other without touching."""
        chosen = sorted((*self.left, *self.right), key=lambda chip: -chip.weight)
        shortened: dict[Chip, Chip] = {}
        while chosen and (excess := self._excess(chosen)) > 0:
            if chosen[-1].weight >= _NOT_WITHOUT:
                shortened = {chip: self._shortened(chip, excess) for chip in chosen if chip.actor is not None}
                if self._excess([shortened.get(chip, chip) for chip in chosen]) <= 0:
                    break
            chosen.pop()
            shortened = {}
        left, right = ([shortened.get(one, one) for one in side if one in chosen] for side in (self.left, self.right))
        return left, right

    def _excess(self, chosen: list[Chip]) -> float:
        """By how much they are too wide."""
        return sum(self._width(chip) + _GAP for chip in chosen) - (self.width() - 2 * _MARGIN)

    def _shortened(self, chip: Chip, excess: float) -> Chip:
        """The same with the end of its text alone, narrower by so much if that can be."""
        shorter, wanted = chip, self._width(chip) - excess
        while self._width(shorter) > wanted and len(shorter.text) > _SHORTEST_POLICY:
            shorter = replace(shorter, text=f"…{shorter.text.removeprefix('…')[1:]}")
        return shorter

    def _picture_of(self, actor: str, colour: QColor) -> QPixmap:
        """An icon drawn once for each colour: it is shown with every picture of the game."""
        ratio = self.devicePixelRatioF()
        key = (actor, colour.name(), ratio)
        if key not in self._icons:
            size = QSize(round(_ICON), round(_ICON))
            self._icons[key] = icon(actor_icon(actor), colour).pixmap(size, ratio)
        return self._icons[key]

    def _pill(self, width: int, colour: QColor, pen: float) -> QPixmap:
        """The ground of a chip, drawn once for each width: round corners cost more than everything else on it."""
        ratio, ground = self.devicePixelRatioF(), _ground(self._themes.theme)
        key = (width, colour.name(), ground.name(), ratio)
        if key not in self._pills:
            if len(self._pills) > _MOST_PILLS:
                self._pills.clear()
            made = QPixmap(round(width * ratio), round(_HEIGHT * ratio))
            made.setDevicePixelRatio(ratio)
            made.fill(Qt.GlobalColor.transparent)
            painter = QPainter(made)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(colour, pen))
            painter.setBrush(ground)
            painter.drawRoundedRect(QRectF(0, 0, width, _HEIGHT).adjusted(1, 1, -1, -1), 6, 6)
            painter.end()
            self._pills[key] = made
        return self._pills[key]

    def _bold(self) -> QFont:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def _width(self, chip: Chip) -> float:
        width = 2 * _PADDING + QFontMetricsF(self._bold()).horizontalAdvance(chip.text)
        if chip.name:
            width += QFontMetricsF(self.font()).horizontalAdvance(chip.name) + _GAP
        if chip.actor is not None or chip.dot:
            width += _ICON + _GAP
        return width

    def _paint_chip(self, painter: QPainter, theme: Theme, chip: Chip, left: float) -> float:
        width = self._width(chip)
        room = QRectF(left, self._top, width, _HEIGHT)
        colour = actor_colour(chip.actor, theme) if chip.actor is not None else theme.colour("strong_border")
        painter.drawPixmap(room.topLeft(), self._pill(round(width), colour, 1.5 if chip.actor is not None else 1.0))
        at = left + _PADDING
        middle = room.center().y()
        if chip.dot:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.colour("bad"))
            painter.drawEllipse(QPointF(at + _ICON / 2, middle), 4.5, 4.5)
            at += _ICON + _GAP
        elif chip.actor is not None:
            painter.drawPixmap(QPointF(at, middle - _ICON / 2), self._picture_of(chip.actor, colour))
            at += _ICON + _GAP
        room.setLeft(at)
        vertical = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        if chip.name:
            painter.setFont(self.font())
            painter.setPen(theme.colour("muted"))
            painter.drawText(room, vertical, chip.name)
            room.setLeft(at + QFontMetricsF(self.font()).horizontalAdvance(chip.name) + _GAP)
        painter.setFont(self._bold())
        painter.setPen(colour if chip.actor is not None else theme.colour("text"))
        painter.drawText(room, vertical, chip.text)
        return width

    def _paint_keys(self, painter: QPainter, theme: Theme) -> None:
        """The game's keys, then those that steer; in two columns where they are many."""
        rows = [*self.key_rows, *_STEERING]
        room_for = max(1, int((self.height() - 4 * _MARGIN - _HEIGHT) // _ROW))
        columns = max(1, -(-len(rows) // room_for))
        most = down = -(-len(rows) // columns)
        wide = min(_KEY_WIDTH + _MOST_LABEL, (self.width() - 4 * _MARGIN) / columns)
        size = (columns * wide + 2 * _MARGIN, down * _ROW + 2 * _MARGIN)
        panel = QRectF((self.width() - size[0]) / 2, max(_MARGIN, (self.height() - size[1]) / 2), *size)
        painter.setPen(theme.colour("strong_border"))
        painter.setBrush(_ground(theme, 0.94))
        painter.drawRoundedRect(panel, 8, 8)
        metrics = QFontMetricsF(self.font())
        for number, (keys, label) in enumerate(rows[: columns * most]):
            x, y = panel.left() + _MARGIN + number // most * wide, panel.top() + _MARGIN + number % most * _ROW
            key = QRectF(x, y + 2, _KEY_WIDTH - _GAP, _ROW - 4)
            painter.setPen(theme.colour("strong_border"))
            painter.setBrush(theme.colour("field"))
            painter.drawRoundedRect(key, 4, 4)
            painter.setPen(theme.colour("text"))
            painter.setFont(self._bold())
            painter.drawText(key, Qt.AlignmentFlag.AlignCenter, keys)
            painter.setFont(self.font())
            painter.setPen(theme.colour("text" if number < len(self.key_rows) else "muted"))
            room = QRectF(x + _KEY_WIDTH, y, wide - _KEY_WIDTH - _GAP, _ROW)
            fitting = metrics.elidedText(label, Qt.TextElideMode.ElideRight, room.width())
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, fitting)


def _ground(theme: Theme, opaque: float = _OPAQUE) -> QColor:
    colour = theme.colour("window")
    colour.setAlphaF(opaque)
    return colour
