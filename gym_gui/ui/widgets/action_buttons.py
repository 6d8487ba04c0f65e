"""Commands as a row of buttons: those that exist, that can be used now, with their help and shortcut as tooltip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PyQt6.QtGui import QAction
from PyQt6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from gym_gui.ui.commands import Commands


class ActionButtons(QWidget):
    """One button for each of the named commands, as soon as a part offers it; ``titles`` may shorten what it says.

    A command that cannot be used now is not offered: the menu says why.
    """

    def __init__(
        self,
        commands: Commands,
        names: Sequence[str],
        titles: dict[str, str] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._commands, self._names, self._titles = commands, list(names), titles or {}
        self._offered = set(names)
        self.buttons: dict[str, QPushButton] = {}
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(8)
        for command, _ in commands.all():
            self._add(command.name)
        commands.added.connect(lambda command: self._add(command.name))

    def offer(self, names: Sequence[str]) -> None:
        """Of all, only these make sense now."""
        if self._offered != set(names):
            self._offered = set(names)
            for name in self.buttons:
                self._follow(name, self._commands.action(name))

    def _add(self, name: str) -> None:
        if name not in self._names or name in self.buttons:
            return
        action = self._commands.action(name)
        button = QPushButton()
        button.clicked.connect(action.trigger)
        self.buttons[name] = button
        place = sum(1 for other in self.buttons if self._names.index(other) < self._names.index(name))
        self._layout.insertWidget(place, button)
        action.changed.connect(partial(self._follow, name, action))
        self._follow(name, action)

    def _follow(self, name: str, action: QAction) -> None:
        button = self.buttons[name]
        button.setText(self._titles.get(name, action.text()))
        button.setToolTip(action.toolTip())
        button.setVisible(action.isEnabled() and name in self._offered)
