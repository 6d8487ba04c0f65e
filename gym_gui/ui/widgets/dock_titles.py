"""Docks that share a place have their names in their tabs: the title bar, which would say it again, goes then."""

from __future__ import annotations

from collections.abc import Iterable

from PyQt6.QtCore import QEvent, QObject, Qt, QTimer
from PyQt6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QWidget

from gym_gui.ui.styling import set_style_property

_ASIDE = 2 * 14 + 4
"""What the looks give to a tab beside its words, where there is room."""


class DockTitles(QObject):
    """Watches the docks it is given. One that stands alone or floats has its title bar back. Where the words of tabs
    would be cut, they stand closer."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._docks: list[QDockWidget] = []
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)  # while Qt moves a dock, its neighbours are not yet what they will be
        self._later.timeout.connect(self.settle)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.Resize:
            self._later.start()
        return False

    def watch(self, docks: Iterable[QDockWidget]) -> None:
        for dock in docks:
            self._docks.append(dock)
            dock.topLevelChanged.connect(lambda _: self._later.start())
            dock.dockLocationChanged.connect(lambda _: self._later.start())
            dock.visibilityChanged.connect(lambda _: self._later.start())
        self.settle()

    def settle(self) -> None:
        """Give every dock the title bar, or take it from it, as its place wants.

        A hidden one keeps what it has until it is shown: with a title it would need more height when all of a place
        come back into their tabs, and the window would give it that for good.
        """
        for dock in self._docks:
            if dock.isHidden():
                continue
            beside = [other for other in self._window.tabifiedDockWidgets(dock) if not other.isHidden()]
            in_tab = bool(beside) and not dock.isFloating()
            if in_tab and dock.titleBarWidget() is None:
                nothing = QWidget(dock)
                nothing.setFixedHeight(0)
                dock.setTitleBarWidget(nothing)
            elif not in_tab and (bar := dock.titleBarWidget()) is not None:
                dock.setTitleBarWidget(None)
                bar.deleteLater()
        self._hide_tabs_of_nobody()
        for bar in self._bars():
            _put_close(bar)

    def _bars(self) -> list[QTabBar]:
        return self._window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)

    def _hide_tabs_of_nobody(self) -> None:
        """Qt makes new tab bars when a layout is restored and forgets the old ones on the screen: the newest counts."""
        shown: set[str] = set()
        for bar in reversed(self._bars()):
            names = {bar.tabText(number) for number in range(bar.count())}
            if len(names) > 1:
                bar.setVisible(not names & shown)
            shown |= names


def _put_close(bar: QTabBar) -> None:
    words = sum(bar.fontMetrics().horizontalAdvance(bar.tabText(number)) for number in range(bar.count()))
    close = words + bar.count() * _ASIDE > bar.width()
    if bool(bar.property("close")) != close:
        set_style_property(bar, "close", close)
        QApplication.sendEvent(bar, QEvent(QEvent.Type.StyleChange))  # else tabs keep the widths that they had
