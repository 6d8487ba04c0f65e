"""The columns of the list of runs: which are shown, how wide, in which order, sorted by which. Remembered."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QObject, Qt
from PyQt6.QtWidgets import QHeaderView, QMenu, QTableView

from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, COLUMNS
from gym_gui.ui.models.run_table import RunTable
from gym_gui.ui.theme import ASSETS

_LAYOUT = "runs.columns"
_SORT = "runs.sort"
_NARROWEST, _WIDEST = 30, 1200
_NAMES = [column.name for column in COLUMNS]


class RunColumns(QObject):
    """Looks after the header of a view. What the preferences hold is believed as far as it makes sense."""

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

    def menu(self) -> QMenu:
        """Which columns are shown, to be ticked; closes itself away."""
        menu = QMenu(self._view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for number, name in enumerate(_NAMES):
            action = menu.addAction(self._table.title(name))
            assert action is not None
            action.setCheckable(True)
            action.setChecked(not self._view.isColumnHidden(number))
            action.setEnabled(name != "name")  # without it nobody knows which run is which
            action.toggled.connect(lambda on, name=name: self.show(name, on))
        menu.addSeparator()
        reset = menu.addAction(self.tr("Reset the columns"))
        assert reset is not None
        reset.triggered.connect(lambda *_: self.reset())
        return menu

    def show(self, name: str, shown: bool) -> None:
        self._view.setColumnHidden(COLUMN_NUMBERS[name], not shown)
        self._keep()

    def reset(self) -> None:
        self._apply({})
        self._keep()

    # ---- remembering ---------------------------------------------------------------------------------------------

    def _keep(self, *_: object) -> None:
        seen = {name: number for name, number in COLUMN_NUMBERS.items() if not self._view.isColumnHidden(number)}
        layout = {
            "order": [_NAMES[self.header.logicalIndex(place)] for place in range(len(_NAMES))],
            "hidden": [name for name in _NAMES if name not in seen],
            "widths": {name: self.header.sectionSize(number) for name, number in seen.items()},
        }
        self._cockpit.preferences.put(_LAYOUT, layout)

    def _keep_sort(self, number: int, order: Qt.SortOrder) -> None:
        descending = order == Qt.SortOrder.DescendingOrder
        self._cockpit.preferences.put(_SORT, {"column": _NAMES[number], "descending": descending})

    def _restore(self) -> None:
        self._apply(self._cockpit.preferences.get(_LAYOUT, {}))
        kept = self._cockpit.preferences.get(_SORT, {})
        name = next((name for name in _NAMES if name == kept.get("column")), "created")
        descending = kept.get("descending") is not False
        order = Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
        self.header.setSortIndicator(COLUMN_NUMBERS[name], order)
        self._view.setSortingEnabled(True)
        self.header.sortIndicatorChanged.connect(self._keep_sort)

    def _apply(self, layout: dict[str, Any]) -> None:
        widths, hidden, order = (layout.get(what) for what in ("widths", "hidden", "order"))
        for number, column in enumerate(COLUMNS):
            width = widths.get(column.name) if isinstance(widths, dict) else None
            fits = isinstance(width, int) and _NARROWEST <= width <= _WIDEST
            concealed = isinstance(hidden, list) and column.name in hidden and column.name != "name"
            self._view.setColumnHidden(number, concealed)
            self._view.setColumnWidth(number, width if fits and width is not None else column.width)
        wanted = order if isinstance(order, list) and sorted(map(str, order)) == sorted(_NAMES) else _NAMES
        for place, name in enumerate(wanted):
            self.header.moveSection(self.header.visualIndex(COLUMN_NUMBERS[name]), place)
