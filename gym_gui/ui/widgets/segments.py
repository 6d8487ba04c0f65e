"""A row of buttons of which one is chosen: Human | Hybrid | Agent, Train new | Use trained."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QWidget


class Segments(QWidget):
    """``chosen(str)`` brings the name of the new choice; setting the same again says nothing."""

    chosen = pyqtSignal(str)

    def __init__(self, choices: Sequence[tuple[str, str, str]], parent: QWidget | None = None) -> None:
        """`choices`: (name, title, tooltip) from left to right; the first one is chosen."""
        super().__init__(parent)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self.buttons: dict[str, QPushButton] = {}
        for name, title, tooltip in choices:
            button = QPushButton(title)
            button.setCheckable(True)
            button.setProperty("kind", "segment")
            button.setToolTip(tooltip)
            button.toggled.connect(lambda on, name=name: self.chosen.emit(name) if on else None)
            self._group.addButton(button)
            self.buttons[name] = button
            layout.addWidget(button, 1)
        self.choose(choices[0][0])

    @property
    def choice(self) -> str:
        return next(name for name, button in self.buttons.items() if button.isChecked())

    def choose(self, name: str) -> None:
        if name in self.buttons:
            self.buttons[name].setChecked(True)

    def choose_none(self) -> None:
        """No choice of these is true at the moment; :attr:`choice` has no answer until there is one."""
        self._group.setExclusive(False)
        for button in self.buttons.values():
            button.setChecked(False)
        self._group.setExclusive(True)
