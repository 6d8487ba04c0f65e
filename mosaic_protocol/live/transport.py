"""The ways to a session: what a :class:`~mosaic_protocol.live.client.LiveClient` speaks through.

:class:`LocalTransport` is the one on the session's own machine. Where only the trainer daemon can be reached,
:mod:`gym_gui.services.trainer.live_channel` goes through that.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

from mosaic_protocol.live.frames import Frame, FrameReader, FramesError
from mosaic_protocol.live.messages import socket_of
from mosaic_protocol.unix_socket import dialled_once

MOST_UNSENT = 64 * 1024
"""Bytes that may wait for a session which does not read."""
_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 2.0


class SessionAwayError(Exception):
    """No session listens there, or it ended; ``str()`` is one sentence."""

    def __init__(self, sentence: str, *, is_gone: bool = False) -> None:
        super().__init__(sentence)
        self.is_gone = is_gone
        """Whether it is certain that nobody listens, so that looking again soon is of no use."""


class WayBrokenError(SessionAwayError):
    """The session was not reached, and nothing is known of it: it may well go on."""


class LiveTransport(ABC):
    """One connection to one session. Belongs to one thread, the client's.

    Everything but :meth:`close` and :meth:`frame` raises :class:`SessionAwayError` when the session is away, for as
    long as that is so.
    """

    @abstractmethod
    def fileno(self) -> int:
        """A descriptor that is readable when :meth:`read` has something to give or to raise."""

    @abstractmethod
    def read(self) -> bytes:
        """Some of what the session said, without waiting. Empty when only a picture came."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send lines; may wait a moment."""

    @abstractmethod
    def offer(self, data: bytes) -> bool:
        """Send lines without waiting; whether everything is on its way. What is not goes first with the next call, and
        is worth a try when :meth:`fileno` is writable."""

    @abstractmethod
    def frame(self, seat: int, path: str) -> Frame | None:
        """The newest picture of a seat that was not given yet; ``path`` is the file that the session named for it."""

    @abstractmethod
    def close(self) -> None:
        """Leave the session, which goes on. May be called twice."""


class LocalTransport(LiveTransport):
    """The socket in the folder of the run, and pictures in memory that both sides map."""

    def __init__(self, run_directory: Path) -> None:
        self._unsent = b""
        self._pictures: dict[int, _Pictures] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(_CONNECT_SECONDS)
            with dialled_once(socket_of(run_directory.absolute())) as name:
                self._socket.connect(name)
        except OSError as error:
            self._socket.close()
            sentence = f"no live session listens for {run_directory.name}: {error.strerror or error}"
            raise SessionAwayError(sentence, is_gone=isinstance(error, FileNotFoundError)) from None

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> bytes:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise SessionAwayError(f"the session is gone: {error.strerror}") from None
        if not data:
            raise SessionAwayError("the session ended")
        return data

    def send(self, data: bytes) -> None:
        rest, self._unsent = self._unsent, b""  # of a line that was offered, perhaps
        self._socket.settimeout(_SEND_SECONDS)
        try:
            self._socket.sendall(rest + data)
        except OSError as error:
            raise _deaf(error) from None

    def offer(self, data: bytes) -> bool:
        self._unsent += data
        self._socket.setblocking(False)
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            if len(self._unsent) > MOST_UNSENT:
                raise SessionAwayError("the session does not read what it is sent") from None
        except OSError as error:
            raise _deaf(error) from None
        return not self._unsent

    def frame(self, seat: int, path: str) -> Frame | None:
        return self._pictures.setdefault(seat, _Pictures()).latest(path)

    def close(self) -> None:
        for pictures in self._pictures.values():
            pictures.close()
        with suppress(OSError):
            self._socket.close()


class _Pictures:
    """The pictures of one seat, as far as they were given."""

    def __init__(self) -> None:
        self._reader: FrameReader | None = None
        self._unreadable = ""
        self._shown = 0

    def latest(self, path: str) -> Frame | None:
        if self._reader is not None and str(self._reader.path) != path:
            self.close()
        if self._reader is None and path and path != self._unreadable:
            try:
                self._reader = FrameReader(Path(path))
            except FramesError:
                self._unreadable = path  # removed with its session, which the socket tells as well
        if self._reader is None:
            return None
        found = self._reader.latest(self._shown)
        self._shown = found.number if found is not None else self._shown
        return found

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self._shown = None, 0


def _deaf(error: OSError) -> SessionAwayError:
    return SessionAwayError(f"the session does not listen any more: {error.strerror or error}")
