"""The columns of the list of runs: which are shown, how wide, in which order, sorted by which. Remembered."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QObject, QSignalBlocker, Qt, pyqtSignal
from PyQt6.QtWidgets import QHeaderView, QMenu, QTableView

from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_rows import COLUMNS
from gym_gui.ui.models.run_table import RunTable
from gym_gui.ui.theme import ASSETS

_LAYOUT = "runs.columns"
_SORT = "runs.sort"
_NARROWEST, _WIDEST = 30, 1200
_WIDEST_AT_FIRST, _AROUND_A_TITLE = 200, 24
_MOST_EXTRAS = 40
_HIDDEN_AT_FIRST = ("tags",)
BUILT_IN = tuple(column.name for column in COLUMNS)


class RunColumns(QObject):
    """Looks after the header of a view. What the preferences hold is believed as far as it makes sense.

    ``changed()`` when a column was added, taken away, shown or hidden; ``more_wanted()``: somebody wants to choose
    among everything that there is.
    """

    changed = pyqtSignal()
    more_wanted = pyqtSignal()

    def __init__(self, view: QTableView, table: RunTable, cockpit: Cockpit) -> None:
        super().__init__(view)
        self._view, self._table, self._cockpit = view, table, cockpit
        header = view.horizontalHeader()
        assert header is not None
        self.header: QHeaderView = header
        self._set_up()
        self._restore()
        for signal in (header.sectionMoved, header.sectionResized):
            signal.connect(self._keep)

    def _set_up(self) -> None:
        header = self.header
        header.setSectionsMovable(True)
        header.setSectionsClickable(True)
        header.setHighlightSections(False)
        header.setMinimumSectionSize(_NARROWEST)
        header.setTextElideMode(Qt.TextElideMode.ElideRight)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(lambda point: self.menu().popup(header.mapToGlobal(point)))
        self._style()
        self._cockpit.themes.changed.connect(self._style)

    def _style(self) -> None:
        """The sign of the sorting above the title, which it would cover elsewhere."""
        name = self._cockpit.themes.theme.name
        arrow = "QHeaderView::{0}-arrow {{ image: url('{1}/{0}-{2}.svg'); width: 8px; height: 8px; {3} }}"
        where = "subcontrol-origin: border; subcontrol-position: top center;"
        sides = ("up", "down")
        self.header.setStyleSheet(" ".join(arrow.format(side, ASSETS.as_posix(), name, where) for side in sides))

    # ---- choosing ------------------------------------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._table.columns]

    @property
    def shown(self) -> list[str]:
        """What is seen, from left to right."""
        places = map(self.header.logicalIndex, range(len(self._table.columns)))
        return [self._table.columns[number].name for number in places if not self._view.isColumnHidden(number)]

    def menu(self) -> QMenu:
        """Which columns are shown, to be ticked; closes itself away."""
        menu = QMenu(self._view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for number, name in enumerate(self._names):
            action = menu.addAction(self._table.title(name))
            assert action is not None
            action.setCheckable(True)
            action.setChecked(not self._view.isColumnHidden(number))
            action.setEnabled(name != "name")  # without it nobody knows which run is which
            action.toggled.connect(lambda on, name=name: self.show(name, on))
        menu.addSeparator()
        for title, act in (
            (self.tr("Settings and metrics…"), self.more_wanted.emit),
            (self.tr("Reset the columns"), self.reset),
        ):
            action = menu.addAction(title)
            assert action is not None
            action.triggered.connect(lambda *_, act=act: act())
        return menu

    def show(self, name: str, shown: bool) -> None:
        """Show a column or not; one of a setting or a metric is there only while it is shown."""
        if shown and len(self._table.extras) < _MOST_EXTRAS and self._table.add_column(name):
            number = self._table.number_of(name)
            self._view.setColumnWidth(number, self._room_for(number))
            self._move_to_sight(number)
        elif not shown and name in self._table.extras:
            self._take_away(name)
        elif (number := self._table.number_of(name)) >= 0:
            self._view.setColumnHidden(number, not shown)
        self._keep()
        self.changed.emit()

    def _room_for(self, number: int) -> int:
        """Of a column that was added the whole title is seen: it may be the name of any setting."""
        column = self._table.columns[number]
        if column.name in BUILT_IN:
            return column.width
        title = self.header.fontMetrics().horizontalAdvance(self._table.title(column.name))
        return min(_WIDEST_AT_FIRST, max(column.width, round(1.1 * title) + _AROUND_A_TITLE))

    def _move_to_sight(self, number: int) -> None:
        """Behind the mean return: what was just added is to be seen without scrolling."""
        place = self.header.visualIndex(self._table.number_of("return")) + 1
        self.header.moveSection(self.header.visualIndex(number), place)

    def _take_away(self, name: str) -> None:
        if self._table.view.sort == name:
            self.header.setSortIndicator(self._table.number_of("created"), Qt.SortOrder.DescendingOrder)
        self._table.remove_column(name)

    def reset(self) -> None:
        self.apply({})

    def sort_by(self, name: str, *, turns: bool = True) -> None:
        """As a click on its heading does, for who has no mouse: the second time the other way round. Not with ``turns``
        off: what comes first is said then."""
        number = self._table.number_of(name)
        down, up = Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder
        first, second = (down, up) if self._table.columns[number].largest_first else (up, down)
        is_again = self._table.view.sort == name and self._table.view.descending == (first == down)
        self.header.setSortIndicator(number, second if is_again and turns else first)

    # ---- remembering ---------------------------------------------------------------------------------------------

    @property
    def layout(self) -> dict[str, Any]:
        """As it is kept, also in a saved view."""
        names = self._names
        seen = {name: number for number, name in enumerate(names) if not self._view.isColumnHidden(number)}
        return {
            "order": [names[self.header.logicalIndex(place)] for place in range(len(names))],
            "hidden": [name for name in names if name not in seen],
            "widths": {name: self.header.sectionSize(number) for name, number in seen.items()},
            "extra": self._table.extras,
        }

    @property
    def sorting(self) -> dict[str, Any]:
        return {"column": self._table.view.sort, "descending": self._table.view.descending}

    def _keep(self, *_: object) -> None:
        self._cockpit.preferences.put(_LAYOUT, self.layout)

    def _keep_sort(self, number: int, order: Qt.SortOrder) -> None:
        descending = order == Qt.SortOrder.DescendingOrder
        names = self._names
        if 0 <= number < len(names):
            self._cockpit.preferences.put(_SORT, {"column": names[number], "descending": descending})

    def _restore(self) -> None:
        self._apply(self._cockpit.preferences.get(_LAYOUT, {}))
        self._sort(self._cockpit.preferences.get(_SORT, {}))
        self._view.setSortingEnabled(True)
        self.header.sortIndicatorChanged.connect(self._keep_sort)

    def apply(self, layout: dict[str, Any], sorting: dict[str, Any] | None = None) -> None:
        """Show the columns of a saved view; {} for how they are at first."""
        self._apply(layout)
        if sorting is not None:
            self._sort(sorting)
        self._keep()
        self.changed.emit()

    def _sort(self, kept: dict[str, Any]) -> None:
        name = next((name for name in self._names if name == kept.get("column")), "created")
        order = Qt.SortOrder.AscendingOrder if kept.get("descending") is False else Qt.SortOrder.DescendingOrder
        self.header.setSortIndicator(self._table.number_of(name), order)

    def _apply(self, layout: dict[str, Any]) -> None:
        with QSignalBlocker(self.header):
            self._apply_extras(layout.get("extra"))
        widths, hidden, order = (layout.get(what) for what in ("widths", "hidden", "order"))
        concealed = set(map(str, hidden)) if isinstance(hidden, list) else set(_HIDDEN_AT_FIRST)
        known = set(map(str, order)) if isinstance(order, list) else set[str]()
        for number, column in enumerate(self._table.columns):
            width = widths.get(column.name) if isinstance(widths, dict) else None
            fits = isinstance(width, int) and _NARROWEST <= width <= _WIDEST
            is_new = bool(known) and column.name not in known and column.name in _HIDDEN_AT_FIRST
            self._view.setColumnHidden(number, (column.name in concealed or is_new) and column.name != "name")
            self._view.setColumnWidth(number, width if fits and width is not None else self._room_for(number))
        listed = list(map(str, order)) if isinstance(order, list) else []
        wanted = [name for name in dict.fromkeys(listed) if name in self._names]
        wanted += [name for name in self._names if name not in wanted]
        for place, name in enumerate(wanted):
            self.header.moveSection(self.header.visualIndex(self._table.number_of(name)), place)

    def _apply_extras(self, extra: Any) -> None:
        wanted = [name for name in extra if isinstance(name, str)][:_MOST_EXTRAS] if isinstance(extra, list) else []
        for name in self._table.extras:
            if name not in wanted:
                self._take_away(name)
        for name in wanted:
            self._table.add_column(name)
