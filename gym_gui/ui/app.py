"""Opening the cockpit: one application, one window, one connection, and a clean end."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from PyQt6.QtCore import QTimer
from PyQt6.QtWidgets import QApplication

from gym_gui.logging_config.structured import write_structured_log
from gym_gui.services.trainer.storage import private_files
from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.error_report import ErrorReportDialog, ErrorReporter
from gym_gui.ui.first_steps import FirstSteps
from gym_gui.ui.main_window import MainWindow
from gym_gui.ui.parts import Part
from gym_gui.ui.preferences import FILE_NAME, Preferences
from gym_gui.ui.run_notices import RunNotices
from gym_gui.ui.theme import Themes
from gym_gui.ui.web_view import allow_web_views
from mosaic_protocol.paths import MosaicPaths

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
        composition = None if parts is not None else _composition()
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

    def close(self) -> None:
        """Leave nothing behind but the daemon and its runs."""
        self.window.close()
        self.bridge.stop()
        self.reporter.close()


def _composition() -> Composition:
    # Imported late, so that the frame can be had without its parts.
    from gym_gui.ui.composition import Composition

    return Composition()


def main(arguments: Sequence[str] | None = None) -> int:
    QApplication.setApplicationName("MOSAIC")
    QApplication.setDesktopFileName("mosaic")
    allow_web_views()
    app = QApplication(list(arguments or sys.argv) or ["mosaic"])
    paths = MosaicPaths.from_environment()
    private_files.prepare(paths)
    with kept_log(paths):
        return _run(app, CockpitApp(app, paths))


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
