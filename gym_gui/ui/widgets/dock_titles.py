"""Docks that share a place have their names in their tabs: the title bar, which would say it again, goes then."""

from __future__ import annotations

from collections.abc import Iterable

from PyQt6.QtCore import QObject, Qt, QTimer
from PyQt6.QtWidgets import QDockWidget, QMainWindow, QTabBar, QWidget


class DockTitles(QObject):
    """Watches the docks it is given. One that stands alone or floats has its title bar back."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._docks: list[QDockWidget] = []
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)  # while Qt moves a dock, its neighbours are not yet what they will be
        self._later.timeout.connect(self.settle)

    def watch(self, docks: Iterable[QDockWidget]) -> None:
        for dock in docks:
            self._docks.append(dock)
            dock.topLevelChanged.connect(lambda _: self._later.start())
            dock.dockLocationChanged.connect(lambda _: self._later.start())
            dock.visibilityChanged.connect(lambda _: self._later.start())
        self.settle()

    def settle(self) -> None:
        """Give every dock the title bar, or take it from it, as its place wants."""
        for dock in self._docks:
            beside = [other for other in self._window.tabifiedDockWidgets(dock) if not other.isHidden()]
            in_tab = bool(beside) and not dock.isFloating() and not dock.isHidden()
            if in_tab and dock.titleBarWidget() is None:
                nothing = QWidget(dock)
                nothing.setFixedHeight(0)
                dock.setTitleBarWidget(nothing)
            elif not in_tab and (bar := dock.titleBarWidget()) is not None:
                dock.setTitleBarWidget(None)
                bar.deleteLater()
        self._hide_tabs_of_nobody()

    def _hide_tabs_of_nobody(self) -> None:
        """Qt makes new tab bars when a layout is restored and forgets the old ones on the screen: the newest counts."""
        shown: set[str] = set()
        for bar in reversed(self._window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)):
            names = {bar.tabText(number) for number in range(bar.count())}
            if len(names) > 1:
                bar.setVisible(not names & shown)
            shown |= names
