"""A warm parent that starts workers in milliseconds: it has imported everything once, and forks.

Started by the daemon as ``python -m mosaic_protocol.fork_server --socket-fd N --warm MODULE`` with the interpreter of
the worker's environment. MODULE offers ``warm_up()``, called once here (imports, a throw-away model), and may offer
``after_fork()``, called in each child (fresh random state).

The parent stays single-threaded and never opens a gRPC channel: a fork of a threaded process can hang. It ends when the
daemon's end of the socket closes; the workers it started live on.

On the socket, one JSON object a line. Daemon → server: ``{"id", "module", "argv", "env", "cwd", "stdout",
"stderr"}``. Server → daemon: ``{"ready": true}`` once, ``{"id", "pid"}`` per start, ``{"id", "error"}``, ``{"exit":
pid, "status": n}``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mosaic_protocol.full_disk import until_it_works

WARM_FLAG = "_mosaic_forked_warm"
"""Set on :mod:`sys` in forked workers, so that they fork their script too instead of spawning it."""


def is_warm() -> bool:
    """Whether this process was forked from a fork server and has everything imported."""
    return bool(getattr(sys, WARM_FLAG, False))


class ForkServer:
    """The loop of the parent: requests in, pids and exit statuses out."""

    def __init__(self, connection: socket.socket, warm: ModuleType) -> None:
        self._connection, self._warm = connection, warm
        self._buffer = b""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def serve(self) -> dict[str, Any] | None:
        """Answer until the daemon closes its end; None then. Returns in each fork too, with the request it was made
        for, so that the worker runs on a clean stack and ends like any interpreter."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._send({"ready": True})
        while True:
            waiting = [self._connection.fileno(), self._wake_read]
            readable, _, _ = select.select(waiting, [], [])
            if self._wake_read in readable:
                os.read(self._wake_read, 4096)
                self._report_exits()
            if self._connection.fileno() in readable:
                chunk = self._receive()
                for request in self._requests_in(chunk):
                    if self._fork(request):
                        return request
                if not chunk:
                    return None

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(65536)
        except ConnectionError:  # the daemon died before it read the answer
            return b""

    def _requests_in(self, chunk: bytes) -> list[dict[str, Any]]:
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def _fork(self, request: dict[str, Any]) -> bool:
        """True in the child."""
        try:
            pid = os.fork()
        except OSError as error:
            self._send({"id": request["id"], "error": f"cannot fork: {error}"})
            return False
        if pid == 0:
            self._leave_server()
            return True
        self._send({"id": request["id"], "pid": pid})
        return False

    def _report_exits(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._send({"exit": pid, "status": os.waitstatus_to_exitcode(status)})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return  # the daemon is gone; the loop notices the closed socket

    def _leave_server(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._connection.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


def _take_identity(request: dict[str, Any]) -> None:
    """Session, streams, folder, environment: all that exec would have given."""
    os.setsid()
    _redirect(request["stdout"], 1)
    _redirect(request["stderr"], 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    until_it_works(lambda: os.chdir(request["cwd"]), "enter the folder of its run")
    if not sys.flags.safe_path:
        sys.path[0] = request["cwd"]  # where `python -m` looks first
    os.environ.clear()
    os.environ.update(request["env"])
    _mark_environment_block()
    random.seed()
    setattr(sys, WARM_FLAG, True)


def _mark_environment_block() -> None:
    """Let ``/proc/<pid>/environ`` of this process and of its forks name the run, as that of an executed worker does.

    The block holds what the server was executed with; after the environment was replaced nothing points into it.
    """
    mark = b"MOSAIC_RUN_ID=" + os.environ.get("MOSAIC_RUN_ID", "").encode() + b"\0"
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[47]), int(fields[48])
    if begin and end - begin >= len(mark):
        ctypes.memmove(begin, mark, len(mark))


def _redirect(path: str, number: int) -> None:
    """The daemon has just opened the file, but folders can be forbidden or away from one moment to the next, and a
    worker that died of it here would have nowhere to say so."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    target = until_it_works(lambda: os.open(path, flags, 0o600), "open its log")
    os.dup2(target, number)
    os.close(target)


def _become_worker(request: dict[str, Any], warm: ModuleType) -> None:
    """``python -m module argv`` inside this process, to its end."""
    _take_identity(request)
    if (after_fork := getattr(warm, "after_fork", None)) is not None:
        after_fork()
    sys.argv = [request["module"], *request["argv"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Internal: the trainer's warm fork server.")
    parser.add_argument("--socket-fd", type=int, required=True)
    parser.add_argument("--warm", required=True)
    options = parser.parse_args()
    connection = socket.socket(fileno=options.socket_fd)
    warm = importlib.import_module(options.warm)
    warm.warm_up()
    gc.collect()
    gc.freeze()  # children then share the imported objects instead of copying pages at their first collection
    if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
        connection.sendall(
            json.dumps({"refused": f"{threads} threads after warm-up; forking would be unsafe"}).encode() + b"\n"
        )
        sys.exit(1)
    request = ForkServer(connection, warm).serve()
    if request is not None:
        _become_worker(request, warm)


if __name__ == "__main__":
    main()
