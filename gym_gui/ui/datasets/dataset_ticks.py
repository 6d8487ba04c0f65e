"""A list of datasets of which several are ticked: those that a merge puts together."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QLabel, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from gym_gui.services.datasets.words import BADGE_MEANINGS, MISSING
from gym_gui.services.run_words import counted
from gym_gui.ui.datasets.shelf import DatasetShelf
from mosaic_protocol.datasets import DatasetEntry, Integrity
from mosaic_protocol.plain_text import one_line

_NAME = Qt.ItemDataRole.UserRole
_ROWS_SHOWN = (3, 8)
_USABLE = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsUserCheckable


class DatasetTicks(QWidget):
    """``changed()`` follows every tick. What cannot go with what is ticked is grey, and its tooltip says why."""

    changed = pyqtSignal()

    def __init__(self, shelf: DatasetShelf, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shelf = shelf
        self._ticked: list[str] = []
        self.list = QListWidget()
        self.list.setAccessibleName(self.tr("Datasets to merge"))
        self.list.setUniformItemSizes(True)
        label = QLabel(self.tr("Datasets to merge"))
        label.setBuddy(self.list)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(label)
        layout.addWidget(self.list)
        self.setFocusProxy(self.list)
        self.list.itemChanged.connect(self._item_changed)
        shelf.changed.connect(self._fill)
        self._fill()

    @property
    def names(self) -> list[str]:
        """Those that are ticked, in the order of the ticks: the first one lends the new dataset its description."""
        return list(self._ticked)

    def tick(self, names: Sequence[str]) -> None:
        """Tick these and no others."""
        self._ticked = [name for name in names if self._shelf.get(name) is not None]
        self._fill()
        self.changed.emit()

    def _fill(self) -> None:
        entries = self._shelf.entries or {}
        self._ticked = [name for name in self._ticked if name in entries]
        row = self.list.currentRow()
        self.list.blockSignals(True)
        self.list.clear()
        for entry in entries.values():
            item = QListWidgetItem(_summary(entry))
            item.setData(_NAME, entry.name)
            self.list.addItem(item)
        self.list.setCurrentRow(max(0, min(row, self.list.count() - 1)))
        self.list.blockSignals(False)
        self._follow()
        least, most = _ROWS_SHOWN
        tall = max(self.list.sizeHintForRow(0), 18) * min(max(self.list.count(), least), most)
        self.list.setFixedHeight(tall + 2 * self.list.frameWidth() + 4)

    def _follow(self) -> None:
        """Show which are ticked, and which can be."""
        self.list.blockSignals(True)
        for row in range(self.list.count()):
            item = self.list.item(row)
            entry = self._shelf.get(str(item.data(_NAME))) if item is not None else None
            if item is None or entry is None:
                continue
            why = self._why_not(entry)
            item.setFlags(Qt.ItemFlag.NoItemFlags if why else _USABLE)
            item.setCheckState(Qt.CheckState.Checked if entry.name in self._ticked else Qt.CheckState.Unchecked)
            item.setToolTip(why or BADGE_MEANINGS[entry.badge])
        self.list.blockSignals(False)

    def _why_not(self, entry: DatasetEntry) -> str:
        """Why this one cannot be merged with what is ticked, "" when it can as far as one sees."""
        if entry.found is None:
            return one_line(entry.problem)
        if entry.badge in (Integrity.ABSENT, Integrity.CORRUPT):
            return BADGE_MEANINGS[entry.badge]
        first = self._shelf.get(self._ticked[0]) if self._ticked else None
        ids = entry.found.env_id, first.found.env_id if first is not None and first.found is not None else None
        if all(ids) and ids[0] != ids[1]:
            return self.tr("It is of {one}, and what is ticked of {other}.").format(one=ids[0], other=ids[1])
        return ""

    def _item_changed(self, item: QListWidgetItem) -> None:
        name = str(item.data(_NAME))
        on = item.checkState() == Qt.CheckState.Checked
        self._ticked = [*(one for one in self._ticked if one != name), *([name] if on else [])]
        self._follow()
        self.changed.emit()


def _summary(entry: DatasetEntry) -> str:
    told = entry.found
    if told is None:
        return entry.name
    return " · ".join([entry.name, one_line(told.env_id or MISSING), counted(told.episodes, "episode")])
