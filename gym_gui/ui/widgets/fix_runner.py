"""A command that mends something, run beside the cockpit: its output as it comes, and a way to cancel it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from PyQt6.QtCore import QObject, QProcess, QProcessEnvironment, pyqtSignal

_CANCEL_MILLISECONDS = 3000


class FixRunner(QObject):
    """Runs one ``mosaic`` command at a time. ``said(str)`` brings a line, ``finished(bool, str)`` how it ended."""

    said = pyqtSignal(str)
    finished = pyqtSignal(bool, str)

    def __init__(self, home: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._home = home
        self._process: QProcess | None = None
        self._canceled = False
        self._last = ""

    @property
    def busy(self) -> bool:
        return self._process is not None

    def run(self, words: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        """Start ``mosaic WORDS``, in the cockpit's environment unless another is given; one that is under way goes on
        and the new one is not started."""
        if self.busy:
            return
        self._canceled, self._last = False, ""
        process = self._process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        for name, value in (environ or {}).items():
            environment.insert(name, value)
        environment.insert("MOSAIC_HOME", self._home)
        environment.insert("PYTHONUNBUFFERED", "1")
        process.setProcessEnvironment(environment)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._ended)
        process.start(sys.executable, ["-m", "gym_gui.cli", *words])

    def cancel(self) -> None:
        """Ask it to stop, as Ctrl-C would; what does not listen is ended."""
        if self._process is not None:
            self._canceled = True
            self._process.terminate()

    def stop(self) -> None:
        """End it for certain, when the cockpit closes."""
        if self._process is not None:
            self.blockSignals(True)
            self._process.terminate()
            if not self._process.waitForFinished(_CANCEL_MILLISECONDS):
                self._process.kill()
                self._process.waitForFinished(_CANCEL_MILLISECONDS)

    def _read(self) -> None:
        if self._process is None:
            return
        text = self._process.readAllStandardOutput().data().decode(errors="replace")
        for line in text.replace("\r", "\n").splitlines():
            if line.strip():
                self._last = line.strip()
                self.said.emit(line.rstrip())

    def _ended(self, status: int) -> None:
        self._read()
        self._process = None
        if self._canceled:
            self.finished.emit(False, self.tr("canceled"))
        else:
            self.finished.emit(status == 0, self.tr("done") if status == 0 else self._last or f"status {status}")
