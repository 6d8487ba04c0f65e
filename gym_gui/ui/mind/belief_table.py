"""Beliefs as a table: what is new in green, what was dropped in red and struck through."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QAbstractTableModel, QModelIndex, QObject, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QResizeEvent
from PyQt6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from gym_gui.ui.mind.beliefs import BeliefRow
from gym_gui.ui.theme import Themes, blended

COLUMNS = NAME, VALUE, SOURCE = range(3)
ROW_HEIGHT = 22
_NOWHERE = QModelIndex()
_TINT = 0.16
_LEAST_WITH_HEADING = 92
_COLOURS = {"+": "good", "−": "bad"}


class BeliefTable(QAbstractTableModel):
    """Shows rows; tell it others with :meth:`show_rows`."""

    def __init__(self, themes: Themes, parent: QObject) -> None:
        super().__init__(parent)
        self._themes = themes
        self.rows: list[BeliefRow] = []
        self._titles = (self.tr("Belief"), self.tr("Value"), self.tr("From"))
        self._helps = (
            self.tr("What the agent believes; + is new, − was dropped"),
            self.tr("Of what, or how much"),
            self.tr("Where it comes from: its senses, itself, what it learned, a person, or another agent"),
        )
        themes.changed.connect(self._dress)

    def _dress(self, *_: object) -> None:
        if self.rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, SOURCE))

    def show_rows(self, rows: list[BeliefRow]) -> None:
        if rows == self.rows:
            return
        if len(rows) == len(self.rows):
            self.rows = rows
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, SOURCE))
            return
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: QModelIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: QModelIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation == Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._titles[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._helps[section]
        return Qt.AlignmentFlag.AlignLeft if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, column)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._colour(row, column)
        if role == Qt.ItemDataRole.BackgroundRole and row.mark:
            theme = self._themes.theme
            return blended(theme.colour(_COLOURS[row.mark]), theme.colour("panel"), _TINT)
        if role == Qt.ItemDataRole.FontRole and row.mark == "−" and column == VALUE:
            struck = QFont()
            struck.setStrikeOut(True)
            return struck
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._spoken(row)
        return None

    def _text(self, row: BeliefRow, column: int) -> str:
        if column == NAME:
            return f"{row.mark or ' '} {row.name}"
        return row.value if column == VALUE else row.source

    def _colour(self, row: BeliefRow, column: int) -> QColor | None:
        theme = self._themes.theme
        if column == NAME and row.mark:
            return theme.pill_text(_COLOURS[row.mark])
        if column == SOURCE and not row.mark:
            return theme.colour("warning") if row.source == "person" else theme.colour("muted")
        return None

    def _spoken(self, row: BeliefRow) -> str:
        written = f"{row.name}({row.value})" if row.value else row.name
        changed = {"+": self.tr(", new"), "−": self.tr(", dropped"), "": ""}[row.mark]
        source = self.tr(", from {source}").format(source=row.source) if row.source else ""
        return f"{written}{changed}{source}"


class BeliefView(QTableView):
    """The table, with the keyboard from row to row."""

    def __init__(self, table: BeliefTable, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModel(table)
        self.setAccessibleName(self.tr("What the agent believes"))
        self.setShowGrid(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        rows, across = self.verticalHeader(), self.horizontalHeader()
        assert rows is not None and across is not None
        rows.hide()
        rows.setMinimumSectionSize(ROW_HEIGHT)
        rows.setDefaultSectionSize(ROW_HEIGHT)
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        across.setHighlightSections(False)
        across.setSectionsClickable(False)
        across.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        across.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        across.setSectionResizeMode(SOURCE, QHeaderView.ResizeMode.Stretch)
        across.setStyleSheet("QHeaderView::section { padding: 3px 6px; background: transparent; }")

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Names are longest; in a low card rows are worth more than the heading."""
        super().resizeEvent(event)
        port, across = self.viewport(), self.horizontalHeader()
        assert port is not None and across is not None
        self.setColumnWidth(NAME, round(port.width() * 0.45))
        self.setColumnWidth(VALUE, round(port.width() * 0.3))
        across.setVisible(self.height() >= _LEAST_WITH_HEADING)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 48)

    def content_height(self) -> int:
        model, across = self.model(), self.horizontalHeader()
        assert model is not None and across is not None
        rows = model.rowCount() * ROW_HEIGHT + 2 * self.frameWidth()
        return rows + across.sizeHint().height() if rows + ROW_HEIGHT >= _LEAST_WITH_HEADING else rows
