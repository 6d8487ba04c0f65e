"""A user's hold on the TensorBoard server of a set of runs.

The keeper sends lines of JSON: ``{"address": "http://127.0.0.1:PORT/"}`` when the server answers, ``{"failed": "…"}``
when it does not or no longer does. The user sends nothing; that its connection ends is all that it says.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gym_gui.services.package_python import python_with
from gym_gui.services.tensorboard import keeper
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.unix_socket import dialled_once

_INSTALL = "`mosaic bundles install cleanrl` or `pip install tensorboard==2.21.0` does that"
_PATIENCE = keeper.START_SECONDS + 30.0
_LONGEST_LINE = 65536


class TensorBoardError(Exception):
    """There is no server; the message is a sentence."""


class TensorBoardLease:
    """Has one server as long as it is open. :meth:`open` blocks and :meth:`close` may be called from another thread."""

    def __init__(
        self, paths: MosaicPaths, folders: Mapping[str, Path], *, port: int = 0, python: str | None = None
    ) -> None:
        """``folders`` holds the log folder of each run by the name that TensorBoard shows. ``python`` is one that has
        TensorBoard; it is looked for when none is given."""
        links = {_plain(name): os.path.realpath(folder) for name, folder in folders.items()}
        key = hashlib.sha256(json.dumps(sorted(links.items())).encode()).hexdigest()[:16]
        self._paths, self._python, self._links, self._port = paths, python, links, port
        self._folder = paths.tensorboard_servers / key
        self._connection: socket.socket | None = None
        self._closed = threading.Event()
        self.address = ""

    def __enter__(self) -> TensorBoardLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> str:
        """The address of the server, which is started when it does not run. Raises :class:`TensorBoardError`."""
        deadline = time.monotonic() + _PATIENCE
        child: subprocess.Popen[bytes] | None = None
        while time.monotonic() < deadline and not self._closed.is_set():
            if self._dial():
                told = self._heard(deadline)
                if "address" in told:
                    self.address = told["address"]
                    return self.address
                self._hang_up()
                if "failed" in told:
                    raise TensorBoardError(told["failed"])
            elif child is None or child.poll() is not None:
                child = self._start_keeper()
            self._closed.wait(0.05)
        if self._closed.is_set():
            raise TensorBoardError("TensorBoard is not wanted any more.")
        raise TensorBoardError(f"TensorBoard did not answer within {_PATIENCE:.0f} s.")

    def fileno(self) -> int:
        """Becomes readable when the server ends. Only while it is open."""
        assert self._connection is not None
        return self._connection.fileno()

    def wait(self) -> str:
        """Block until the server ends or this lease is closed; the sentence that says why."""
        told = self._heard(None)
        return told.get("failed", "" if self._closed.is_set() else "TensorBoard ended.")

    def close(self) -> None:
        """Give the server up; it ends when nobody else has it. May be called twice."""
        self._closed.set()
        self._hang_up()

    def _hang_up(self) -> None:
        connection, self._connection, self.address = self._connection, None, ""
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads from it
            connection.close()

    def _dial(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with dialled_once(self._folder / "sock") as name:
                connection.connect(name)
        except OSError:
            connection.close()
            return False
        self._connection = connection
        if self._closed.is_set():
            self._hang_up()
        return True

    def _heard(self, deadline: float | None) -> dict[str, str]:
        """What the keeper says next; {} when it is gone."""
        data = b""
        connection = self._connection
        try:
            while connection is not None and not data.endswith(b"\n") and len(data) < _LONGEST_LINE:
                connection.settimeout(None if deadline is None else max(0.1, deadline - time.monotonic()))
                part = connection.recv(4096)
                if not part:
                    break
                data += part
            told = json.loads(data.splitlines()[-1]) if data else {}
        except (OSError, ValueError):
            return {}
        return {str(key): str(value) for key, value in told.items()} if isinstance(told, dict) else {}

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        order = {
            "links": self._links,
            "port": self._port,
            "python": self._python or python_with_tensorboard(self._paths),
        }
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            child = subprocess.Popen(
                [sys.executable, keeper.__file__, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C in the terminal of one user is not the end for the others
            )
            assert child.stdin is not None
            with child.stdin as stdin:
                stdin.write(json.dumps(order).encode())
        except OSError as error:
            raise TensorBoardError(f"TensorBoard could not be started: {error.strerror or error}") from error
        threading.Thread(target=child.wait, name="keeper-reaper", daemon=True).start()
        return child


def _plain(name: str) -> str:
    """A name that can be a link's."""
    return name.replace("/", "-").replace("\0", "").strip(".")[:100] or "run"


def python_with_tensorboard(paths: MosaicPaths) -> str:
    """This interpreter, or that of a worker's bundle. Raises :class:`TensorBoardError` where none has TensorBoard."""
    python = python_with("tensorboard", paths)
    if python is None:
        raise TensorBoardError(f"TensorBoard is not installed, neither here nor with a worker: {_INSTALL}")
    return python
