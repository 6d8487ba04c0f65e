"""One TensorBoard server for one run, alive only while somebody looks and never longer than the cockpit."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from PyQt6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, pyqtSignal

from mosaic_protocol.plain_text import last_line

START_SECONDS = 60
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")
# Executed by the child before TensorBoard: the kernel then ends it with the cockpit, also when that is killed.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"
_MOST_OUTPUT = 8000


class TensorBoardServer(QObject):
    """``ready(str)`` brings its address, ``failed(str)`` a sentence. Lives in the GUI thread; :meth:`stop` is final."""

    ready = pyqtSignal(str)
    failed = pyqtSignal(str)

    def __init__(self, log_dir: Path, parent: QObject | None = None, *, python: str = sys.executable) -> None:
        super().__init__(parent)
        self.address = ""
        self._output = ""
        self._process = QProcess(self)
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.finished.connect(self._ended)
        self._process.errorOccurred.connect(self._went_wrong)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("PYTHONUNBUFFERED", "1")
        self._process.setProcessEnvironment(environment)
        self._process.setProgram(python)
        words = ["--logdir", str(log_dir), "--host", "127.0.0.1", "--port", "0", "--reload_interval", "5"]
        self._process.setArguments(["-c", _TIED, python, "-m", "tensorboard.main", *words])
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.timeout.connect(self._give_up)

    def start(self) -> None:
        self._process.start()
        self._patience.start(START_SECONDS * 1000)

    def stop(self) -> None:
        """End the process and wait for it; nothing is said any more."""
        self._patience.stop()
        self.blockSignals(True)
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.terminate()
            if not self._process.waitForFinished(1000):
                self._process.kill()
                self._process.waitForFinished(1000)

    def _read(self) -> None:
        text = self._process.readAllStandardOutput().data().decode(errors="replace")
        self._output = (self._output + text)[-_MOST_OUTPUT:]
        found = _ADDRESS.search(self._output)
        if found and not self.address:
            self._patience.stop()
            self.address = found[0]
            self.ready.emit(self.address)

    def _went_wrong(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:  # all others end the process, which is reported then
            self._patience.stop()
            self.failed.emit(self.tr("TensorBoard could not be started: {why}").format(why=self._process.errorString()))

    def _ended(self, status: int) -> None:
        self._patience.stop()
        self.address = ""
        self.failed.emit(self._explained(status))

    def _explained(self, status: int) -> str:
        if "No module named" in self._output:
            return self.tr("TensorBoard is not installed here; install it with `pip install tensorboard==2.21.0`.")
        last = last_line(self._output, most=200) or self.tr("it said nothing")
        return self.tr("TensorBoard ended with status {status}: {last}").format(status=status, last=last)

    def _give_up(self) -> None:
        self.failed.emit(self.tr("TensorBoard did not answer within {seconds} s.").format(seconds=START_SECONDS))
        self.stop()
