"""The process of a server: it dies with this one, its output is kept within bounds, its end is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.process_identity import stat_fields
from spade_bdi_rl_worker.xmpp.contract import ServerError

PASSWORD_VARIABLE = "MOSAIC_XMPP_PASSWORD"
_TIED = Path(__file__).with_name("tied.py")
_NOT_INHERITED = frozenset({PASSWORD_VARIABLE, "LUA_INIT", "LUA_INIT_5_4", "LUA_PATH", "LUA_CPATH"})
"""The user's password is no business of another server; the others would change what prosody loads."""
_LONGEST_LINE = 1000
_LINES_REMEMBERED = 40
_MOST_LOGGED = 256 * 1024
_PATIENCE = 10.0


class ServerProcess:
    """One server, started once and ended once. Safe to use from any thread.

    The kernel ends it when the *thread* that started it ends. So that is a thread of its own, which lives as long as
    the process: it reads what the server prints and takes its exit status.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, *, inherit: Sequence[int] = ()) -> None:
        self._name = name
        self._command = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), *command]
        self._folder = folder
        self._inherit = tuple(inherit)
        self._lines: deque[str] = deque(maxlen=_LINES_REMEMBERED)
        self._started = threading.Event()
        self._over = threading.Event()
        self._refusal: OSError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._thread = threading.Thread(target=self._live, name=f"xmpp-{name}", daemon=True)

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, with these variables beside the inherited ones: the mark of the run is among those. Raises
        :class:`ServerError`."""
        self._environment = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        self._environment |= environment or {}
        self._thread.start()
        self._started.wait()
        if self._refusal is not None:
            raise ServerError(
                f"The XMPP server of this run ({self._name}) cannot be started: {self._refusal}. Free memory and "
                "process slots, or use a server of your own."
            )

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was started"
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes]:
        assert self._process is not None and self._process.stdin is not None, "the server was started"
        return self._process.stdin

    def lines(self) -> list[str]:
        """The last lines that it printed."""
        return list(self._lines)

    def problem(self) -> str:
        """Whether it ended or is stopped, as a sentence; "" while it runs."""
        if self._over.is_set():
            last = self._lines[-1] if self._lines else ""
            said = f" Its last line: {last}." if last else ""
            return f"The XMPP server of this run ({self._name}) {self._ending()}.{said} Start the run again."
        fields = stat_fields(self.pid)
        if fields is not None and fields[0] in "Tt":
            return (
                f"The XMPP server of this run ({self._name}, pid {self.pid}) is stopped by a signal and answers "
                "nobody. Start the run again."
            )
        return ""

    def end(self) -> None:
        """Kill it and wait until it is gone: it has nothing worth saving. Harmless when it is gone already."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._thread.join(_PATIENCE)  # only a process that waits for a broken disk outlives SIGKILL
        if not self._thread.is_alive() and self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _live(self) -> None:
        try:
            process = self._launch()
        except OSError as error:
            self._refusal = error
            return
        finally:
            self._started.set()
        with process:
            assert process.stdout is not None
            self._keep(process.stdout)
            process.wait()
            self._over.set()

    def _launch(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            env=self._environment,
            pass_fds=self._inherit,
            process_group=0,  # Ctrl-C in the terminal is for the worker, which says goodbye to the server
        )
        try:
            self._pidfd = os.pidfd_open(process.pid)  # nobody else waits for it, so the number is still its own
        except OSError:
            with process:
                process.kill()
            raise
        self._process = process
        return process

    def _keep(self, output: IO[bytes]) -> None:
        """The newest lines in memory, the first ones on disk. A server that is flooded writes no disk full."""
        left = _MOST_LOGGED
        with _log_in(self._folder / f"{self._name}.log") as log:
            for line in iter(lambda: output.readline(_LONGEST_LINE), b""):
                if text := one_line(line.decode(errors="replace")):
                    self._lines.append(text)
                if left > 0:
                    left -= len(line)
                    with suppress(OSError):  # a full disk ends no run
                        log.write(line if left > 0 else b"(the log is full; what follows is not kept)\n")

    def _ending(self) -> str:
        assert self._process is not None
        status = self._process.returncode
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _log_in(file: Path) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(file, flags, 0o600), "wb", buffering=0)
    except OSError:  # what it prints is still remembered
        return open(os.devnull, "wb", buffering=0)  # noqa: PTH123 - of the same type as above
