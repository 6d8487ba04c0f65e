"""Opening the cockpit: one application, one window, one connection, and a clean end."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from PyQt6.QtCore import QTimer
from PyQt6.QtWidgets import QApplication

from gym_gui.logging_config.structured import write_structured_log
from gym_gui.services.remote.link import RemoteLink
from gym_gui.services.remote.paths import PathsElsewhere, kept_about
from gym_gui.services.remote.server import Server, Servers
from gym_gui.services.trainer.storage import private_files
from gym_gui.ui.bridge import ConnectionState, TrainerBridge
from gym_gui.ui.error_report import ErrorReportDialog, ErrorReporter
from gym_gui.ui.first_steps import FirstSteps
from gym_gui.ui.main_window import MainWindow
from gym_gui.ui.parts import Part
from gym_gui.ui.preferences import FILE_NAME, Preferences
from gym_gui.ui.run_notices import RunNotices
from gym_gui.ui.theme import Themes
from gym_gui.ui.web_view import allow_web_views
from mosaic_protocol.paths import MosaicPaths, default_root
from mosaic_protocol.ssh_command import SshError

if TYPE_CHECKING:
    from gym_gui.ui.composition import Composition


class CockpitApp:
    """Everything that is opened together, for :func:`main` and for tests, which bring their own QApplication."""

    def __init__(
        self,
        app: QApplication,
        paths: MosaicPaths,
        parts: Sequence[Part] | None = None,
        *,
        start_daemon: bool = True,
    ) -> None:
        self.preferences = Preferences(paths.root / FILE_NAME)
        self.reporter = ErrorReporter(paths.root / "logs" / "cockpit-errors.log")
        self.themes = Themes(app, self.preferences.get("theme", "dark"))
        self.bridge = TrainerBridge(paths, start_daemon=start_daemon)
        if isinstance(paths, PathsElsewhere):
            self._remember(paths.link.server)
        composition = None if parts is not None else _composition(self.bridge.server)
        chosen = composition.parts() if composition is not None else parts or ()
        self.window = MainWindow(self.bridge, self.themes, self.preferences, chosen)
        demo = composition.presenters.demo() if composition is not None else None
        self.first_steps = FirstSteps(self.window, demo) if composition is not None else None
        self.run_notices = RunNotices(self.window.cockpit, self.window)
        self._reports = ErrorReportDialog(self.window)
        self.reporter.happened.connect(self._reports.add)
        self.reporter.repeated.connect(self._reports.count_again)

    def open(self) -> None:
        self.window.show()
        self.bridge.start()
        if self.first_steps is not None:
            self.first_steps.welcome.offer()

    def _remember(self, server: Server) -> None:
        """Offer a server that was reached the next time one is asked for."""

        def reached(state: ConnectionState) -> None:
            if state.connected:
                Servers(default_root()).remember(server)

        self.bridge.connection_changed.connect(reached)

    def close(self) -> None:
        """Leave nothing behind but the daemon and its runs."""
        self.window.close()
        self.bridge.stop()
        self.reporter.close()


def _composition(server: str) -> Composition:
    # Imported late, so that the frame can be had without its parts.
    from gym_gui.ui.composition import Composition

    return Composition(server)


def main(arguments: Sequence[str] | None = None) -> int:
    QApplication.setApplicationName("MOSAIC")
    QApplication.setDesktopFileName("mosaic")
    allow_web_views()
    given, rest = _understood(list(arguments or sys.argv) or ["mosaic"])
    app = QApplication(rest)
    paths = _paths_on(given.on, given.home) if given.on else MosaicPaths.from_environment()
    private_files.prepare(paths)
    with kept_log(paths):
        return _run(app, CockpitApp(app, paths))


def _understood(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and the words that are left for Qt."""
    parser = argparse.ArgumentParser(prog="mosaic gui", allow_abbrev=False)
    parser.add_argument("--on", default="", help="the machine of the daemon")
    parser.add_argument("--home", default="", help="with --on: a data root over there")
    given, rest = parser.parse_known_args(words[1:])
    return given, [words[0], *rest]


def _paths_on(name: str, home: str) -> PathsElsewhere:
    """The data root of another machine. Ends the program with a sentence for a name that is none."""
    try:
        server = Servers(default_root()).completed(Server.parse(name))
    except SshError as error:
        sys.exit(f"mosaic: --on: {error}")
    return PathsElsewhere(kept_about(server), RemoteLink(server, home))


@contextmanager
def kept_log(paths: MosaicPaths) -> Iterator[None]:
    """Keep what was refused, and why, in a file: without one Python prints the bare message into the terminal."""
    try:
        handler: logging.Handler = write_structured_log(paths.root / "logs" / "cockpit.jsonl")
    except OSError:  # what cannot be written is said where a person looks
        handler = logging.NullHandler()
        logging.getLogger("gym_gui").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("gym_gui").removeHandler(handler)
        handler.close()


def _run(app: QApplication, cockpit: CockpitApp) -> int:
    # Python only sees a signal when it runs; Qt's event loop lets it do so now and then.
    signal.signal(signal.SIGINT, lambda *_: cockpit.window.close())
    signal.signal(signal.SIGTERM, lambda *_: cockpit.window.close())
    breathing = QTimer()
    breathing.timeout.connect(lambda: None)
    breathing.start(200)
    cockpit.open()
    try:
        return app.exec()
    finally:
        cockpit.close()
