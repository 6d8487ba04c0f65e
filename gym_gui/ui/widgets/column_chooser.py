"""Which columns the list of runs has: type a few letters of a setting or a metric, tick it."""

from __future__ import annotations

from collections.abc import Iterable

from PyQt6.QtCore import QEvent, QObject, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from gym_gui.ui.widgets.command_palette import rank

_WIDTH, _HEIGHT = 340, 380
_NAME = Qt.ItemDataRole.UserRole


class ColumnChooser(QFrame):
    """A popup with everything that can be a column. ``toggled(name, shown)``. Space or Return ticks, Escape leaves."""

    toggled = pyqtSignal(str, bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("role", "card")
        self.query = QLineEdit()
        self.query.setPlaceholderText(self.tr("Find a column, a setting or a metric"))
        self.query.setAccessibleName(self.query.placeholderText())
        self.query.textChanged.connect(lambda _: self._narrow())
        self.query.installEventFilter(self)
        self.list = QListWidget()
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.itemChanged.connect(self._changed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.addWidget(self.query)
        layout.addWidget(self.list)
        self.setFixedSize(_WIDTH, _HEIGHT)

    def offer(self, columns: Iterable[tuple[str, str, str]], shown: Iterable[str]) -> None:
        """``columns``: (name, title, what kind of thing it is), in their order; those of ``shown`` are ticked."""
        ticked = set(shown)
        self.list.blockSignals(True)
        self.list.clear()
        for name, title, kind in columns:
            item = QListWidgetItem(f"{title}   {kind}" if kind else title)
            item.setData(_NAME, name)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable)
            item.setCheckState(Qt.CheckState.Checked if name in ticked else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.list.blockSignals(False)
        self.query.clear()
        self._narrow()

    def names(self) -> list[str]:
        """What is offered now."""
        return [str(item.data(_NAME)) for item in self._items() if not item.isHidden()]

    def _items(self) -> list[QListWidgetItem]:
        found = (self.list.item(place) for place in range(self.list.count()))
        return [item for item in found if item is not None]

    def _narrow(self) -> None:
        words = self.query.text()
        for item in self._items():
            item.setHidden(bool(words) and rank(words, item.text().replace("_", " ")) is None)
        first = next((item for item in self._items() if not item.isHidden()), None)
        self.list.setCurrentItem(first)

    def _changed(self, item: QListWidgetItem) -> None:
        self.toggled.emit(item.data(_NAME), item.checkState() == Qt.CheckState.Checked)

    # ---- keyboard ------------------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key = event.key()
            if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
                self._step(1 if key == Qt.Key.Key_Down else -1)
                return True
            empty_space = key == Qt.Key.Key_Space and not self.query.text()
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) or empty_space:
                self._tick()
                return True
        return super().eventFilter(watched, event)

    def _step(self, by: int) -> None:
        seen = [item for item in self._items() if not item.isHidden()]
        if seen:
            current = self.list.currentItem()
            place = seen.index(current) if current in seen else -by
            self.list.setCurrentItem(seen[(place + by) % len(seen)])

    def _tick(self) -> None:
        item = self.list.currentItem()
        if item is not None and not item.isHidden():
            on = item.checkState() != Qt.CheckState.Checked
            item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
