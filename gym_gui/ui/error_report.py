"""Errors that no code handled: shown, to be copied, written to a file, and never the silent end of the cockpit."""

from __future__ import annotations

import platform
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from PyQt6.QtCore import PYQT_VERSION_STR, QObject, Qt, pyqtSignal
from PyQt6.QtGui import QGuiApplication
from PyQt6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.clipboard import copy_text

_MOST_REPORTS = 20
_MOST_KINDS = 200


class ErrorReporter(QObject):
    """Takes over ``sys.excepthook`` and ``threading.excepthook`` until :meth:`close`.

    ``happened(str)`` brings a report. An error that comes again and again, from a timer or a repaint, is reported once
    and counted from then on: ``repeated(int)``.
    """

    happened = pyqtSignal(str)
    repeated = pyqtSignal(int)

    def __init__(self, log: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._log = log
        self._before: tuple[Callable[..., object], Callable[..., object]] = (sys.excepthook, threading.excepthook)
        self.reports: list[str] = []
        self._told: set[str] = set()
        self._again = 0
        sys.excepthook = self._caught
        threading.excepthook = self._caught_in_thread

    def close(self) -> None:
        sys.excepthook, threading.excepthook = self._before

    def _caught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QGuiApplication.quit()
            return
        self._report("".join(traceback.format_exception(kind, error, trace)))

    def _caught_in_thread(self, caught: threading.ExceptHookArgs) -> None:
        if caught.exc_type is SystemExit:
            return
        lines = traceback.format_exception(caught.exc_type, caught.exc_value, caught.exc_traceback)
        name = caught.thread.name if caught.thread else "a thread"
        self._report(f"In {name}:\n{''.join(lines)}")

    def _report(self, story: str) -> None:
        if story in self._told:
            self._again += 1
            self.repeated.emit(self._again)
            return
        if len(self._told) < _MOST_KINDS:
            self._told.add(story)
        versions = f"Python {platform.python_version()}, PyQt {PYQT_VERSION_STR}, {platform.platform()}"
        text = f"{datetime.now(UTC).isoformat(timespec='seconds')}  MOSAIC cockpit, {versions}\n\n{story}"
        self.reports = [*self.reports, text][-_MOST_REPORTS:]
        sys.stderr.write(story)
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            self._log.touch(mode=0o600)
            with self._log.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError:
            pass  # it is on the screen all the same
        self.happened.emit(text)


class ErrorReportDialog(QDialog):
    """One window for all reports; a second error is added to it and does not open another."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Something went wrong"))
        self.setModal(False)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        self.resize(720, 420)
        told = QLabel(self.tr("The cockpit met an error it did not expect. Your runs are not affected and go on."))
        told.setWordWrap(True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.again = QLabel()
        self.again.setProperty("role", "muted")
        self.again.hide()
        copy = QPushButton(self.tr("Copy the report"))
        copy.setToolTip(self.tr("Put the whole report on the clipboard, to send it to somebody who can fix it"))
        copy.clicked.connect(self._copy)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(copy, QDialogButtonBox.ButtonRole.ActionRole)
        close = buttons.button(QDialogButtonBox.StandardButton.Close)
        if close is not None:
            close.setToolTip(self.tr("Go on working; the report stays in the log folder"))
        buttons.rejected.connect(self.hide)
        layout = QVBoxLayout(self)
        layout.addWidget(told)
        layout.addWidget(self.text, 1)
        layout.addWidget(self.again)
        layout.addWidget(buttons)

    def add(self, report: str) -> None:
        self.text.appendPlainText(report if not self.text.toPlainText() else f"\n{'—' * 40}\n{report}")
        self.show()

    def count_again(self, times: int) -> None:
        """Say how often what was reported happened once more; that does not bring a closed dialog back."""
        self.again.setText(self.tr("Happened again: {times} times").format(times=f"{times:,}"))
        self.again.show()

    def _copy(self) -> None:
        copy_text(self.text.toPlainText())
