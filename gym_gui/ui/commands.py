"""Everything that can be done, in one list: the menus, the shortcuts and the command palette are views of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtGui import QAction, QKeySequence
from PyQt6.QtWidgets import QWidget


@dataclass(frozen=True)
class Command:
    """One thing that can be done. ``help`` says what it does to the run, for tooltips and the palette.

    ``menu`` may name a submenu: "View/Panels". ``also``: other words that people look for. ``repeats``: whether a key
    that is held down does it again and again.
    """

    name: str
    title: str
    menu: str
    shortcut: str = ""
    help: str = ""
    also: str = ""
    repeats: bool = False


@dataclass(frozen=True)
class Found:
    """Something that is no command and that the palette finds: a setting, a column."""

    title: str
    aside: str
    help: str
    act: Callable[[], object]


Finder = Callable[[str], Iterable[Found]]
"""What fits what was typed; asked with every letter."""


class Commands(QObject):
    """The commands by name. Each is a QAction of the window, so that its shortcut works wherever the focus is."""

    added = pyqtSignal(object)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._actions: dict[str, tuple[Command, QAction]] = {}
        self.finders: list[Finder] = []

    def add(self, command: Command, act: Callable[[], object], *, checkable: bool = False) -> QAction:
        """Offer a command. A name or a shortcut that is taken is a programming error."""
        if command.name in self._actions:
            raise ValueError(f"the command {command.name!r} is there already")
        if command.shortcut and any(other.shortcut == command.shortcut for other, _ in self._actions.values()):
            raise ValueError(f"the shortcut {command.shortcut} of {command.name!r} is taken")
        action = QAction(command.title, self._window)
        action.setObjectName(command.name)
        action.setCheckable(checkable)
        action.setAutoRepeat(command.repeats)
        action.setToolTip(_tooltip(command))
        action.setStatusTip(command.help)
        if command.shortcut:
            action.setShortcut(QKeySequence(command.shortcut))
        action.triggered.connect(lambda *_: act())
        self._window.addAction(action)
        self._actions[command.name] = (command, action)
        self.added.emit(command)
        return action

    def remove(self, name: str) -> None:
        """Offer a command no longer; menus and palette forget it."""
        _, action = self._actions.pop(name)
        self._window.removeAction(action)
        action.deleteLater()

    def action(self, name: str) -> QAction:
        return self._actions[name][1]

    def all(self) -> list[tuple[Command, QAction]]:
        return list(self._actions.values())

    def enable(self, name: str, enabled: bool, reason: str = "") -> None:
        """Whether a command can be used now; when not, its tooltip says why."""
        command, action = self._actions[name]
        action.setEnabled(enabled)
        action.setToolTip(_tooltip(command) if enabled or not reason else f"{_tooltip(command)}\n{reason}")


def _tooltip(command: Command) -> str:
    shortcut = f"  ({command.shortcut})" if command.shortcut else ""
    return f"{command.help or command.title}{shortcut}"
