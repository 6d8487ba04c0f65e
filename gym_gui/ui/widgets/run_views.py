"""Saved views of the list of runs: its columns, order, filter and groups under a name. In the palette too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QLineEdit, QMenu, QToolButton, QWidget, QWidgetAction

from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.widgets.snackbar import Notice

_KEY = "runs.views"
_LONGEST = 60
_MOST = 50


class RunViews(QToolButton):
    """``chosen(dict)`` brings what a view holds; ``state()`` gives what it would hold now."""

    chosen = pyqtSignal(dict)

    def __init__(self, cockpit: Cockpit, state: Callable[[], dict[str, Any]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit, self._state = cockpit, state
        self.setToolTip(self.tr("Saved views: columns, order, filter and groups under a name"))
        self.setAccessibleName(self.tr("Saved views"))
        self.clicked.connect(self._open)
        self._dress()
        cockpit.themes.changed.connect(self._dress)
        for name in self.views():
            self._offer(name)

    def _dress(self) -> None:
        self.setIcon(icon("preset", self._cockpit.themes.theme.colour("muted")))

    def views(self) -> dict[str, dict[str, Any]]:
        kept = self._cockpit.preferences.get(_KEY, {})
        return {name: view for name, view in kept.items() if isinstance(name, str) and isinstance(view, dict)}

    def _open(self) -> None:
        menu = self.menu_of_views()
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))
        line = menu.findChild(QLineEdit)
        if not self.views() and line is not None:  # a name is all that can be given here, so it has the keyboard
            line.setFocus(Qt.FocusReason.PopupFocusReason)

    def menu_of_views(self) -> QMenu:
        """Closes itself away."""
        menu = QMenu(self)
        for name in sorted(self.views()):
            action = menu.addAction(name.replace("&", "&&"))
            assert action is not None
            action.triggered.connect(lambda *_, name=name: self.use(name))
        if self.views():
            forget = menu.addMenu(self.tr("Delete a view"))
            assert forget is not None
            for name in sorted(self.views()):
                action = forget.addAction(name.replace("&", "&&"))
                assert action is not None
                action.triggered.connect(lambda *_, name=name: self.forget(name))
            menu.addSeparator()
        menu.addAction(self._naming(menu))
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def _naming(self, menu: QMenu) -> QWidgetAction:
        line = QLineEdit()
        line.setPlaceholderText(self.tr("Save this view as…, then Return"))
        line.setAccessibleName(self.tr("Name of the view"))
        line.setMaxLength(_LONGEST)
        line.setMinimumWidth(230)

        def named() -> None:
            if line.text().strip():
                self.save(line.text().strip())
                menu.close()

        line.returnPressed.connect(named)
        action = QWidgetAction(menu)
        action.setDefaultWidget(line)
        return action

    # ---- keeping -------------------------------------------------------------------------------------------------

    def save(self, name: str) -> None:
        """Keep what is shown now; a view of the same name is replaced."""
        before = self.views()
        if name not in before and len(before) >= _MOST:
            sentence = self.tr("There are {count} views already: delete one first.").format(count=_MOST)
            self._cockpit.notify(Notice(sentence, "warning"))
            return
        self._cockpit.preferences.put(_KEY, {**before, name: self._state()})
        if name not in before:
            self._offer(name)
        self._cockpit.notify(Notice(self.tr("The view {name} is saved.").format(name=name), "good"))

    def use(self, name: str) -> None:
        if name in self.views():
            self.chosen.emit(self.views()[name])

    def forget(self, name: str) -> None:
        before = self.views()
        self._cockpit.preferences.put(_KEY, {other: view for other, view in before.items() if other != name})
        self._cockpit.commands.remove(_command(name))

        def back() -> None:
            self._cockpit.preferences.put(_KEY, {**self.views(), name: before[name]})
            self._offer(name)

        text = self.tr("The view {name} was deleted.").format(name=name)
        self._cockpit.notify(Notice(text, action=self.tr("Undo"), act=back))

    def _offer(self, name: str) -> None:
        help_text = self.tr("Show the runs as they were when the view was saved")
        command = Command(_command(name), name, "View/Runs/Saved views", "", help_text, "view runs saved table")
        self._cockpit.commands.add(command, lambda: self.use(name))


def _command(name: str) -> str:
    return f"runs-view:{name}"
