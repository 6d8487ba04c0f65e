"""Settings by name for a worker that does not say which it takes: a table of names and values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.ui.forms.field_spec import json_or_text

_ROW_HEIGHT, _MOST_ROWS = 30, 8


class KeyValueEditor(QWidget):
    """``changed()`` follows every edit. A value is read as JSON where it is JSON, else as text."""

    changed = pyqtSignal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = QTableWidget(0, 2)
        self.table.setHorizontalHeaderLabels([self.tr("Setting"), self.tr("Value")])
        self.table.setAccessibleName(self.tr("Settings of the worker"))
        self.table.setToolTip(self.tr("Handed to the worker as they are: numbers, true, false and lists as JSON"))
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        for header in (self.table.horizontalHeader(), self.table.verticalHeader()):
            assert header is not None
        self.table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)  # type: ignore[union-attr]
        self.table.verticalHeader().hide()  # type: ignore[union-attr]
        self.table.itemChanged.connect(self._edited)
        self.error = QLabel()
        self.error.setProperty("role", "error")
        self.error.setWordWrap(True)
        self.error.hide()
        add = QPushButton(self.tr("Add a setting"))
        add.setToolTip(self.tr("One more setting for the worker"))
        add.clicked.connect(lambda: self._add("", ""))
        remove = QPushButton(self.tr("Remove"))
        remove.setToolTip(self.tr("Take the chosen settings out"))
        remove.clicked.connect(self._remove)
        buttons = QHBoxLayout()
        buttons.addWidget(add)
        buttons.addWidget(remove)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table)
        layout.addWidget(self.error)
        layout.addLayout(buttons)
        self._fit()

    def entries(self) -> dict[str, str]:
        """Names and values as they were typed; of a name given twice the last counts."""
        return {name: value for name, value in self._pairs() if name}

    def put(self, entries: Mapping[str, Any]) -> None:
        self.table.blockSignals(True)
        self.table.setRowCount(0)
        for name, value in entries.items():
            self._add(name, value if isinstance(value, str) else json.dumps(value), edit=False)
        self.table.blockSignals(False)
        self._edited()

    def values(self) -> dict[str, Any]:
        return {name: json_or_text(text) for name, text in self.entries().items()}

    def problem(self) -> str:
        names = [name for name, _ in self._pairs()]
        if twice := next((name for name in names if name and names.count(name) > 1), ""):
            return self.tr("{name} is given twice").format(name=twice)
        if any(value and not name for name, value in self._pairs()):
            return self.tr("a value has no name")
        return ""

    def _pairs(self) -> list[tuple[str, str]]:
        return [(self._text(row, 0).strip(), self._text(row, 1)) for row in range(self.table.rowCount())]

    def _text(self, row: int, column: int) -> str:
        item = self.table.item(row, column)
        return item.text() if item is not None else ""

    def _add(self, name: str, value: str, *, edit: bool = True) -> None:
        row = self.table.rowCount()
        self.table.insertRow(row)
        for column, text in enumerate((name, value)):
            self.table.setItem(row, column, QTableWidgetItem(text))
        if edit:
            self._fit()
            self.table.setCurrentCell(row, 0)
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)
            item = self.table.item(row, 0)
            if item is not None:
                self.table.editItem(item)

    def _remove(self) -> None:
        for row in sorted({index.row() for index in self.table.selectedIndexes()}, reverse=True):
            self.table.removeRow(row)
        self._edited()

    def _edited(self, *_: object) -> None:
        problem = self.problem()
        self.error.setText(problem)
        self.error.setVisible(bool(problem))
        self._fit()
        self.changed.emit()

    def _fit(self) -> None:
        rows = min(max(self.table.rowCount(), 1), _MOST_ROWS)
        self.table.setFixedHeight((rows + 1) * _ROW_HEIGHT + 8)
