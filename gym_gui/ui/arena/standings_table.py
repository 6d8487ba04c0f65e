"""A row for each entry: what it is, its IQM with the interval, every seed as a dot, and what an episode costs."""

from __future__ import annotations

import numpy as np
from PyQt6.QtCore import QPointF, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import QColor, QFont, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.services.arena.report import shown_estimate, shown_price, shown_seconds
from gym_gui.services.arena.standings import Standing, Standings
from gym_gui.services.charts.scales import texts, ticks
from gym_gui.services.compare.report import figure
from gym_gui.ui.arena.desk import ArenaDesk
from gym_gui.ui.arena.looks import colour_of, icon_of
from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Themes

_HEAD, _ROW = 30, 52
_ICON, _GUTTER = 40, 44
_STRETCHED = 3.0
"""An entry so much further off than all others together is told of at the edge, and the others keep their room."""


def shown_range(standings: Standings) -> tuple[float, float]:
    """Where the axis begins and ends: all values, unless one entry alone would leave the others no room."""
    values = [np.array(list(one.values.values())) for one in standings.standings if one.values]
    if not values:
        return 0.0, 1.0
    lows = sorted(float(one.min()) for one in values)
    high = max(float(one.max()) for one in values)
    low = lows[0]
    if len(lows) > 1 and high - lows[0] > _STRETCHED * max(high - lows[1], 1e-9) and high > lows[1]:
        low = lows[1]
    spare = 0.04 * (high - low) or 0.5
    return low - spare, high + spare


