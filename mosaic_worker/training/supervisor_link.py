"""The control socket between a script and its supervisor, as the script sees it."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SUPERVISOR_GONE_GRACE_SECONDS = 20.0
SUPERVISOR_GONE_STATUS = 71


class SupervisorLink:
    """A thread of its own hears words and hands them to `ask`; `tell` may be called from any thread."""

    def __init__(self, descriptor: int, ask: Callable[[str], None]) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._ask = ask
        self._telling = threading.Lock()
        self._closing = False
        self._watchdog = threading.Timer(SUPERVISOR_GONE_GRACE_SECONDS, _end_process)
        self._watchdog.daemon = True
        self._listener = threading.Thread(target=self._listen, name="supervisor-link", daemon=True)
        self._listener.start()

    def tell(self, **message: Any) -> None:
        try:
            with self._telling:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the listener meets the same breakage and asks for a stop

    def note_step(self, step: int) -> None:
        """Its rows say how far a script is."""

    def close(self) -> None:
        self._closing = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end closed first
        self._listener.join()
        self._watchdog.cancel()
        self._socket.close()

    def _listen(self) -> None:
        pending = b""
        while received := self._receive():
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                self._hear(line)
        if not self._closing:
            self._watchdog.start()
            self._ask("stop")

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(4096)
        except OSError:
            return b""

    def _hear(self, line: bytes) -> None:
        try:
            self._ask(str(json.loads(line)["do"]))
        except (ValueError, KeyError, TypeError):
            print(f"Ignored a control line that is no request: {line[:80]!r}", file=sys.stderr, flush=True)


def _end_process() -> None:
    with suppress(OSError):  # a full disk keeps the sentence, not the process
        os.write(2, b"The supervisor is gone and the script did not end in time; ending it without a checkpoint.\n")
    os._exit(SUPERVISOR_GONE_STATUS)
