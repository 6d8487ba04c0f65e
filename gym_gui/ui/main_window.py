"""The frame: docks around a stage, menus, status line, notices. What is in the docks comes from :mod:`parts`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from PyQt6.QtCore import QByteArray, Qt, QTimer
from PyQt6.QtGui import QCloseEvent
from PyQt6.QtWidgets import QApplication, QDockWidget, QMainWindow, QMenu, QStackedWidget, QTabWidget, QWidget

from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.commands import Command, Commands
from gym_gui.ui.context import Cockpit
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.preferences import Preferences
from gym_gui.ui.run_book import RunBook, RunSelection
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.command_palette import CommandPalette
from gym_gui.ui.widgets.dock_titles import DockTitles
from gym_gui.ui.widgets.snackbar import Notice, Snackbar
from gym_gui.ui.widgets.status_line import StatusLine

LAYOUT_VERSION = 1
SAVE_MILLISECONDS = 2000
NARROW_SCREEN = 1200
_MENUS = ("File", "Run", "View", "Help")
_AREAS = {
    Place.LEFT: Qt.DockWidgetArea.LeftDockWidgetArea,
    Place.RIGHT: Qt.DockWidgetArea.RightDockWidgetArea,
    Place.BOTTOM: Qt.DockWidgetArea.BottomDockWidgetArea,
}


class MainWindow(QMainWindow):
    """One window on one daemon. Closing it leaves the runs running."""

    def __init__(self, bridge: TrainerBridge, themes: Themes, preferences: Preferences, parts: Sequence[Part]) -> None:
        super().__init__()
        self.setWindowTitle("MOSAIC")
        self.setMinimumSize(900, 560)
        self.resize(1280, 800)
        self.setDockOptions(QMainWindow.DockOption.AllowNestedDocks | QMainWindow.DockOption.AllowTabbedDocks)
        self._give_corners(narrow=False)
        self._snackbar = Snackbar(self)
        self.cockpit = Cockpit(
            bridge=bridge,
            runs=RunBook(self),
            selection=RunSelection(self),
            themes=themes,
            preferences=preferences,
            commands=Commands(self),
            notify=self._snackbar.show_notice,
        )
        self._menus = self._make_menus()
        self.status_line = StatusLine(self)
        self.setStatusBar(self.status_line)
        self.palette_popup = CommandPalette(self.cockpit.commands, self)
        self._add_own_commands()
        self.docks: dict[str, QDockWidget] = {}
        self._parts: list[QWidget] = []
        self._stage = QStackedWidget()
        self.setCentralWidget(self._stage)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        for part in parts:
            self._add_part(part)
        self._put_in_tabs()
        self._bring_first_parts_forward(parts)
        self._connect(bridge)
        self._restore_layout()
        self._titles = DockTitles(self)
        self._titles.watch(self.docks.values())
        self._saver = QTimer(self)
        self._saver.setInterval(SAVE_MILLISECONDS)
        self._saver.timeout.connect(self.remember)
        self._saver.start()
        if preferences.problem:
            self.cockpit.notify(Notice(preferences.problem, "warning"))

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _add_part(self, part: Part) -> None:
        widget = part.make(self.cockpit)
        widget.setObjectName(part.name)
        self._parts.append(widget)
        if part.place is Place.STAGE:
            self._stage.addWidget(widget)
            return
        dock = QDockWidget(part.title, self)
        dock.setObjectName(f"dock-{part.name}")
        dock.setWidget(widget)
        self.addDockWidget(_AREAS[part.place], dock)
        self.docks[part.name] = dock
        title = self.tr("Show {part}").format(part=part.title)
        command = Command(f"show-{part.name}", title, "View", part.shortcut, part.help)
        self.cockpit.commands.add(command, lambda: self.show_part(part.name))

    def _put_in_tabs(self) -> None:
        """Let docks of one place share it."""
        for area in _AREAS.values():
            docks = [dock for dock in self.docks.values() if self.dockWidgetArea(dock) == area]
            for first, second in pairwise(docks):
                with self._held():
                    self.tabifyDockWidget(first, second)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Move docks without laying them out: a part that asks for another size meanwhile makes Qt begin again inside
        its own work, and tab bars of nobody stay on the screen."""
        layout = self.layout()
        assert layout is not None
        layout.setEnabled(False)
        try:
            yield
        finally:
            layout.setEnabled(True)

    def _bring_first_parts_forward(self, parts: Sequence[Part]) -> None:
        for place in _AREAS:
            first = next((part for part in parts if part.place is place), None)
            if first is not None:
                self.docks[first.name].raise_()

    def show_part(self, name: str) -> None:
        """Bring a part to the front and give it the focus."""
        dock = self.docks[name]
        dock.show()
        dock.raise_()
        widget = dock.widget()
        if widget is not None:
            widget.setFocus(Qt.FocusReason.ShortcutFocusReason)

    # ---- commands ------------------------------------------------------------------------------------------------

    def _make_menus(self) -> dict[str, QMenu]:
        bar = self.menuBar()
        assert bar is not None
        titles = {"File": self.tr("&File"), "Run": self.tr("&Run"), "View": self.tr("&View"), "Help": self.tr("&Help")}
        menus = {}
        for name in _MENUS:
            menu = bar.addMenu(titles[name])
            assert menu is not None
            menu.setToolTipsVisible(True)
            menus[name] = menu
        self.cockpit.commands.added.connect(self._add_to_menu)
        return menus

    def _add_to_menu(self, command: Command) -> None:
        self._menus[command.menu].addAction(self.cockpit.commands.action(command.name))

    def _add_own_commands(self) -> None:
        add = self.cockpit.commands.add
        tr = self.tr
        palette = Command("palette", tr("Find a command…"), "Help", "Ctrl+K", tr("All that can be done, by name"))
        add(palette, self.palette_popup.open)
        theme = Command("theme", tr("Dark or light"), "View", "Ctrl+Shift+L", tr("Switch between the two looks"))
        add(theme, self.cockpit.themes.toggle)
        full = Command("full-screen", tr("Full screen"), "View", "F11", tr("Use the whole screen, or not"))
        add(full, self._toggle_full_screen)
        layout = Command("reset-layout", tr("Reset the layout"), "View", "", tr("Put every panel back in its place"))
        add(layout, self.reset_layout)
        leave = Command("quit", tr("Quit"), "File", "Ctrl+Q", tr("Close the cockpit; runs go on"))
        add(leave, self.close)

    def _toggle_full_screen(self) -> None:
        self.showNormal() if self.isFullScreen() else self.showFullScreen()

    # ---- the daemon ----------------------------------------------------------------------------------------------

    def _connect(self, bridge: TrainerBridge) -> None:
        bridge.runs_changed.connect(self.cockpit.runs.take)
        bridge.connection_changed.connect(self.status_line.show_connection)
        bridge.health_changed.connect(self.status_line.show_health)

    # ---- memory --------------------------------------------------------------------------------------------------

    def remember(self) -> None:
        """Keep layout, theme and what the parts put into the preferences."""
        preferences = self.cockpit.preferences
        preferences.put("window.geometry", _as_text(self.saveGeometry()))
        preferences.put("window.state", _as_text(self.saveState(LAYOUT_VERSION)))
        preferences.put("theme", self.cockpit.themes.theme.name)
        preferences.save()

    def _restore_layout(self) -> None:
        self._first_state = self.saveState(LAYOUT_VERSION)
        geometry, state = (self.cockpit.preferences.get(f"window.{what}", "") for what in ("geometry", "state"))
        if geometry:
            self.restoreGeometry(_from_text(geometry))
        if state:
            self.restoreState(_from_text(state), LAYOUT_VERSION)
        self._fit_the_screen()

    def _fit_the_screen(self) -> None:
        screen = QApplication.primaryScreen()
        if screen is not None:
            available = screen.availableGeometry()
            self._give_corners(narrow=available.width() < NARROW_SCREEN)
            self.setMinimumSize(min(900, available.width()), min(560, available.height()))
            self.resize(min(self.width(), available.width()), min(self.height(), available.height()))

    def _give_corners(self, *, narrow: bool) -> None:
        """The form has the whole height. Where the screen is narrow, the runs go below what is on the right."""
        self.setCorner(Qt.Corner.BottomLeftCorner, _AREAS[Place.LEFT])
        self.setCorner(Qt.Corner.BottomRightCorner, _AREAS[Place.BOTTOM if narrow else Place.RIGHT])

    def reset_layout(self) -> None:
        self.restoreState(self._first_state, LAYOUT_VERSION)
        self._fit_the_screen()
        for dock in self.docks.values():
            dock.show()

    def closeEvent(self, event: QCloseEvent | None) -> None:
        self._saver.stop()
        self.remember()
        for part in self._parts:
            close_part(part)
        super().closeEvent(event)


def close_part(widget: QWidget) -> None:
    """Have a part let go of what outlives a window: servers, processes, streams. One that holds such has the method."""
    close = getattr(widget, "close_panel", None)
    if close is not None:
        close()


def _as_text(state: QByteArray) -> str:
    return base64.b64encode(state.data()).decode("ascii")


def _from_text(text: str) -> QByteArray:
    try:
        return QByteArray(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return QByteArray()


def part_of(window: MainWindow, name: str) -> QWidget | None:
    """The widget of a part by its name."""
    return window.findChild(QWidget, name)