class StandingsTable(QWidget):
    """Follows the desk. A click on a dot chooses its seed; ← and → go through the seeds."""

    entry_chosen = pyqtSignal(str)

    def __init__(self, desk: ArenaDesk, themes: Themes) -> None:
        super().__init__()
        self._desk, self._themes = desk, themes
        self._dots: list[tuple[QPointF, int]] = []
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Standings"))
        self.setToolTip(self.tr("A dot is a seed: click one to play it below (← and → go through the seeds)"))
        for changed in (desk.changed, desk.progressed, desk.seed_changed):
            changed.connect(self._follow)
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        found = self._desk.standings
        return QSize(520, _HEAD + _ROW * (len(found.standings) if found is not None else 3) + 4)

    def _follow(self) -> None:
        found = self._desk.standings
        told = [f"{one.entry.label}: {shown_estimate(one)}" for one in found.standings] if found is not None else []
        self.setAccessibleDescription("; ".join(told))
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._desk.step_seed(1 if event.key() == Qt.Key.Key_Right else -1)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        if event is None or not self._dots:
            return
        at = event.position()
        near, seed = min(self._dots, key=lambda dot: (dot[0] - at).manhattanLength())
        if (near - at).manhattanLength() < 14:
            self._desk.choose_seed(seed)

    # ---- painting ------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent | None) -> None:
        found = self._desk.standings
        self._dots = []
        if found is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        names, iqm, cost = self._columns(found)
        low, high = shown_range(found)
        axis = QRectF(
            names + iqm + _GUTTER, 0, max(60.0, self.width() - names - iqm - cost - _GUTTER - 22), self.height()
        )
        self._head(painter, axis, low, high, names, iqm, cost)
        for row, one in enumerate(found.standings):
            self._row(painter, found, one, _HEAD + row * _ROW, axis, (low, high), (names, iqm, cost))
        painter.end()

    def _columns(self, found: Standings) -> tuple[int, int, int]:
        metrics = self.fontMetrics()
        texts = [text for one in found.standings for text in (one.entry.label, self._detail(one, found))]
        longest = max((metrics.horizontalAdvance(text) for text in texts), default=60)
        names = _ICON + min(longest + 24, int(self.width() * 0.26))
        return (
            names,
            metrics.horizontalAdvance("−0.000 to −0.000") + 8,
            metrics.horizontalAdvance("a person's time") + 14,
        )

    def _head(self, painter: QPainter, axis: QRectF, low: float, high: float, names: int, iqm: int, cost: int) -> None:
        theme, bold = self._themes.theme, QFont(self.font())
        bold.setBold(True)
        painter.setPen(theme.colour("muted"))
        painter.setFont(bold)
        middle, right = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(QRectF(12, 0, names, _HEAD), middle, self.tr("Entry"))
        painter.drawText(QRectF(names, 0, iqm - 8, _HEAD), right, self.tr("IQM, 95 %"))
        painter.drawText(QRectF(self.width() - cost - 12, 0, cost, _HEAD), right, self.tr("Cost / episode"))
        painter.setFont(self.font())
        marks = ticks(low, high, max(2, int(axis.width() / 80)))
        for value, text in zip(marks, texts(marks), strict=True):
            x = self._x(value, axis, (low, high))
            painter.setPen(theme.colour("muted"))
            painter.drawText(QRectF(x - 40, 0, 80, _HEAD), Qt.AlignmentFlag.AlignCenter, text)
            painter.setPen(QPen(theme.colour("border"), 1))
            painter.drawLine(QPointF(x, _HEAD), QPointF(x, self.height()))

    def _row(
        self,
        painter: QPainter,
        found: Standings,
        one: Standing,
        top: int,
        axis: QRectF,
        span: tuple[float, float],
        columns: tuple[int, int, int],
    ) -> None:
        theme, metrics = self._themes.theme, self.fontMetrics()
        names, iqm, cost = columns
        colour = colour_of(found, one, theme)
        painter.setPen(QPen(theme.colour("border"), 1))
        painter.drawLine(QPointF(0, top), QPointF(self.width(), top))
        icon(icon_of(one), colour).paint(painter, 12, top + (_ROW - 20) // 2, 20, 20)
        upper, lower = QRectF(_ICON, top + 6, names - _ICON - 6, 20), QRectF(_ICON, top + 26, names - _ICON - 6, 20)
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        bold = QFont(self.font())
        bold.setBold(True)
        painter.setFont(bold)
        painter.setPen(theme.colour("text"))
        label = painter.fontMetrics().elidedText(one.entry.label, Qt.TextElideMode.ElideMiddle, int(upper.width()))
        painter.drawText(upper, Qt.AlignmentFlag.AlignVCenter, label)
        estimate = one.estimates.get("iqm")
        painter.drawText(QRectF(names, top + 6, iqm - 8, 20), right, figure(estimate.value) if estimate else "–")
        painter.drawText(QRectF(self.width() - cost - 12, top + 6, cost, 20), right, shown_seconds(one.cost.seconds))
        painter.setFont(self.font())
        painter.setPen(theme.colour("bad" if one.entry.problem else "muted"))
        detail = metrics.elidedText(self._detail(one, found), Qt.TextElideMode.ElideRight, int(lower.width()))
        painter.drawText(lower, Qt.AlignmentFlag.AlignVCenter, detail)
        painter.setPen(theme.colour("muted"))
        if estimate is not None and estimate.low is not None and estimate.high is not None:
            interval = f"{figure(estimate.low)} to {figure(estimate.high)}"
            painter.drawText(QRectF(names, top + 26, iqm - 8, 20), right, interval)
        price = shown_price(one.cost, is_person=one.is_person)
        painter.drawText(QRectF(self.width() - cost - 12, top + 26, cost, 20), right, price)
        self._values(painter, one, top, axis, span, colour)

    def _detail(self, one: Standing, found: Standings) -> str:
        total, progress = len(found.arena.seeds), self._desk.progress.get(one.entry.key)
        if one.entry.problem:
            return one.entry.problem
        if self._desk.playing == found.arena.name and progress is not None and progress.verified < total:
            return self.tr("{played} of {total} played, {verified} verified").format(
                played=progress.played, total=total, verified=progress.verified
            )
        played = len(one.played.results)
        if played < total:
            return self.tr("{played} of {total} seeds").format(played=played, total=total)
        return one.entry.detail

    def _values(
        self, painter: QPainter, one: Standing, top: int, axis: QRectF, span: tuple[float, float], colour: QColor
    ) -> None:
        theme = self._themes.theme
        below = sum(value < span[0] for value in one.values.values())
        if below:
            painter.setPen(theme.colour("muted"))
            painter.drawText(
                QRectF(axis.left() - _GUTTER, top, _GUTTER - 6, _ROW), Qt.AlignmentFlag.AlignCenter, f"◂ {below}"
            )
        chance = np.random.default_rng(7)  # the same places each time, so that nothing jumps
        faint = QColor(colour)
        faint.setAlphaF(0.45)
        ringed: QPointF | None = None
        for seed, value in one.values.items():
            place = QPointF(self._x(value, axis, span) + chance.uniform(-8, 8), top + 33 + chance.uniform(-10, 10))
            if value < span[0]:
                continue
            self._dots.append((place, seed))
            if seed == self._desk.seed:
                ringed = place
                continue
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(faint)
            painter.drawEllipse(place, 2.2, 2.2)
        if ringed is not None:
            painter.setPen(QPen(theme.colour("text"), 1.6))
            painter.setBrush(colour)
            painter.drawEllipse(ringed, 4.6, 4.6)
        self._interval(painter, one, top, axis, span, colour)

    def _interval(
        self, painter: QPainter, one: Standing, top: int, axis: QRectF, span: tuple[float, float], colour: QColor
    ) -> None:
        estimate = one.estimates.get("iqm")
        if estimate is None or estimate.value < span[0]:
            return
        faint = QColor(colour)
        faint.setAlphaF(0.4)
        if estimate.low is not None and estimate.high is not None:
            left, right = self._x(max(estimate.low, span[0]), axis, span), self._x(estimate.high, axis, span)
            painter.fillRect(QRectF(left, top + 9, max(right - left, 2), 6), faint)
        painter.fillRect(QRectF(self._x(estimate.value, axis, span) - 1.5, top + 5, 3, 14), colour)

    @staticmethod
    def _x(value: float, axis: QRectF, span: tuple[float, float]) -> float:
        return axis.left() + axis.width() * (value - span[0]) / (span[1] - span[0])
