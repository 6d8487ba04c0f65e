"""Who does better than whom on the same seed: a square for each pair, the row over the column."""

from __future__ import annotations

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.services.arena.standings import Standings
from gym_gui.services.compare.report import interval
from gym_gui.ui.arena.desk import ArenaDesk
from gym_gui.ui.arena.looks import colour_of, icon_of
from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Themes, blended

_HEAD, _LEAST, _MOST = 26, 26, 46


class ImprovementMatrix(QWidget):
    """Follows the desk."""

    def __init__(self, desk: ArenaDesk, themes: Themes) -> None:
        super().__init__()
        self._desk, self._themes = desk, themes
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Probability of improvement"))
        desk.changed.connect(self._follow)
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        count = len(self._desk.standings.standings) if self._desk.standings is not None else 3
        return QSize(260, _HEAD + count * self._side(count) + 4)

    def _side(self, count: int) -> int:
        return max(_LEAST, min(_MOST, (self.width() - self._names()) // max(1, count)))

    def _names(self) -> int:
        found = self._desk.standings
        labels = [one.entry.label for one in found.standings] if found is not None else []
        longest = max((self.fontMetrics().horizontalAdvance(text) for text in labels), default=0)
        return int(min(longest + 12, self.width() * 0.42))

    def _follow(self) -> None:
        found = self._desk.standings
        labels = {one.entry.key: one.entry.label for one in found.standings} if found is not None else {}
        pairs = found.improvements.items() if found is not None else ()
        told = [f"{labels[one]} over {labels[other]}: {chance.value:.2f}" for (one, other), chance in pairs]
        self.setAccessibleDescription("; ".join(told))
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def resizeEvent(self, event: object) -> None:
        if self.height() != self.sizeHint().height():
            self.setFixedHeight(self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent | None) -> None:
        found = self._desk.standings
        if found is None:
            return
        painter, theme = QPainter(self), self._themes.theme
        names, side = self._names(), self._side(len(found.standings))
        for place, one in enumerate(found.standings):
            colour = colour_of(found, one, theme)
            icon(icon_of(one), colour).paint(painter, names + place * side + (side - 18) // 2, 3, 18, 18)
            painter.setPen(theme.colour("text"))
            text = self.fontMetrics().elidedText(one.entry.label, Qt.TextElideMode.ElideMiddle, names - 8)
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(0, _HEAD + place * side, names - 8, side), right, text)
            self._row(painter, found, place, names, side)
        painter.end()

    def _row(self, painter: QPainter, found: Standings, row: int, names: int, side: int) -> None:
        theme, key = self._themes.theme, found.standings[row].entry.key
        for column, other in enumerate(found.standings):
            box = QRectF(names + column * side + 1, _HEAD + row * side + 1, side - 2, side - 2)
            chance = found.improvements.get((key, other.entry.key))
            if chance is None:
                painter.fillRect(box, theme.colour("raised"))
                continue
            away = abs(chance.value - 0.5) * 2
            tint = theme.colour("accent" if chance.value >= 0.5 else "warning")
            painter.fillRect(box, blended(tint, theme.colour("panel"), 0.08 + 0.5 * away))
            painter.setPen(theme.colour("text"))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, shown_chance(chance.value))

    def event(self, event: object) -> bool:
        found = self._desk.standings
        if isinstance(event, QHelpEvent) and event.type() == QHelpEvent.Type.ToolTip and found is not None:
            names, side = self._names(), self._side(len(found.standings))
            column, row = int((event.pos().x() - names) // side), int((event.pos().y() - _HEAD) // side)
            if 0 <= row < len(found.standings) and 0 <= column < len(found.standings):
                one, other = found.standings[row].entry, found.standings[column].entry
                chance = found.improvements.get((one.key, other.key))
                if chance is not None:
                    text = self.tr("On the same seed {one} does better than {other} with probability {chance}")
                    text = text.format(one=one.label, other=other.label, chance=interval(chance))
                    QToolTip.showText(event.globalPos(), text, self)
                    return True
        return super().event(event)  # type: ignore[arg-type]


def shown_chance(value: float) -> str:
    """``.66``, ``1``, ``0``."""
    text = f"{value:.2f}"
    return {"1.00": "1", "0.00": "0"}.get(text, text.removeprefix("0"))
