"""Arranging charts: what the menu of a chart, its keys and the mouse do to the order, and that it is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from PyQt6.QtCore import QObject, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QMenu

from gym_gui.ui.plots.chart_order import ChartOrder
from gym_gui.ui.plots.tags import title_of
from gym_gui.ui.preferences import Preferences

_PREFERENCE = "metrics.charts"
_MOVES = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
"""With Alt. Up and Down are the queue's, wherever the focus is."""
_MOST_NAMED = 30


class ChartArranger(QObject):
    """The order of one grid's charts. ``changed(str)`` when there is another one, with the tag of the chart that moved.

    The grid says with :meth:`note` what it shows: places are counted among that.
    """

    changed = pyqtSignal(str)

    def __init__(self, preferences: Preferences | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences
        kept = preferences.get(_PREFERENCE, {}) if preferences is not None else {}
        self.order = ChartOrder.from_json(kept)
        self._shown: Mapping[str, Sequence[str]] = {}
        self._tags: frozenset[str] = frozenset()

    def note(self, tags: Iterable[str], shown: Mapping[str, Sequence[str]]) -> None:
        """Which tags there are, and how they stand by group."""
        self._tags, self._shown = frozenset(tags), shown

    @property
    def hidden(self) -> list[str]:
        """The charts that would be here, were they not hidden."""
        return self.order.hidden_among(self._tags)

    # ---- changes -------------------------------------------------------------------------------------------------

    def move(self, tag: str, by: int) -> None:
        self._take(self.order.moved(tag, by, self._shown), tag)

    def move_first(self, tag: str) -> None:
        self._take(self.order.moved_first(tag, self._shown), tag)

    def move_to(self, tag: str, target: str, *, behind: bool) -> None:
        self._take(self.order.moved_to(tag, target, self._shown, behind=behind), tag)

    def hide(self, tag: str) -> None:
        self._take(self.order.hiding(tag), tag)

    def show(self, tags: Iterable[str] | None = None) -> None:
        """Show some again, or all that are hidden here."""
        self._take(self.order.showing(self.hidden if tags is None else tags), "")

    def reset(self) -> None:
        """The natural order; what is hidden stays so."""
        self._take(self.order.in_natural_order(), "")

    def _take(self, order: ChartOrder, tag: str) -> None:
        if order == self.order:
            return
        self.order = order
        if self._preferences is not None:
            self._preferences.put(_PREFERENCE, order.as_json())
        self.changed.emit(tag)

    # ---- keys and menus ------------------------------------------------------------------------------------------

    def take_key(self, tag: str, event: QKeyEvent) -> bool:
        """Do what a key means for a chart that has the focus; whether it means anything."""
        key = event.key()
        if event.modifiers() & Qt.KeyboardModifier.AltModifier:
            if key in _MOVES:
                self.move(tag, _MOVES[Qt.Key(key)])
            elif key == Qt.Key.Key_Home:
                self.move_first(tag)
            else:
                return False
            return True
        if key == Qt.Key.Key_Delete:
            self.hide(tag)
            return True
        return False

    def fill(self, menu: QMenu, tag: str) -> None:
        """Put what can be done into a menu, at its end."""
        tr = self.tr
        places = [one for tags in self._shown.values() for one in tags]
        is_first, is_last = places[:1] == [tag], places[-1:] == [tag]
        for text, key, act, fits in (
            (tr("Move first"), "Alt+Home", lambda: self.move_first(tag), not is_first),
            (tr("Move up"), "Alt+Left", lambda: self.move(tag, -1), not is_first),
            (tr("Move down"), "Alt+Right", lambda: self.move(tag, 1), not is_last),
            (tr("Hide chart"), "Del", lambda: self.hide(tag), True),
        ):
            action = menu.addAction(f"{text}\t{key}")
            assert action is not None
            action.setEnabled(fits)
            action.triggered.connect(lambda *_, act=act: act())
        self._offer_hidden(menu)
        reset = menu.addAction(tr("Reset order"))
        assert reset is not None
        reset.setEnabled(bool(self.order.groups))
        reset.triggered.connect(lambda *_: self.reset())

    def _offer_hidden(self, menu: QMenu) -> None:
        hidden = self.hidden
        below = menu.addMenu(self.tr("Show hidden"))
        assert below is not None
        below.setEnabled(bool(hidden))
        entries = [(title_of(tag), [tag]) for tag in hidden[:_MOST_NAMED]]
        for text, tags in [*entries, (self.tr("All of them"), hidden)] if len(hidden) > 1 else entries:
            action = below.addAction(text.replace("&", "&&"))
            assert action is not None
            action.triggered.connect(lambda *_, tags=tags: self.show(tags))
