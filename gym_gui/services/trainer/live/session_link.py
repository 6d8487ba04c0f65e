"""The daemon's own connection to a session, for one watcher. Nothing in here waits for the session or believes it."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from gym_gui.services.trainer.errors import WorldError, WrongStateError
from mosaic_protocol.live.messages import LONGEST_LINE, socket_of
from mosaic_protocol.live.newest import NewestLines
from mosaic_protocol.unix_socket import dialled_once

_PIECE_BYTES = 1 << 16
_MOST_PIECES = 4
"""How much is read at once: about what the kernel holds for a socket. More of a session that floods comes next time."""
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


class NobodyListensError(Exception):
    """There is no session at that place now."""


class SessionLink:
    """Belongs to one event loop. Lines are read when somebody wants them and not before: a session keeps nothing for a
    watcher that does not read, and the newest state is what it says next."""

    def __init__(self, run_directory: Path) -> None:
        """Raises :class:`NobodyListensError`, and :class:`WorldError` where the machine fails."""
        self.lines = NewestLines()
        self.has_spoken = False
        self.has_ended = False
        self._begun = b""
        self._loop = asyncio.get_running_loop()
        self._socket = _connected(socket_of(run_directory))

    def call_when_readable(self, news: asyncio.Event) -> None:
        """Set the event, once, when there is something to read."""
        self._loop.add_reader(self._socket, self._tell, news)

    def _tell(self, news: asyncio.Event) -> None:
        self._loop.remove_reader(self._socket)  # until it is read: the kernel would tell again and again
        news.set()

    def read(self) -> None:
        """Take what came to :attr:`lines`. Raises :class:`WrongStateError` for a session that does not keep to its own
        channel."""
        for _ in range(_MOST_PIECES):
            try:
                data = self._socket.recv(_PIECE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.has_ended = True
                return
            self.has_spoken = True
            *lines, self._begun = (self._begun + data).split(b"\n")
            if any(len(line) > LONGEST_LINE for line in (*lines, self._begun)):
                raise WrongStateError(f"the session sent a line of more than {LONGEST_LINE:,} bytes: it was left")
            for line in lines:
                self.lines.put(line)

    async def send(self, data: bytes) -> None:
        """Give the session what its watcher says. One that is gone is heard of by reading."""
        with suppress(OSError):
            await self._loop.sock_sendall(self._socket, data)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()


def _connected(path: Path) -> socket.socket:
    """Only to a socket in that very place, and to a process of this user: a link could lead keys somewhere else."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.setblocking(False)
        found = path.lstat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
            raise NobodyListensError
        with dialled_once(path) as name:
            link.connect(name)
        if _PEER.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1] != os.getuid():
            raise NobodyListensError
        return link
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        link.close()
        raise NobodyListensError from None
    except OSError as error:
        link.close()
        raise WorldError(f"the session cannot be reached: {error.strerror or error}") from error
    except BaseException:
        link.close()
        raise
