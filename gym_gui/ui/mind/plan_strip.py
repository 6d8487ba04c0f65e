"""Which plan decided which episodes, as coloured lines: as far back as is told, and the newest ones larger."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QHelpEvent, QKeyEvent, QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.ui.mind.heat import ink
from gym_gui.ui.mind.plan_spans import PlanNumbers, newest, reach, shares, stretches
from gym_gui.ui.theme import Theme, Themes
from mosaic_protocol.mind import PlanSpan
from mosaic_protocol.plain_text import one_line

NEWEST = 60
_BAR, _ROW, _LEGEND = 16.0, 24.0, 20.0
_COLOURS = (6, 0, 4, 2, 3, 5, 7)
"""Of the theme's curves, in the order in which plans come: not orange, which is a person's."""


def plan_colour(theme: Theme, number: int) -> QColor:
    return theme.curve(_COLOURS[number % len(_COLOURS)])


class PlanStrip(QWidget):
    """Two lines and a legend, or flat the first line and the legend. With the arrow keys one stretch after the other is
    named."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.spans: list[PlanSpan] = []
        self.numbers = PlanNumbers()
        self._is_flat = False
        self._pointed: int | None = None
        """The place among the spans that the keyboard names."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Which plan decided which episodes"))
        themes.changed.connect(self.update)

    def make_flat(self, flat: bool) -> None:
        self._is_flat = flat
        self.updateGeometry()
        self.update()

    @property
    def _rows(self) -> int:
        return 1 if self._is_flat else 2

    def sizeHint(self) -> QSize:
        return QSize(300, int(self._rows * _ROW + _LEGEND))

    def minimumSizeHint(self) -> QSize:
        return QSize(160, int(self._rows * _ROW + _LEGEND))

    def show_spans(self, spans: Sequence[PlanSpan]) -> None:
        if list(spans) == self.spans:
            return
        self.spans = list(spans)
        for one in self.spans:
            self.numbers.of(one.plan)
        if self._pointed is not None and self._pointed >= len(self.spans):
            self._pointed = None
        told = ", ".join(f"{plan} {count:,}" for plan, count in shares(self.spans)[:6])
        self.setAccessibleDescription(told)
        self.update()

    def describe(self, place: int) -> str:
        one = self.spans[place]
        last = one.first_episode + one.episodes - 1
        where = f"{one.first_episode:,}" if one.episodes == 1 else f"{one.first_episode:,} – {last:,}"
        return self.tr("{plan}: episodes {where}").format(plan=one_line(one.plan), where=where)

    # ---- pointing ------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        moves = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event is None or not self.spans or Qt.Key(event.key()) not in moves:
            super().keyPressEvent(event)
            return
        before = self._pointed if self._pointed is not None else len(self.spans)
        self._pointed = min(max(before + moves[Qt.Key(event.key())], 0), len(self.spans) - 1)
        told = self.describe(self._pointed)
        self.setAccessibleDescription(told)
        QToolTip.showText(self.mapToGlobal(self.rect().topLeft()), told, self)
        self.update()

    def event(self, event: QEvent | None) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            place = self._place_at(event.pos().x(), event.pos().y())
            if place is not None:
                QToolTip.showText(event.globalPos(), self.describe(place), self)
                return True
        return super().event(event)

    def _place_at(self, x: float, y: float) -> int | None:
        spans = self.spans if y < _ROW else newest(self.spans, NEWEST)
        first, end = reach(spans)
        left, width = self._line()
        if y >= self._rows * _ROW or end <= first or not left <= x < left + width:
            return None
        episode = first + (x - left) / width * (end - first)
        found = (
            n for n, one in enumerate(self.spans) if one.first_episode <= episode < one.first_episode + one.episodes
        )
        return next(found, None)

    def _line(self) -> tuple[float, float]:
        """Where lines begin, and how long they are."""
        metrics = QFontMetricsF(self.font())
        left = max(metrics.horizontalAdvance(word) for word in self._words()) + 10
        return left, max(20.0, self.width() - left - 2)

    def _words(self) -> tuple[str, str]:
        first, end = reach(self.spans)
        last = self.tr("last {count}")
        return last.format(count=f"{end - first:,}"), last.format(count=min(NEWEST, end - first))

    # ---- painting ------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, width = self._line()
        pointed = self.spans[self._pointed] if self._pointed is not None and self.hasFocus() else None
        lines = zip(self._words(), (self.spans, newest(self.spans, NEWEST)), strict=True)
        for row, (word, spans) in enumerate(list(lines)[: self._rows]):
            top = row * _ROW
            painter.setPen(theme.colour("muted"))
            painter.setFont(self.font())
            room = QRectF(0, top, left, _ROW - 4)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, word)
            self._paint_line(painter, theme, spans, QRectF(left, top + 2, width, _BAR), pointed)
        self._paint_legend(painter, theme, left, self._rows * _ROW)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.colour("accent"), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)

    def _paint_line(
        self, painter: QPainter, theme: Theme, spans: Sequence[PlanSpan], room: QRectF, pointed: PlanSpan | None
    ) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("field"))
        painter.drawRoundedRect(room, 3, 3)
        small = QFont(self.font())
        small.setPixelSize(11)
        metrics = QFontMetricsF(small)
        painter.setFont(small)
        for one in stretches(spans, int(room.width())):
            bar = QRectF(room.left() + one.left, room.top(), one.right - one.left, room.height())
            colour = plan_colour(theme, self.numbers.of(one.plan))
            wide = bar.width() > 8
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawRoundedRect(bar.adjusted(0, 0, -1, 0), 2, 2) if wide else painter.drawRect(bar)
            if metrics.horizontalAdvance(one.plan) + 10 <= bar.width():
                painter.setPen(QColor(*ink((colour.red(), colour.green(), colour.blue()))))
                painter.drawText(bar, Qt.AlignmentFlag.AlignCenter, one.plan)
        first, end = reach(spans)
        if pointed is not None and end > first:
            scale = room.width() / (end - first)
            begin = max(0.0, (pointed.first_episode - first) * scale)
            stop = (pointed.first_episode + pointed.episodes - first) * scale
            if stop > begin:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(theme.colour("text"), 2))
                painter.drawRoundedRect(
                    QRectF(room.left() + begin, room.top() - 2, max(4.0, stop - begin), room.height() + 4), 3, 3
                )

    def _paint_legend(self, painter: QPainter, theme: Theme, left: float, top: float) -> None:
        painter.setFont(self.font())
        metrics = QFontMetricsF(self.font())
        total = sum(count for _, count in shares(self.spans)) or 1
        for plan, count in shares(self.spans):
            share = 100 * count / total
            text = f"{plan} {'<1' if share < 1 else f'{share:.0f}'} %"
            wide = metrics.horizontalAdvance(text)
            if left + 14 + wide > self.width():
                break
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(plan_colour(theme, self.numbers.of(plan)))
            painter.drawRoundedRect(QRectF(left, top + _LEGEND / 2 - 4, 9, 9), 2, 2)
            painter.setPen(theme.colour("muted"))
            painter.drawText(QPointF(left + 14, top + _LEGEND / 2 + metrics.ascent() / 2 - 1), text)
            left += 14 + wide + 14
