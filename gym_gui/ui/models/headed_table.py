"""What a table of fixed columns has in common with any other: headings, what they mean, and which hold numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from PyQt6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt

NOWHERE = QModelIndex()
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class HeadedTable(QAbstractTableModel):
    """A heading for each column, a sentence about it where one is needed, and ``numbers``: the columns that are aligned
    to the right. Rows are the subclass's."""

    def __init__(
        self, titles: Sequence[str], numbers: Collection[int], parent: QObject, helps: Sequence[str] = ()
    ) -> None:
        super().__init__(parent)
        self._titles, self._numbers, self._helps = titles, numbers, helps

    def alignment(self, column: int) -> Qt.AlignmentFlag:
        return _RIGHT if column in self._numbers else _LEFT

    def columnCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation == Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._titles[section]
        if role == Qt.ItemDataRole.ToolTipRole and self._helps:
            return self._helps[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(section)
        return None
