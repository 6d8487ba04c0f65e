"""A command on a terminal of its own, as a person runs it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import Any

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD


class Terminal:
    """``written`` grows while one waits. :meth:`close` ends the command, whatever became of it."""

    def __init__(
        self, mosaic: CommandLine, *words: str, lines: int = 24, columns: int = 80, keyboard: bool = False
    ) -> None:
        """``keyboard``: whether the command also reads from the terminal; see :meth:`type`."""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        mosaic.environment["TERM"] = "xterm"
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            mosaic.environment.pop(name, None)
        self.modes = termios.tcgetattr(theirs)
        """How the terminal was before the command began."""
        stdin = theirs if keyboard else subprocess.DEVNULL
        stderr = theirs if keyboard else subprocess.DEVNULL
        self.process = mosaic.process(*words, stdin=stdin, stdout=theirs, stderr=stderr)
        self._theirs = theirs if keyboard else None
        """Kept open, so that one can look at the terminal after the command."""
        if not keyboard:
            os.close(theirs)
        self._raw = b""

    def type(self, data: bytes) -> None:
        """Strike keys, as the bytes that they send."""
        os.write(self._ours, data)

    def modes_now(self) -> list[Any]:
        assert self._theirs is not None
        return termios.tcgetattr(self._theirs)

    @property
    def written(self) -> str:
        return self._raw.decode(errors="replace")

    def wait_until(self, what: str, probe: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_GUARD
        while not probe():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.written[-2000:]}"
            self._read(0.1)

    def wait_for_the_end(self) -> int:
        """Read all that it writes; its exit code."""
        if self._theirs is not None:
            self.wait_until("the end", lambda: self.process.poll() is not None)
        while self._read(HANG_GUARD if self._theirs is None else 0.0):
            pass
        return self.process.wait(HANG_GUARD)

    def _read(self, patience: float) -> bool:
        """Take what came; False when nothing did, or nothing more will."""
        if not select.select([self._ours], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux answers so when the other side of a terminal is closed
            return False
        self._raw += data
        return bool(data)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(HANG_GUARD)
        os.close(self._ours)
        if self._theirs is not None:
            os.close(self._theirs)
