"""Where the daemon can be reached: its Unix socket always, a TCP port with TLS when asked for.

Each server listens on a socket with a name of its own, and the name that clients dial is a hard link to it. So no
server takes over the socket of another without a word and none removes the socket of its successor (gRPC's own handling
of paths does both), and a link that somebody removed is made again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.errors import AlreadyRunningError, CannotListenError
from gym_gui.services.trainer.settings import TrainerSettings
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.unix_socket import dialled, listener

logger = logging.getLogger(__name__)

_PRIVATE = ".daemon-{pid}-{number}.sock"
_LEAVE_SECONDS = 1.0


@dataclass(frozen=True)
class _Listening:
    """A server, the name of its socket, and which file that is: anybody may put another one there."""

    server: grpc.aio.Server
    path: Path
    identity: tuple[int, int]

    def is_at(self, path: Path) -> bool:
        try:
            return _identity(path) == self.identity
        except OSError:
            return False


class FrontDoor:
    """Made while the instance lock is held. :meth:`bind`, then :meth:`open` once everybody can be served;
    :meth:`tend` now and then; :meth:`close` before the lock is released. All in the daemon's event loop."""

    def __init__(
        self, paths: MosaicPaths, settings: TrainerSettings, make_server: Callable[[], grpc.aio.Server]
    ) -> None:
        self._paths, self._settings, self._make_server = paths, settings, make_server
        self._number = 0
        self._local: _Listening | None = None
        self._remote: grpc.aio.Server | None = None
        self.tcp_target = ""

    @property
    def target(self) -> str:
        """The address that clients and workers of this machine dial."""
        return f"unix:{self._paths.socket}"

    def is_found(self) -> bool:
        """Whether the address leads here: the socket is in its place, in a folder that may be entered."""
        local = self._local
        return local is not None and local.is_at(self._paths.socket) and os.access(self._paths.socket, os.W_OK)

    def bind(self) -> None:
        """Own the socket and the port without answering yet. Raises :class:`CannotListenError`,
        :class:`AlreadyRunningError`."""
        self._require_nobody()
        for left in self._paths.trainer.glob(_PRIVATE.format(pid="*", number="*")):
            left.unlink(missing_ok=True)
        self._local = self._bind_socket()
        if self._settings.tcp:
            self._remote = self._bind_port()

    async def open(self) -> None:
        """Answer, and let clients find the socket."""
        assert self._local is not None, "bind comes first"
        await self._local.server.start()
        if self._remote is not None:
            await self._remote.start()
        await self._make_known(self._local)

    async def tend(self) -> None:
        """Mend what somebody removed or replaced. Raises OSError, :class:`CannotListenError`."""
        if self._local is None or self._local.is_at(self._paths.socket):
            return
        await self._make_known(self._local)
        log_event(logger, codes.LOG_SOCKET_MENDED, level=logging.WARNING, socket=str(self._paths.socket))

    async def close(self) -> None:
        """Hang up. Calls under way have a moment to end."""
        if self._local is not None and self._local.is_at(self._paths.socket):
            with suppress(OSError):
                self._paths.socket.unlink()
        for server in (self._local.server if self._local else None, self._remote):
            if server is not None:
                await server.stop(_LEAVE_SECONDS)
        if self._local is not None:
            with suppress(OSError):
                self._local.path.unlink(missing_ok=True)

    async def _make_known(self, local: _Listening) -> None:
        """Link the socket to the name that clients dial. One whose own name leads elsewhere by now, also since it was
        bound, cannot be linked any more: then there is a new one."""
        if not local.is_at(local.path):
            self._local = self._bind_socket()
            await self._local.server.start()
            await local.server.stop(_LEAVE_SECONDS)
            with suppress(OSError):  # what was put there; the next daemon removes it otherwise
                local.path.unlink(missing_ok=True)
            local = self._local
        self._publish(local.path)

    def _require_nobody(self) -> None:
        """Where a lock can be lost (a lock file on a network disk that was removed), a daemon that lives is still
        heard."""
        if (pid := listener(self._paths.socket)) is not None:
            who = f"process {pid}" if pid else "a process"
            raise AlreadyRunningError(
                f"a trainer daemon already runs for {self._paths.root}: {who} listens on {self._paths.socket}. "
                "Use it, or stop it with `mosaic daemon stop`."
            )

    def _bind_socket(self) -> _Listening:
        self._number += 1
        path = self._paths.trainer / _PRIVATE.format(pid=os.getpid(), number=self._number)
        server = self._make_server()
        try:
            server.add_insecure_port(f"unix:{dialled(path)}")
            path.chmod(0o600)
            return _Listening(server, path, _identity(path))
        except (RuntimeError, OSError) as error:
            raise CannotListenError(
                f"cannot make a socket in {self._paths.trainer}: {_why(error, 'the disk may not allow sockets')}. "
                "Set MOSAIC_HOME to a folder on a local disk."
            ) from error

    def _publish(self, private: Path) -> None:
        """In one step: a client finds the old socket or the new one, never none."""
        draft = self._paths.socket.with_suffix(".sock.draft")
        try:
            draft.unlink(missing_ok=True)
            os.link(private, draft)
            draft.replace(self._paths.socket)
        except OSError as error:
            raise CannotListenError(
                f"cannot make the socket {self._paths.socket}: {error.strerror}. "
                "Mend that (disk space, permissions) or set MOSAIC_HOME to a folder on a local disk."
            ) from error

    def _bind_port(self) -> grpc.aio.Server:
        from gym_gui.services.trainer.rpc.certificate import server_credentials  # 20 ms that only TCP needs

        host = self._settings.host
        credentials = server_credentials(self._paths, host, self._settings.tls_cert, self._settings.tls_key)
        shown = f"[{host}]" if ":" in host else host
        server = self._make_server()
        try:
            port = server.add_secure_port(f"{shown}:{self._settings.port}", credentials)
        except (RuntimeError, OSError) as error:
            raise CannotListenError(
                f"cannot listen on {shown}:{self._settings.port}: {_why(error, 'the address is in use or not ours')}. "
                "Another program may use the port: choose one with --port (0 takes a free one) or MOSAIC_TRAINER_PORT."
            ) from error
        self.tcp_target = f"{_dialled_host(shown)}:{port}"
        return server


def _dialled_host(host: str) -> str:
    """Where this machine reaches a daemon that listens on all its addresses."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)


def _why(error: Exception, otherwise: str) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else otherwise


def _identity(path: Path) -> tuple[int, int]:
    """Raises OSError. The kernel gives the number of a socket to no other file while somebody listens on it."""
    found = path.lstat()
    return found.st_dev, found.st_ino
