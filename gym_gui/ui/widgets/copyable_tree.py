"""A list of lines in sections, walked through by keyboard and copied with Ctrl+C."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QKeyEvent, QKeySequence
from PyQt6.QtWidgets import QAbstractItemView, QTreeWidget, QTreeWidgetItem


class CopyableTree(QTreeWidget):
    """Ctrl+C calls ``copy``."""

    def __init__(self, copy: Callable[[], None]) -> None:
        super().__init__()
        self._copy = copy
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setAlternatingRowColors(True)
        self.setIndentation(12)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # paths differ at their end

    def add_section(self, title: str, lines: list[list[str]]) -> list[QTreeWidgetItem]:
        """A heading with its lines below, each of as many texts as there are columns; the lines."""
        head = QTreeWidgetItem([title])
        head.setFlags(Qt.ItemFlag.ItemIsEnabled)
        font = self.font()
        font.setBold(True)
        head.setFont(0, font)
        self.addTopLevelItem(head)
        head.setFirstColumnSpanned(True)
        items = [QTreeWidgetItem(texts) for texts in lines]
        for item, texts in zip(items, lines, strict=True):
            for column, text in enumerate(texts):
                item.setToolTip(column, text)
        head.addChildren(items)
        head.setExpanded(True)
        return items

    @property
    def chosen_lines(self) -> list[str]:
        """The selected lines, with tabs between their columns as spreadsheets take them."""
        chosen = [item for item in self.selectedItems() if item.parent() is not None]
        return ["\t".join(item.text(column) for column in range(self.columnCount())) for item in chosen]

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.matches(QKeySequence.StandardKey.Copy):
            self._copy()
            return
        super().keyPressEvent(event)
