"""The supervisor: owns one run from the handshake to its last word, whatever becomes of the script.

It forwards what the daemon wants to the script and what the script says to the daemon, keeps the manifest current,
and reports how the run ended. It never trains: a crash, a segmentation fault or an out-of-memory kill of the script is
seen here and reported in a sentence.
"""

from __future__ import annotations

import os
import selectors
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic_protocol import events
from mosaic_protocol.plain_text import last_line
from mosaic_protocol.states import Desired
from mosaic_worker.supervision.analytics import AnalyticsManifest
from mosaic_worker.supervision.run_story import RunStory
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_worker.supervision.telemetry import LifecycleEmitter
from mosaic_worker.supervision.wishes import WishForwarder

_TICK_SECONDS = 1.0
_STOP_SECONDS = 60.0
"""The daemon kills earlier; this is for a supervisor whose daemon is away."""


class ScriptRuntime:
    """Supervises one started script. :meth:`run` returns the supervisor's exit status."""

    def __init__(
        self,
        script: ScriptProcess,
        emitter: LifecycleEmitter,
        manifest: AnalyticsManifest,
        desired: Callable[[], Desired],
        may_begin: Callable[[], bool],
    ) -> None:
        self._script, self._manifest = script, manifest
        self._story = RunStory(emitter, manifest)
        self._wishes = WishForwarder(desired, may_begin, self._story.begin, script.tell)
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
            self._story.beat()
            self._manifest.refresh_if_due()

    def _listen(self) -> None:
        messages = self._script.hear()
        if messages is None:
            self._selector.unregister(self._script.control)  # its exit follows
        for message in messages or ():
            self._take(message)

    def _forward_wishes(self) -> None:
        if self._wishes.look() is Desired.STOP:
            self._kill_at = time.monotonic() + _STOP_SECONDS
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self._script.kill()

    def _take(self, message: dict[str, Any]) -> None:
        """Act on one message of the script."""
        if message.get("at") == "ready":
            self._wishes.is_ready = True
        self._story.take(message)

    def _conclude(self) -> int:
        for message in self._script.hear_the_rest():
            self._take(message)
        status = self._script.wait()
        event, sentence = self._last_word(status)
        self._story.end(event, sentence, status=status, stdout_tail=_tail_of(1))
        self._close()
        return 1 if event == events.RUN_FAILED else 0

    def _last_word(self, status: int) -> tuple[str, str]:
        if status == 0:
            return self._story.good_ending()
        if status < 0:
            how = f"was killed by signal {-status} ({_signal_name(-status)})"
        else:
            said = last_line(_tail_of(2))
            how = f"exited with status {status}{': ' + said if said else ''}"
        return events.RUN_FAILED, f"the script {how}{self._story.kept()}"

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
    """The end of the file that stdout or stderr goes to, "" when it is a terminal or a pipe. It is opened by its
    descriptor: the folder that it is in may be moved, or closed to everybody, for a moment."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return ""
        with Path(f"/proc/self/fd/{descriptor}").open("rb") as file:
            file.seek(max(0, found.st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
