"""A labelled choice among a few names with titles, for places where a row of buttons would be too prominent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QStandardItemModel
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QWidget

from gym_gui.ui.forms.field_editor import LABEL_WIDTH, RESET_WIDTH
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.widgets.calm import CalmCombo


class ChoiceRow(QWidget):
    """``chosen(str)`` brings the name of a new choice."""

    chosen = pyqtSignal(str)

    def __init__(self, title: str, choices: Sequence[tuple[str, str, str]], parent: QWidget | None = None) -> None:
        """`choices`: (name, title, tooltip); the first one is chosen."""
        super().__init__(parent)
        self._helps = {name: tooltip for name, _, tooltip in choices}
        self.combo = CalmCombo()
        self.combo.setAccessibleName(title)
        let_shrink(self.combo)
        for row, (name, shown, tooltip) in enumerate(choices):
            self.combo.addItem(shown, name)
            self.combo.setItemData(row, tooltip, Qt.ItemDataRole.ToolTipRole)
        self.combo.currentIndexChanged.connect(self._changed)
        label = QLabel(title)
        label.setFixedWidth(LABEL_WIDTH)
        label.setBuddy(self.combo)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, RESET_WIDTH + 8, 0)
        layout.setSpacing(8)
        layout.addWidget(label)
        layout.addWidget(self.combo, 1)
        self._describe()

    @property
    def choice(self) -> str:
        return str(self.combo.currentData())

    def choose(self, name: str) -> None:
        """Take a choice; a name that is none is left alone."""
        row = self.combo.findData(name)
        if row >= 0:
            self.combo.setCurrentIndex(row)

    def forbid(self, name: str, reason: str) -> None:
        """Take a choice away and say why; "" gives it back."""
        row = self.combo.findData(name)
        model: Any = self.combo.model()
        item = model.item(row) if isinstance(model, QStandardItemModel) else None
        if item is not None:
            item.setEnabled(not reason)
            item.setToolTip(reason or self._helps[name])

    def _changed(self, *_: object) -> None:
        self._describe()
        self.chosen.emit(self.choice)

    def _describe(self) -> None:
        self.combo.setToolTip(self._helps.get(self.choice, ""))
