"""Daemons forked from a process that has imported one: what a test waits for is its daemon, not the imports of it.

:mod:`mosaic_protocol.fork_server`, which the product starts workers with, forks these as well; this module is what it
warms up. A fork runs ``python -m gym_gui.services.trainer`` with session, streams, folder and environment of its own.
What is decided when an interpreter starts (``PYTHON…``, ``LD_…``) cannot be given to it: such a daemon is executed, and
so are those of ``mosaic daemon start`` and of the cockpit.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from mosaic_protocol.endpoint import quiet_grpc_logs

MODULE = "gym_gui.services.trainer"
_ANSWER_SECONDS = 120.0
_READ_AT_START = ("PYTHON", "LD_", "GRPC_", "COV", "MALLOC_", "GLIBC_", "TZ", "LC_", "LANG")
_ROOM = "PYTEST_ROOM_FOR_AN_ENVIRONMENT"
_ROOM_BYTES = 65536


class Process(Protocol):
    """What tests use of a daemon's process, as :class:`subprocess.Popen` offers it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


# ---- in the fork server ----------------------------------------------------------------------------------------------


def warm_up() -> None:
    quiet_grpc_logs()
    import gym_gui.services.trainer.__main__  # noqa: F401


def after_fork() -> None:
    """Let ``/proc/<pid>/environ`` show the daemon's own environment, by which tests find the processes of a data root.

    The block is what the server was executed with, and nothing points into it since the environment was replaced.
    """
    content = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items())
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[47]), int(fields[48])
    assert len(content) <= end - begin, "the environment is larger than the room that was made for it"
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, content, len(content))


# ---- in the tests ----------------------------------------------------------------------------------------------------


class ForkedDaemon:
    """One daemon. Its parent is the fork server, which reports how it ended."""

    def __init__(self, server: _Server, pid: int) -> None:
        self._server, self.pid = server, pid
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._server.exit_status(self.pid, 0.0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            self._status = self._server.exit_status(self.pid, timeout)
        if self._status is None:
            raise subprocess.TimeoutExpired(MODULE, timeout or 0.0)
        return self._status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # its parent has heard of its end, and is about to say so
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """The fork server, and the conversation with it. Any thread may call."""

    def __init__(self) -> None:
        self.started_with = _read_at_start(os.environ)
        self._lock = threading.RLock()
        self._ids = itertools.count()
        self._pids: dict[int, int] = {}
        self._exits: dict[int, int] = {}
        self._buffer = b""
        self._socket, theirs = socket.socketpair()
        with theirs:
            options = ["--socket-fd", str(theirs.fileno()), "--warm", __name__]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mosaic_protocol.fork_server", *options],
                env={**os.environ, _ROOM: "x" * _ROOM_BYTES},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(self, arguments: list[str], env: Mapping[str, str], log: Path) -> ForkedDaemon:
        number = next(self._ids)
        places = {"cwd": str(Path.cwd()), "stdout": str(log), "stderr": str(log)}
        request = {"id": number, "module": MODULE, "argv": arguments, "env": dict(env), **places}
        with self._lock:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            assert self._hear_until(lambda: number in self._pids, _ANSWER_SECONDS), "the fork server does not answer"
            return ForkedDaemon(self, self._pids.pop(number))

    def exit_status(self, pid: int, timeout: float | None) -> int | None:
        """How one ended; None while it lives. It is forgotten then: another may get its number."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:  # for a moment each: others may have questions meanwhile
                if self._hear_until(lambda: pid in self._exits, 0.02 if timeout != 0 else 0.0):
                    return self._exits.pop(pid)
            if deadline is not None and time.monotonic() >= deadline:
                return None

    def close(self) -> None:
        self._socket.close()
        self._process.wait(_ANSWER_SECONDS)

    def _hear_until(self, heard: Callable[[], bool], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not heard():
            readable, _, _ = select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                return False
            chunk = self._socket.recv(65536)
            assert chunk, "the fork server of the daemons ended"
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
        return True

    def _take(self, message: dict[str, Any]) -> None:
        assert not {"refused", "error"} & message.keys(), message
        if "exit" in message:
            self._exits[message["exit"]] = message["status"]
        elif "pid" in message:
            self._exits.pop(message["pid"], None)  # of an earlier one with this number
            self._pids[message["id"]] = message["pid"]


class _Session:
    """What this process has: nothing, unless :func:`allowed` says otherwise."""

    may_fork = False
    server: _Server | None = None


@contextmanager
def allowed() -> Iterator[None]:
    """As long as this lasts, daemons may be forked; the fork server comes with the first one and goes at the end."""
    _Session.may_fork = True
    try:
        yield
    finally:
        _Session.may_fork = False
        if _Session.server is not None:
            _Session.server.close()
            _Session.server = None


def forked(arguments: list[str], env: Mapping[str, str], log: Path) -> ForkedDaemon | None:
    """A daemon with these, appending what it prints to a log; None where it has to be executed."""
    if not _Session.may_fork:
        return None
    if _Session.server is None:
        _Session.server = _Server()
    server = _Session.server
    return server.fork(arguments, env, log) if _read_at_start(env) == server.started_with else None


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
