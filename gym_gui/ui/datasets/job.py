"""``mosaic datasets …`` beside the GUI: a process of its own that says how far it is, and can be cancelled.

The command is the one of the command line, so that both do the same; h5py and its memory stay out of the cockpit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from PyQt6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, pyqtSignal

from mosaic_protocol.plain_text import one_line

CANCEL_MILLISECONDS = 5000
_MOST_KEPT = 4000

Done = Callable[[dict[str, Any]], None]


class DatasetJob(QObject):
    """``progressed(str, float)``: a sentence and a share, negative where it is not known. Then one of ``done(dict)``
    with what the command printed, ``failed(str)`` with a sentence, ``cancelled()``; and always ``ended()`` behind it.
    """

    progressed = pyqtSignal(str, float)
    done = pyqtSignal(dict)
    failed = pyqtSignal(str)
    cancelled = pyqtSignal()
    ended = pyqtSignal()

    def __init__(
        self, home: str, words: Sequence[str], title: str, parent: QObject | None = None, *, subject: str = ""
    ) -> None:
        """``subject``: the dataset that it is about, ``title``: what it is called on the screen."""
        super().__init__(parent)
        self.title, self.words, self.subject = title, list(words), subject
        self.line, self.share = "", -1.0
        self._is_cancelled = False
        self._said = ""
        """What it prints beside its progress; the last line is the reason when it fails."""
        self._half = b""
        process = self._process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        for name, value in {"MOSAIC_HOME": home, "MOSAIC_PROGRESS": "json", "PYTHONUNBUFFERED": "1"}.items():
            environment.insert(name, value)
        process.setProcessEnvironment(environment)
        process.readyReadStandardError.connect(self._read)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(self._broke)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(CANCEL_MILLISECONDS)
        self._patience.timeout.connect(process.kill)

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def start(self) -> None:
        self._process.start(sys.executable, ["-m", "gym_gui.cli", "datasets", *_with_json(self.words)])

    def cancel(self) -> None:
        """Ask it to stop and to clean up; what does not listen is ended."""
        if self._process.state() != QProcess.ProcessState.NotRunning and not self._is_cancelled:
            self._is_cancelled = True
            self._process.terminate()
            self._patience.start()

    def stop(self) -> None:
        """End it for certain and say nothing more, because the cockpit closes."""
        self.blockSignals(True)
        self._patience.stop()
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.terminate()
            if not self._process.waitForFinished(CANCEL_MILLISECONDS):
                self._process.kill()
                self._process.waitForFinished(CANCEL_MILLISECONDS)

    def _read(self) -> None:
        *lines, self._half = (self._half + self._process.readAllStandardError().data()).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").strip()
            told = _object(text) if text.startswith('{"progress"') else None
            if told is None:
                self._said = f"{self._said}\n{text}"[-_MOST_KEPT:]
                continue
            share = told.get("share")
            self.line = one_line(str(told.get("progress")))
            self.share = float(share) if isinstance(share, int | float) else -1.0
            self.progressed.emit(self.line, self.share)

    def _broke(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self.failed.emit(self.tr("{program} cannot be started").format(program=sys.executable))
            self.ended.emit()

    def _finish(self, status: int, kind: QProcess.ExitStatus) -> None:
        self._patience.stop()
        self._read()
        told = _object(self._process.readAllStandardOutput().data().decode(errors="replace"))
        if self._is_cancelled:
            self.cancelled.emit()
        elif told is not None and "error" not in told and kind is QProcess.ExitStatus.NormalExit:
            self.done.emit({**told, "status": status})
        else:
            self.failed.emit(self._reason(told, status))
        self.ended.emit()

    def _reason(self, told: dict[str, Any] | None, status: int) -> str:
        error = (told or {}).get("error")
        if isinstance(error, dict) and error.get("message"):
            return one_line(str(error["message"]))
        last = next((line for line in reversed(self._said.splitlines()) if line.strip()), "")
        return one_line(last.removeprefix("mosaic: ")) or f"status {status}"


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _with_json(words: Sequence[str]) -> list[str]:
    """Behind the command's name: what follows ``--`` are names, whatever they look like."""
    return [words[0], "--json", *words[1:]]
