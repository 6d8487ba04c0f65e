"""Moving through the window by keyboard: Tab within and across the panes, F6 from pane to pane."""

from __future__ import annotations

from PyQt6.QtCore import QObject, Qt, QTimer
from PyQt6.QtWidgets import QApplication, QDockWidget, QFrame, QMainWindow, QScrollArea, QStatusBar, QTabBar, QWidget

from gym_gui.ui.commands import Command, Commands
from gym_gui.ui.tab_order import neighbour, pane_of, stops

_AREAS = (
    Qt.DockWidgetArea.LeftDockWidgetArea,
    Qt.DockWidgetArea.NoDockWidgetArea,  # the stage
    Qt.DockWidgetArea.TopDockWidgetArea,
    Qt.DockWidgetArea.RightDockWidgetArea,
    Qt.DockWidgetArea.BottomDockWidgetArea,
)
"""From left to right, then down: the form is where one begins."""


class Panes(QObject):
    """What can be seen of a main window, in the order of its areas; what floats over it comes first.

    What gets the focus by a key or a command is scrolled into sight: Qt does that for its own Tab alone.
    """

    def __init__(self, window: QMainWindow, commands: Commands) -> None:
        super().__init__(window)
        self._window = window
        tr, menu = self.tr, "View/Panels"
        following = Command("next-pane", tr("Next panel"), menu, "F6", tr("Go to the next panel of the window"))
        commands.add(following, lambda: self.move(forwards=True))
        before = Command("previous-pane", tr("Previous panel"), menu, "Shift+F6", tr("Go to the panel before this one"))
        commands.add(before, lambda: self.move(forwards=False))
        self._settling = QTimer(self)
        self._settling.setSingleShot(True)
        self._settling.setInterval(0)  # what was just unfolded has no place before it is laid out
        self._settling.timeout.connect(self._bring_into_sight)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_moved)

    def _focus_moved(self, _: QWidget | None, focused: QWidget | None) -> None:
        """Nothing moves under a mouse that is pressed: its release would be for something else."""
        pressed = QApplication.mouseButtons() != Qt.MouseButton.NoButton
        if focused is not None and not pressed and focused.window() is self._window:
            self._settling.start()

    def _bring_into_sight(self) -> None:
        focused = QApplication.focusWidget()
        around = focused.parentWidget() if focused is not None else None
        while focused is not None and around is not None:
            if isinstance(around, QScrollArea):
                around.ensureWidgetVisible(focused)
            around = around.parentWidget()

    def tab(self, *, forwards: bool) -> bool:
        """What the Tab key does; whether there was anywhere to go."""
        found = neighbour(self._stretches(), QApplication.focusWidget(), forwards=forwards)
        if found is None:
            return False
        found.setFocus(Qt.FocusReason.TabFocusReason if forwards else Qt.FocusReason.BacktabFocusReason)
        return True

    def move(self, *, forwards: bool) -> None:
        """To the pane after the one that has the focus, or before it."""
        panes = [pane for pane in self._panes() if stops(pane)]
        if panes:
            here = pane_of(panes, QApplication.focusWidget())
            enter(panes[(here + (1 if forwards else -1)) % len(panes) if here >= 0 else 0])

    def _panes(self) -> list[QWidget]:
        only_own = Qt.FindChildOption.FindDirectChildrenOnly
        frames = self._window.findChildren(QFrame, options=only_own)
        floating = [frame for frame in frames if frame.property("role") == "floating" and frame.isVisible()]
        docks = self._window.findChildren(QDockWidget, options=only_own)
        shown = {_AREAS[1]: [self._window.centralWidget()]}
        for dock in docks:
            if not dock.isFloating() and dock.isVisible() and not dock.visibleRegion().isEmpty():
                shown.setdefault(self._window.dockWidgetArea(dock), []).append(dock.widget())
        placed = [pane for area in _AREAS for pane in shown.get(area, []) if pane is not None]
        bars = self._window.findChildren(QStatusBar, options=only_own)  # it has a button while the daemon is stopped
        return [*floating, *placed, *(bar for bar in bars if bar.isVisible())]

    def _stretches(self) -> list[QWidget]:
        """The panes, and before each one that shares its place the tabs that lead to the others."""
        only_own = Qt.FindChildOption.FindDirectChildrenOnly
        bars = [bar for bar in self._window.findChildren(QTabBar, options=only_own) if bar.isVisible()]
        found: list[QWidget] = []
        for pane in self._panes():
            dock = pane.parentWidget()
            title = dock.windowTitle() if isinstance(dock, QDockWidget) else ""
            found += [bar for bar in bars if title and bar.tabText(bar.currentIndex()) == title]
            found.append(pane)
        return found


def enter(pane: QWidget) -> None:
    """Give a pane the focus: where it wants it, or else at its beginning."""
    pane.setFocus(Qt.FocusReason.ShortcutFocusReason)
    inside, focused = stops(pane), QApplication.focusWidget()
    if inside and (focused is pane or not pane.isAncestorOf(focused)):  # Qt counts a widget among its own ancestors
        inside[0].setFocus(Qt.FocusReason.ShortcutFocusReason)
