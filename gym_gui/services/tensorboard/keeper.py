"""The keeper of one TensorBoard server: ``python keeper.py FOLDER``, the order as JSON on stdin.

Started by :mod:`gym_gui.services.tensorboard.lease`, which says what the two tell each other. Uses the standard library
alone, so that it starts fast and by its path. Its folder holds ``lock`` (held while a keeper serves), ``sock`` and
``logdir`` with a link for each run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

START_SECONDS = 90.0
_FIRST_USER_SECONDS = 30.0
_LOCK_SECONDS = 20.0
_END_SECONDS = 3.0
_MOST_OUTPUT = 8000
_SOCKET, _LOCK, _LOGDIR = Path("sock"), Path("lock"), Path("logdir")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")
_TIED = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or os._exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)
"""Executed by the child before TensorBoard: the kernel then ends it with the keeper, also when that is killed."""


class Keeper:
    """Serves until its last user is gone, or the server is."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._users: set[socket.socket] = set()
        self._address = ""
        self._output = ""
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        _link(self._order["links"])
        _SOCKET.unlink(missing_ok=True)
        self._listener.bind(str(_SOCKET))
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._welcome)
        try:
            self._start()
            self._attend()
        finally:
            self._end()

    def _start(self) -> None:
        python = self._order["python"]
        words = ["--logdir", str(_LOGDIR.absolute()), "--host", "127.0.0.1", "--port", str(self._order["port"])]
        words += ["--reload_interval", "5", "--window_title", "MOSAIC"]
        command = [python, "-c", _TIED, str(os.getpid()), python, "-m", "tensorboard.main", *words]
        try:
            self._server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        except OSError as error:
            self._output = f"could not be started: {error.strerror or error}"
            return
        assert self._server.stdout is not None
        os.set_blocking(self._server.stdout.fileno(), False)
        self._selector.register(self._server.stdout, selectors.EVENT_READ, self._hear)

    def _attend(self) -> None:
        """Until nobody is left, or the server is gone or never came."""
        begun = time.monotonic()
        had_users = False
        while True:
            had_users = had_users or bool(self._users)
            waited = time.monotonic() - begun
            if not self._users and (had_users or waited > _FIRST_USER_SECONDS):
                return
            if self._server is None and (had_users or waited > _FIRST_USER_SECONDS):
                self._tell({"failed": f"TensorBoard {self._output}"})
                return
            if self._server is not None and self._server.poll() is not None and (had_users or self._address):
                self._tell({"failed": self._last_words(self._server.returncode)})
                return
            if not self._address and waited > START_SECONDS:
                self._tell({"failed": f"TensorBoard did not answer within {START_SECONDS:.0f} s."})
                return
            for key, _ in self._selector.select(0.5):
                key.data(key.fileobj)

    def _welcome(self, listener: socket.socket) -> None:
        with suppress(OSError):
            user, _ = listener.accept()
            user.setblocking(False)
            self._users.add(user)
            self._selector.register(user, selectors.EVENT_READ, self._listen)
            if self._address:
                self._tell({"address": self._address}, [user])

    def _listen(self, user: socket.socket) -> None:
        """Users say nothing; what can be read is their end."""
        try:
            gone = not user.recv(1024)
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        if gone:
            self._drop(user)

    def _drop(self, user: socket.socket) -> None:
        if user in self._users:
            self._users.discard(user)
            self._selector.unregister(user)
            user.close()

    def _hear(self, stream: Any) -> None:
        data = stream.read1(65536) or b""
        if not data:
            self._selector.unregister(stream)
            return
        self._output = (self._output + data.decode(errors="replace"))[-_MOST_OUTPUT:]
        found = _ADDRESS.search(self._output)
        if found and not self._address:
            self._address = found[0]
            self._tell({"address": self._address})

    def _tell(self, message: dict[str, str], users: list[socket.socket] | None = None) -> None:
        line = json.dumps(message).encode() + b"\n"
        for user in list(self._users) if users is None else users:
            try:
                user.sendall(line)
            except OSError:
                self._drop(user)

    def _last_words(self, status: int) -> str:
        if "No module named" in self._output:
            return "TensorBoard is not installed in the environment that was to run it."
        lines = [line.strip() for line in self._output.splitlines() if line.strip()]
        return f"TensorBoard ended with status {status}: {lines[-1][:200] if lines else 'it said nothing'}"

    def _end(self) -> None:
        """Nobody new is let in first: who comes now starts the next keeper, which waits for the lock."""
        _SOCKET.unlink(missing_ok=True)
        self._listener.close()
        if self._server is not None and self._server.poll() is None:
            self._server.terminate()
            try:
                self._server.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        for user in list(self._users):
            self._drop(user)
        shutil.rmtree(_LOGDIR, ignore_errors=True)


def _link(links: dict[str, str]) -> None:
    """A folder with a link for each run; links of an earlier keeper go, and what they lead to stays."""
    shutil.rmtree(_LOGDIR, ignore_errors=True)
    _LOGDIR.mkdir(mode=0o700)
    for name, place in links.items():
        (_LOGDIR / name).symlink_to(place)


def _enter(folder: Path) -> bool:
    """Be the keeper in this folder, made when it is not there. False when another one serves. The one before removes
    lock and folder when it leaves, so a lock counts only while it has its name."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.chdir(folder)  # names in here are short: the kernel takes at most 107 bytes for the path of a socket
            lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock), os.stat(folder / _LOCK)):  # noqa: PTH116 - beside fstat
                    return True  # it stays open, and locked, as long as this process lives
            except OSError:
                if _somebody_listens():
                    return False
            os.close(lock)
        time.sleep(0.05)  # the one before is on its way out, or one that was faster on its way in
    return False


def _somebody_listens() -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(_SOCKET))
        except OSError:
            return False
    return True


def main() -> int:
    order, folder = json.load(sys.stdin), Path(sys.argv[1])
    if _enter(folder):
        try:
            Keeper(order).serve()
        finally:
            with suppress(OSError):
                _LOCK.unlink()
                folder.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
