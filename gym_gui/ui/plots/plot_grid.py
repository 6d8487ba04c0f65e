"""All plots of some runs, by group, in as many columns as there is room for; one timer keeps all of them fresh."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PyQt6.QtCore import QPoint, QTimer, pyqtSignal
from PyQt6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QHideEvent,
    QResizeEvent,
    QShowEvent,
)
from PyQt6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from gym_gui.ui.plots.chart_arranging import ChartArranger
from gym_gui.ui.plots.drag_title import CHART
from gym_gui.ui.plots.drawing import Curve, PlotOptions
from gym_gui.ui.plots.plot_card import PlotCard
from gym_gui.ui.preferences import Preferences
from gym_gui.ui.theme import Themes

REFRESH_MILLISECONDS = 100
"""How long a plot stays as it is at least."""
COLUMN_WIDTH = 330
_TICK_MILLISECONDS = 25
_BUDGET_SECONDS = 0.006
_GAP = 8
_PLOTS_MADE_AT_ONCE = 2


class PlotGrid(QWidget):
    """Shows each metric that any of the curves has. Nothing is drawn while it is hidden. Each plot is fresh ten times a
    second, but not all at the same moment: a tick takes so little time that the rest of the cockpit stays smooth, and
    what did not get its turn is first in the next.

    ``export_wanted(tag, kind)`` as the cards say it; ``arranged()`` after a person moved, hid or showed charts;
    ``revealed(tag)`` when one is to be scrolled to. With ``preferences`` the arrangement is remembered.
    """

    export_wanted = pyqtSignal(str, str)
    arranged = pyqtSignal()
    revealed = pyqtSignal(str)

    def __init__(self, themes: Themes, preferences: Preferences | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.arranger = ChartArranger(preferences, self)
        self.arranger.changed.connect(self._rearranged)
        self._current = self.revealed_tag = ""
        self._mark = QFrame(self)
        self._mark.setProperty("role", "drop")
        self._mark.hide()
        self.setAcceptDrops(True)
        self._curves: list[Curve] = []
        self._options = PlotOptions()
        self._wanted = ""
        self._cards: dict[str, PlotCard] = {}
        self._groups: dict[str, list[str]] = {}
        self._headings: dict[str, QLabel] = {}
        self._turn = 0
        self._drawn_at: dict[str, float] = {}
        self._arranged_for = 0
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._grid = QGridLayout()
        self._grid.setSpacing(_GAP)
        self._layout.addLayout(self._grid)
        self._layout.addStretch(1)
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MILLISECONDS)
        self._timer.timeout.connect(self.tick)

    # ---- what is shown -------------------------------------------------------------------------------------------

    @property
    def cards(self) -> dict[str, PlotCard]:
        """The plots that there are, by tag, in their order."""
        return {tag: self._cards[tag] for tags in self._groups.values() for tag in tags if tag in self._cards}

    @property
    def tags(self) -> list[str]:
        return [tag for tags in self._groups.values() for tag in tags]

    def set_curves(self, curves: Sequence[Curve]) -> None:
        """Show these; call it again when one of them has a new metric."""
        if list(curves) != self._curves:
            self._curves = list(curves)
            for card in self._cards.values():
                card.plot.set_curves(self._curves)
        self._regroup()

    def set_options(self, options: PlotOptions) -> None:
        self._options = options
        for card in self._cards.values():
            card.plot.set_options(options)

    def set_wanted(self, words: str) -> None:
        """Show only the metrics whose names have all these words."""
        self._wanted = words
        self._regroup()

    def reset_views(self) -> None:
        for card in self._cards.values():
            card.plot.reset_view()

    # ---- freshness -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self._make_missing()
        cards = list(self.cards.values())
        now = time.perf_counter()
        for offset in range(len(cards)):
            index = (self._turn + offset) % len(cards)
            card = cards[index]
            if now - self._drawn_at.get(card.tag, 0.0) < REFRESH_MILLISECONDS / 1000 or not card.refresh():
                continue
            self._drawn_at[card.tag] = now
            if time.perf_counter() - now > _BUDGET_SECONDS:
                self._turn = index + 1
                return

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._timer.stop()
        super().hideEvent(event)

    # ---- layout --------------------------------------------------------------------------------------------------

    def _regroup(self) -> None:
        tags = {tag for curve in self._curves for member in curve.members for tag in member.series}
        groups = self.arranger.order.arranged(tags, self._wanted)
        self.arranger.note(tags, groups)
        if groups == self._groups:
            return
        self._groups = groups
        for tag in [tag for tag in self._cards if tag not in tags]:
            self._cards.pop(tag).deleteLater()
        self._arrange()

    def _make_missing(self) -> None:
        """A few at a time: a plot takes a while to be made, and a run may have a hundred metrics."""
        missing = [tag for tag in self.tags if tag not in self._cards]
        for tag in missing[:_PLOTS_MADE_AT_ONCE]:
            card = PlotCard(tag, self._themes, self)
            card.plot.set_options(self._options)
            card.plot.set_curves(self._curves)
            card.export_wanted.connect(self.export_wanted)
            card.let_arrange(self.arranger)
            card.step_wanted.connect(lambda across, down, card=card: self._step(card, across, down))
            card.plot.cursor_moved.connect(lambda x, card=card: self._share_cursor(card, x))
            self._cards[tag] = card
        if missing:
            self._arrange()

    def _share_cursor(self, source: PlotCard, x: float | None) -> None:
        for card in self.cards.values():
            card.plot.show_cursor(x, readout=card is source)

    def _columns(self) -> int:
        return max(1, self.width() // COLUMN_WIDTH)

    def _arrange(self) -> None:
        while self._grid.count():
            self._grid.takeAt(0)
        columns, row, shown = self._columns(), 0, set()
        for group, tags in self._groups.items():
            self._grid.addWidget(self._heading(group), row, 0, 1, columns)
            for number, tag in enumerate(tag for tag in tags if tag in self._cards):
                self._grid.addWidget(self._cards[tag], row + 1 + number // columns, number % columns)
                shown.add(tag)
            row += 2 + len(tags) // columns
        self._mark.raise_()
        for column in range(8):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        for tag, card in self._cards.items():
            card.setVisible(tag in shown)
        for group, heading in self._headings.items():
            heading.setVisible(group in self._groups)
        self._arranged_for = columns

    def _heading(self, group: str) -> QLabel:
        if group not in self._headings:
            heading = QLabel(group.removesuffix("/").upper(), self)
            heading.setProperty("role", "section")
            heading.setContentsMargins(2, 6, 0, 0)
            self._headings[group] = heading
        return self._headings[group]

    # ---- arranging -----------------------------------------------------------------------------------------------

    @property
    def current(self) -> str:
        """The tag of the chart that has the focus, or had it last; "" for none that is shown."""
        focused = next((tag for tag, card in self.cards.items() if card.hasFocus()), self._current)
        return focused if focused in self.cards else ""

    def _rearranged(self, tag: str) -> None:
        """The chart that moved stays in sight and keeps the focus; of one that was hidden its neighbour gets it."""
        before = self.tags
        self._regroup()
        if tag not in self._cards:
            self.arranged.emit()
            return
        self._cards[tag].setVisible(tag in self.tags)
        place = before.index(tag) if tag in before else 0
        kept = tag if tag in self.tags else next(iter(self.tags[place:] or self.tags[-1:]), "")
        if kept in self._cards:
            self._go_to(self._cards[kept])
        self.arranged.emit()

    def _step(self, card: PlotCard, across: int, down: int) -> None:
        """To the next one in order, or to the nearest one in the row above or below."""
        cards, middle = list(self.cards.values()), card.geometry().center()
        if across:
            found = cards[max(0, cards.index(card) + across) :][:1]
        else:
            apart = [(one, one.geometry().center() - middle) for one in cards]
            beyond = [(one, way) for one, way in apart if way.y() * down > card.height() // 2]
            found = [one for one, _ in sorted(beyond, key=lambda pair: (abs(pair[1].y()), abs(pair[1].x())))][:1]
        if found:
            self._go_to(found[0])

    def _go_to(self, card: PlotCard) -> None:
        self._current = card.tag
        card.setFocus()
        self._reveal(card)

    def _reveal(self, card: PlotCard) -> None:
        self.revealed_tag = card.tag
        self.revealed.emit(card.tag)

    def dragEnterEvent(self, event: QDragEnterEvent | None) -> None:
        if event is not None and _tag_in(event) in self._cards:
            event.acceptProposedAction()

    def dragMoveEvent(self, event: QDragMoveEvent | None) -> None:
        if event is None:
            return
        found = self._beside(event.position().toPoint())
        event.setAccepted(found is not None)
        if found is None:
            self._mark.hide()
            return
        card, behind = found
        box = card.geometry()
        if self._arranged_for == 1:
            self._mark.setGeometry(box.left(), (box.bottom() if behind else box.top()) - 1, box.width(), 3)
        else:
            self._mark.setGeometry((box.right() if behind else box.left()) - 1, box.top(), 3, box.height())
        self._mark.show()
        self._reveal(card)

    def dragLeaveEvent(self, event: QDragLeaveEvent | None) -> None:
        self._mark.hide()

    def dropEvent(self, event: QDropEvent | None) -> None:
        self._mark.hide()
        found = self._beside(event.position().toPoint()) if event is not None else None
        if event is not None and found is not None:
            event.acceptProposedAction()
            self.arranger.move_to(_tag_in(event), found[0].tag, behind=found[1])

    def _beside(self, place: QPoint) -> tuple[PlotCard, bool] | None:
        """The chart at a place, and whether its further half is there."""
        for card in self.cards.values():
            box = card.geometry()
            if box.contains(place):
                far = place.y() > box.center().y() if self._arranged_for == 1 else place.x() > box.center().x()
                return card, far
        return None

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if self._columns() != self._arranged_for:
            self._arrange()


def _tag_in(event: QDropEvent) -> str:
    """The chart that is dragged; "" for anything else."""
    data = event.mimeData()
    return bytes(data.data(CHART).data()).decode(errors="replace") if data is not None and data.hasFormat(CHART) else ""
