"""The catalog on the screen: each worker with its readiness, one of them chosen."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QListWidget, QListWidgetItem, QSizePolicy, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.workers.catalog import WorkerEntry

_ROW_HEIGHT, _LOW_ROW_HEIGHT, _MOST_ROWS = 42, 26, 4
_TYPE = Qt.ItemDataRole.UserRole


class WorkerList(QListWidget):
    """``chosen(str)`` brings the type of the worker that a person picked. Each takes two lines, in a low window one."""

    chosen = pyqtSignal(str)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._entries: dict[str, WorkerEntry] = {}
        self._is_low = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setAccessibleName(self.tr("Workers"))
        self.setIconSize(QSize(20, 20))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.currentItemChanged.connect(self._picked)
        themes.changed.connect(self._dress)

    def show_entries(self, entries: Sequence[WorkerEntry], chosen: str) -> None:
        """List these; the chosen one stays chosen where it is among them, else the first is taken without a word.

        Rows of the same workers stay where they are: who presses a button on one has this called in the middle of it,
        and the button would come up over another one."""
        self._entries = {entry.type: entry for entry in entries}
        self.blockSignals(True)
        if list(self._entries) != [self._type_at(row) for row in range(self.count())]:
            self._list_types()
        for row, entry in enumerate(self._entries.values()):
            if (item := self.item(row)) is not None:
                item.setToolTip(entry.details)
        if self.choice != chosen:
            self._choose(chosen)
        self.blockSignals(False)
        self._dress(self._themes.theme)
        self._write_rows()

    def _list_types(self) -> None:
        self.clear()
        for worker_type in self._entries:
            item = QListWidgetItem()
            item.setData(_TYPE, worker_type)
            self.addItem(item)

    def set_low(self, is_low: bool) -> None:
        """Leave the room for what is below it, or take it back."""
        if is_low != self._is_low:
            self._is_low = is_low
            self._write_rows()

    def _write_rows(self) -> None:
        height, between = (_LOW_ROW_HEIGHT, " · ") if self._is_low else (_ROW_HEIGHT, "\n")
        for row, entry in enumerate(self._entries.values()):
            item = self.item(row)
            if item is not None:
                item.setText(f"{entry.name}{between}{entry.badge} · {entry.lane}")
                item.setSizeHint(QSize(10, height))
        rows = min(max(self.count(), 1), _MOST_ROWS)
        self.setMaximumHeight(rows * height + 2)
        # A window that shrinks comes below the height at which the rows become low: the tall ones must not hold it up.
        self.setMinimumHeight(min(rows, 2) * _LOW_ROW_HEIGHT + 2)
        self.updateGeometry()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """The chosen one stays in sight: its form may be what makes the list lower, under the pointer that chose it."""
        super().resizeEvent(event)
        if (item := self.currentItem()) is not None:
            self.scrollToItem(item)

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.maximumHeight())

    @property
    def choice(self) -> str:
        item = self.currentItem()
        return str(item.data(_TYPE)) if item is not None else ""

    def choose(self, worker_type: str) -> None:
        """As if a person had picked it."""
        self._choose(worker_type)

    def _choose(self, worker_type: str) -> None:
        rows = [row for row in range(self.count()) if self._type_at(row) == worker_type]
        self.setCurrentRow(rows[0] if rows else 0)

    def _type_at(self, row: int) -> str:
        item = self.item(row)
        return str(item.data(_TYPE)) if item is not None else ""

    def _picked(self, item: QListWidgetItem | None, _: QListWidgetItem | None) -> None:
        if item is not None:
            self.chosen.emit(str(item.data(_TYPE)))

    def _dress(self, theme: Theme) -> None:
        for row in range(self.count()):
            item = self.item(row)
            entry = self._entries.get(self._type_at(row))
            if item is None or entry is None:
                continue
            fit = entry.ready and not entry.away
            colour = "good" if fit else ("idle" if entry.is_human else "warning")
            item.setIcon(icon("human" if entry.is_human else "worker", theme.colour(colour)))
