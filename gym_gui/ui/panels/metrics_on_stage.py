"""The metrics as wide as the window, as many plots beside each other as there is room for.

The runs stay below, except in a low window, where between both no plot would be left.
"""

from __future__ import annotations

from PyQt6.QtCore import QObject
from PyQt6.QtWidgets import QApplication, QDockWidget

from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.dock_arrangement import DockArrangement
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panes import enter
from gym_gui.ui.parts import Place
from gym_gui.ui.widgets.empty_page import EmptyPage

_COMMAND = "metrics-on-stage"
_LOW_WINDOW = 700


class MetricsOnStage(QObject):
    """Moves the panel itself, so that its choices stay. Whatever else takes the stage sends it back to its dock."""

    def __init__(self, cockpit: Cockpit, panel: MetricsPanel, stage: Stage) -> None:
        super().__init__(stage)
        self._panel, self._stage = panel, stage
        self._dock: QDockWidget | None = None
        self._title = ""
        help_text = self.tr("Show every curve as wide as the window, in a grid, or back at its side")
        command = Command(
            _COMMAND, self.tr("Curves on the stage"), "View/Curves", "Ctrl+Shift+M", help_text, "full width grid wide"
        )
        self._action = cockpit.commands.add(command, self._follow, checkable=True)
        panel.toolbar.leave.clicked.connect(self.give_back)
        stage.pages.currentChanged.connect(lambda _: self._stage_changed())
        stage.closing.connect(self.give_back)

    @property
    def is_on(self) -> bool:
        return self._dock is not None

    def _follow(self) -> None:
        if self._action.isChecked():
            self.take()
        else:
            self.give_back()

    def take(self) -> None:
        dock = self._panel.parentWidget()
        if self.is_on or not isinstance(dock, QDockWidget):
            return
        self._dock, self._title = dock, dock.windowTitle()
        if (arrangement := self._arrangement) is not None:
            window = self._stage.window()
            low = window is not None and window.height() < _LOW_WINDOW
            places = (Place.LEFT, Place.RIGHT, Place.BOTTOM) if low else (Place.LEFT, Place.RIGHT)
            arrangement.make_room(self, places, [dock])
        away = EmptyPage()
        away.tell(
            self.tr("The curves are on the stage"),
            self.tr("What is selected below is drawn there."),
            self.tr("Bring them back"),
        )
        away.acted.connect(self.give_back)
        dock.setWidget(away)
        dock.setWindowTitle(self._title)
        self._action.setChecked(True)
        self._panel.toolbar.leave.show()
        self._stage.show_over(self._panel)
        self._panel.show()
        self._panel.setFocus()

    def give_back(self) -> None:
        """May be called when they are where they belong."""
        dock, self._dock = self._dock, None
        self._action.setChecked(False)
        if dock is None:
            return
        away, focused = dock.widget(), QApplication.focusWidget()
        inside = focused is not None and self._panel.isAncestorOf(focused)
        goes_along = inside or (away is not None and focused is not None and away.isAncestorOf(focused))
        self._stage.pages.removeWidget(self._panel)
        dock.setWidget(self._panel)
        dock.setWindowTitle(self._title)
        self._panel.toolbar.leave.hide()
        if (arrangement := self._arrangement) is not None:
            arrangement.give_room_back(self)
        if away is not None:
            away.deleteLater()
        self._stage.end_over(self._panel)
        if goes_along:  # Qt would give the keyboard to the modes of the form
            enter(focused if inside and focused is not None else self._panel)

    @property
    def _arrangement(self) -> DockArrangement | None:
        found = getattr(self._stage.window(), "arrangement", None)
        return found if isinstance(found, DockArrangement) else None

    def _stage_changed(self) -> None:
        if self.is_on and self._stage.pages.currentWidget() is not self._panel:
            self.give_back()
