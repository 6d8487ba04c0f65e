"""The frame: docks around a stage, menus, status line, notices. What is in the docks comes from :mod:`parts`."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QEvent, Qt, QTimer
from PyQt6.QtGui import QCloseEvent, QKeyEvent
from PyQt6.QtWidgets import (
    QApplication,
    QDockWidget,
    QMainWindow,
    QMenu,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.storage.disk import STORAGE_COMMAND
from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.commands import Command, Commands
from gym_gui.ui.context import Cockpit
from gym_gui.ui.dock_arrangement import AREAS, DockArrangement, bytes_of, text_of
from gym_gui.ui.elsewhere import ConnectDialog
from gym_gui.ui.help_windows import AboutWindow, GuideWindow
from gym_gui.ui.panes import Panes, enter
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.preferences import Preferences
from gym_gui.ui.run_book import RunBook, RunSelection
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.command_palette import CommandPalette
from gym_gui.ui.widgets.dock_titles import DockTitles
from gym_gui.ui.widgets.snackbar import Notice, Snackbar
from gym_gui.ui.widgets.status_line import StatusLine
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.proto import trainer_pb2 as pb

SAVE_MILLISECONDS = 2000
LEAST_SIZE = (900, 560)
_MENUS = ("File", "Run", "View", "Help")
_LAST_OF_A_MENU = ("quit", "about")
_ALSO = {
    "train": "form launch new set up",
    "metrics": "plots curves charts graphs",
    "run": "tensorboard artifacts live",
    "capacity": "queue cpu gpu memory machine",
    "doctor": "check install problems missing",
    "runs": "list table history",
    "log": "output console print errors stderr",
    "episodes": "play sessions replay returns seeds",
    "sweeps": "search tune hyperparameters trials optuna",
    "arenas": "arena contest compare players seeds people random optimal",
    "datasets": "data offline hdf5 d4rl minari import collect",
    "hosts": "ssh machines servers cluster nodes remote drain capacity",
    "sweep": "history importance slice trials charts",
}
"""Other words that people look for a panel by."""


class MainWindow(QMainWindow):
    """One window on one daemon. Closing it leaves the runs running."""

    _pressed_on: QWidget | None = None
    """What had the focus when the newest key went down."""

    def __init__(self, bridge: TrainerBridge, themes: Themes, preferences: Preferences, parts: Sequence[Part]) -> None:
        super().__init__()
        self.setWindowTitle(f"{bridge.server} — MOSAIC" if bridge.server else "MOSAIC")
        self.setMinimumSize(*LEAST_SIZE)
        self.resize(1280, 800)
        self.setDockOptions(QMainWindow.DockOption.AllowNestedDocks | QMainWindow.DockOption.AllowTabbedDocks)
        self._snackbar = Snackbar(self)
        self.cockpit = Cockpit(
            bridge=bridge,
            runs=RunBook(self),
            selection=RunSelection(self),
            themes=themes,
            preferences=preferences,
            commands=Commands(self),
            notify=self._snackbar.show_notice,
            withdraw=self._snackbar.withdraw,
        )
        self._menus = self._make_menus()
        self.status_line = StatusLine(self)
        self.setStatusBar(self.status_line)
        self.palette_popup = CommandPalette(self.cockpit, self)
        self._panes = Panes(self, self.cockpit.commands)
        self._warned_of_disk = False
        self._add_own_commands()
        self.docks: dict[str, QDockWidget] = {}
        self._parts: list[QWidget] = []
        self._stage = QStackedWidget()
        self.setCentralWidget(self._middle())
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        for part in parts:
            self._add_part(part)
        self.arrangement = DockArrangement(self, self.docks, parts)
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
        self.addDockWidget(AREAS[part.place], dock)
        self.docks[part.name] = dock
        title = self.tr("Show {part}").format(part=part.title)
        command = Command(f"show-{part.name}", title, part.menu, part.shortcut, part.help, _ALSO.get(part.name, ""))
        self.cockpit.commands.add(command, lambda: self.show_part(part.name))

    def _middle(self) -> QWidget:
        """The stage with the notices above it: there they take room from the curve, and cover nothing."""
        middle = QWidget()
        layout = QVBoxLayout(middle)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        around = QVBoxLayout()
        around.setContentsMargins(12, 8, 12, 0)
        around.addWidget(self._snackbar)
        layout.addLayout(around)
        layout.addWidget(self._stage, 1)
        return middle

    def show_part(self, name: str) -> None:
        """Bring a part to the front and give it the focus."""
        dock = self.docks[name]
        dock.show()
        dock.raise_()
        widget = dock.widget()
        if widget is not None:
            enter(widget)

    def focusNextPrevChild(self, forwards: bool) -> bool:
        return self._panes.tab(forwards=forwards)

    def event(self, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.ShortcutOverride:  # comes before the press itself
            self._pressed_on = QApplication.focusWidget()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Return presses the button that has the focus, as in dialogs, and had it when the key went down: a list that
        follows Return passes the press on all the same, and the focus may be in what it opened by then. What takes
        Return itself never gets here, and a key that is held down presses once."""
        focused = QApplication.focusWidget()
        is_return = event is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        had_it = self._pressed_on is None or self._pressed_on is focused
        if event is None or not is_return or not had_it or not isinstance(focused, QPushButton | QToolButton):
            super().keyPressEvent(event)
        elif not event.isAutoRepeat() and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            focused.click()

    # ---- commands ------------------------------------------------------------------------------------------------

    def _make_menus(self) -> dict[str, QMenu]:
        bar = self.menuBar()
        assert bar is not None
        bar.setObjectName("menu-bar")  # by which the tour finds it
        titles = {"File": self.tr("&File"), "Run": self.tr("&Run"), "View": self.tr("&View"), "Help": self.tr("&Help")}
        menus = {}
        for name in _MENUS:
            menu = bar.addMenu(titles[name])
            assert menu is not None
            menu.setToolTipsVisible(True)
            menus[name] = menu
        for name, title in {
            "Session": self.tr("&Session"),
            "Replay": self.tr("Repla&y"),
            "Form": self.tr("&Form"),
            "Compare": self.tr("Com&pare"),
            "Queue": self.tr("&Queue"),
            "Log": self.tr("&Log"),
        }.items():
            menu = menus["Run"].addMenu(title)
            assert menu is not None
            menu.setToolTipsVisible(True)
            menus[f"Run/{name}"] = menu
        for name, title in {"Datasets": self.tr("&Datasets"), "Hosts": self.tr("&Hosts")}.items():
            menu = menus["File"].addMenu(title)
            assert menu is not None
            menu.setToolTipsVisible(True)
            menus[f"File/{name}"] = menu
        if self.cockpit.bridge.server and (entry := menus["File/Datasets"].menuAction()) is not None:
            entry.setVisible(False)  # they are files of the server
        titles = {"Panels": self.tr("&Panels"), "Mode": self.tr("&Mode"), "Runs": self.tr("&Runs")}
        titles |= {"Curves": self.tr("&Curves"), "Charts": self.tr("C&harts"), "Sweep": self.tr("S&weep")}
        titles |= {"Arena": self.tr("&Arena")}
        for name, title in titles.items():
            menu = menus["View"].addMenu(title)
            assert menu is not None
            menu.setToolTipsVisible(True)
            menus[f"View/{name}"] = menu
        menu = menus["View/Runs"].addMenu(self.tr("Saved &views"))
        assert menu is not None
        menus["View/Runs/Saved views"] = menu
        menus["View"].addSeparator()
        self.cockpit.commands.added.connect(self._add_to_menu)
        return menus

    def _add_to_menu(self, command: Command) -> None:
        """In the order of their coming; the one that ends a menu stays at its end."""
        menu, commands = self._menus[command.menu], self.cockpit.commands
        last = next((action for action in menu.actions() if action.objectName() in _LAST_OF_A_MENU), None)
        menu.insertAction(last, commands.action(command.name))

    def _add_own_commands(self) -> None:
        add = self.cockpit.commands.add
        tr = self.tr
        guide = Command("guide", tr("User guide"), "Help", "Shift+F1", tr("How everything works"), "manual help docs")
        add(guide, lambda: GuideWindow.open_once(self))
        finding = tr("All that can be done, and every run, by name")
        palette = Command("palette", tr("Find a command or a run…"), "Help", "Ctrl+K", finding, "search palette")
        add(palette, self.palette_popup.open)
        also = "theme appearance colours mode night day"
        theme = Command("theme", tr("Dark or light"), "View", "Ctrl+Shift+L", tr("Switch between the two looks"), also)
        add(theme, self.cockpit.themes.toggle)
        full = Command("full-screen", tr("Full screen"), "View", "F11", tr("Use the whole screen, or not"), "maximise")
        add(full, self._toggle_full_screen)
        layout = Command("reset-layout", tr("Reset the layout"), "View", "", tr("Put every panel back in its place"))
        add(layout, self.reset_layout)
        there = tr("Open a window on the daemon of another machine, through SSH")
        connect = Command("connect", tr("Connect to a server…"), "File", "", there, "ssh remote laptop host machine")
        add(connect, lambda: ConnectDialog(self).open())
        leave = Command("quit", tr("Quit"), "File", "Ctrl+Q", tr("Close the cockpit; runs go on"), "exit close leave")
        add(leave, self.close)
        about = Command("about", tr("About MOSAIC"), "Help", "", tr("Versions, licences and the data folder"))
        add(about, lambda: AboutWindow.open_once(self, self.cockpit.bridge.paths))

    def _toggle_full_screen(self) -> None:
        self.showNormal() if self.isFullScreen() else self.showFullScreen()

    # ---- the daemon ----------------------------------------------------------------------------------------------

    def _connect(self, bridge: TrainerBridge) -> None:
        bridge.runs_changed.connect(self.cockpit.runs.take)
        bridge.connection_changed.connect(self.status_line.show_connection)
        bridge.health_changed.connect(self.status_line.show_health)
        bridge.health_changed.connect(self._warn_of_disk)
        self.status_line.start_wanted.connect(bridge.start_again)

    def _warn_of_disk(self, health: pb.Health) -> None:
        """A notice once; the status line says it for as long as it lasts."""
        if health.disk_warning and not self._warned_of_disk:
            self._warned_of_disk = True
            sentence = one_line(health.disk_warning)
            text, copy = f"{sentence[0].upper()}{sentence[1:]}.", self.tr("Copy the command")
            self.cockpit.notify(Notice(text, "warning", copy, lambda: copy_text(STORAGE_COMMAND)))

    # ---- memory --------------------------------------------------------------------------------------------------

    def remember(self) -> None:
        """Keep layout, theme and what the parts put into the preferences."""
        preferences = self.cockpit.preferences
        preferences.put("window.geometry", text_of(self.saveGeometry()))
        self.arrangement.remember(preferences)
        preferences.put("theme", self.cockpit.themes.theme.name)
        preferences.save()

    def _restore_layout(self) -> None:
        geometry = self.cockpit.preferences.get("window.geometry", "")
        if geometry:
            self.restoreGeometry(bytes_of(geometry))
        self._fit_the_screen()
        self.arrangement.restore(self.cockpit.preferences)

    def _fit_the_screen(self) -> None:
        screen = QApplication.primaryScreen()
        if screen is not None:
            room = screen.availableGeometry()
            self.setMinimumSize(min(LEAST_SIZE[0], room.width()), min(LEAST_SIZE[1], room.height()))
            self.resize(min(self.width(), room.width()), min(self.height(), room.height()))

    def reset_layout(self) -> None:
        self._fit_the_screen()
        self.arrangement.reset()

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


def part_of(window: MainWindow, name: str) -> QWidget | None:
    """The widget of a part by its name."""
    return window.findChild(QWidget, name)
