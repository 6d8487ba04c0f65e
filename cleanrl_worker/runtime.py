"""The supervisor: owns one run from the handshake to its last word, whatever becomes of the script.

It forwards what the daemon wants to the script and what the script says to the daemon, keeps the manifest current,
and tells how the run ended. It never trains: a crash, a segmentation fault or an out-of-memory kill of the script is
seen here and told in a sentence.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cleanrl_worker.analytics import AnalyticsManifest
from cleanrl_worker.script_process import ScriptProcess
from cleanrl_worker.telemetry import LifecycleEmitter
from mosaic_protocol import events
from mosaic_protocol.states import Desired

_TICK_SECONDS = 1.0
_STOP_SECONDS = 60.0
"""The daemon kills earlier; this is for a supervisor whose daemon is away."""


class Wishes:
    """What is wanted of the run, and whether it may begin. Without a daemon it may, and only signals change it."""

    def __init__(self) -> None:
        self.desired = Desired.RUN
        self.may_begin = True

    def stop(self) -> None:
        self.desired = Desired.STOP


class CleanRLWorkerRuntime:
    """Supervises one started script. :meth:`run` returns the supervisor's exit status."""

    def __init__(
        self,
        script: ScriptProcess,
        emitter: LifecycleEmitter,
        manifest: AnalyticsManifest,
        desired: Callable[[], Desired],
        may_begin: Callable[[], bool],
    ) -> None:
        self._script, self._emitter, self._manifest = script, emitter, manifest
        self._desired, self._may_begin = desired, may_begin
        self._told = Desired.RUN
        self._ready = self._begun = False
        self._ending = ""
        self._step = 0
        self._checkpoint = ""
        self._kill_at: float | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._selector = selectors.DefaultSelector()

    def wake(self) -> None:
        """Something is wanted: look at it now. Safe in any thread and in signal handlers."""
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            return  # it is going to wake anyway

    def run(self) -> int:
        """Supervise until the script is gone."""
        for descriptor in (self._script.control, self._script.pidfd, self._wake_read):
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._manifest.refresh()
        while True:
            ready = {key.fileobj for key, _ in self._selector.select(_TICK_SECONDS)}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            if self._script.control in ready:
                self._listen()
            if self._script.pidfd in ready:
                return self._conclude()
            self._forward_wishes()
            self._manifest.refresh_if_due()

    def _listen(self) -> None:
        messages = self._script.hear()
        if messages is None:
            self._selector.unregister(self._script.control)  # its exit follows
        for message in messages or ():
            self._take(message)

    def _forward_wishes(self) -> None:
        if self._ready and not self._begun and self._may_begin() and self._desired() is not Desired.STOP:
            self._begin()
        wanted = self._desired()
        if wanted is not self._told and (self._begun or wanted is Desired.STOP):
            self._told = wanted
            self._script.tell({Desired.RUN: "resume", Desired.PAUSE: "pause", Desired.STOP: "stop"}[wanted])
            if wanted is Desired.STOP:
                self._kill_at = time.monotonic() + _STOP_SECONDS
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self._script.kill()

    def _begin(self) -> None:
        self._begun = True
        self._emitter.say(events.RUN_STARTED, step=0)
        self._script.tell("go")

    def _take(self, message: dict[str, Any]) -> None:
        """Act on one message of the script."""
        step = message.get("step")
        self._step = max(self._step, step) if isinstance(step, int) else self._step
        match message.get("at"):
            case "ready":
                self._ready = True
                if isinstance(total := message.get("total"), int):
                    self._emitter.plan(total)
            case "paused":
                self._emitter.say(events.RUN_PAUSED, step=self._step)
            case "resumed":
                self._emitter.say(events.RUN_RESUMED, step=self._step)
            case "stopping":
                self._emitter.say(events.RUN_STOPPING, "writing a last checkpoint", step=self._step)
            case "checkpoint":
                self._note_checkpoint(str(message.get("path", "")))
            case "done" | "stopped" as ending:
                self._ending = ending

    def _note_checkpoint(self, path: str) -> None:
        self._checkpoint = path
        self._emitter.artifact("checkpoint", path, self._step)
        self._manifest.refresh()

    def _conclude(self) -> int:
        for message in self._script.hear_the_rest():
            self._take(message)
        status = self._script.wait()
        event, sentence = self._last_word(status)
        self._manifest.refresh(script_status=status, ending=event)
        self._emitter.say(event, sentence, step=self._step, stdout_tail=_tail_of(1))
        self._close()
        return 1 if event == events.RUN_FAILED else 0

    def _last_word(self, status: int) -> tuple[str, str]:
        if status < 0:
            return (
                events.RUN_FAILED,
                f"the script was killed by signal {-status} ({_signal_name(-status)}){self._left()}",
            )
        if status > 0:
            said = _last_line(_tail_of(2))
            return (
                events.RUN_FAILED,
                f"the script exited with status {status}{': ' + said if said else ''}{self._left()}",
            )
        if self._ending == "stopped":
            return events.RUN_STOPPED, f"stopped at step {self._step:,}{self._left()}"
        return events.RUN_COMPLETED, f"completed {self._step:,} steps" if self._step else "the script completed"

    def _left(self) -> str:
        return f"; last checkpoint {self._checkpoint}" if self._checkpoint else ""

    def _close(self) -> None:
        self._selector.close()
        self._script.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._wake_write = os.open(os.devnull, os.O_WRONLY)  # a late wake must not write into somebody else's file


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _tail_of(descriptor: int, size: int = 4096) -> str:
    """The end of the file that stdout or stderr goes to, "" when it is a terminal or a pipe."""
    path = Path(f"/proc/self/fd/{descriptor}").resolve()
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read().decode(errors="replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
