"""The daemon looks after what it is found by and what it remembers with: its lock, its socket, the clients' token, its
databases. Anybody can remove a file."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.trainer.errors import CannotListenError
from gym_gui.services.trainer.instance_lock import InstanceLock
from gym_gui.services.trainer.rpc.front_door import FrontDoor
from gym_gui.services.trainer.rpc.tokens import ClientToken

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0


Databases: TypeAlias = Callable[[], Sequence[Path]]
"""The files that are there now: some are made when they are needed."""


class Leave(Protocol):
    """Tells the daemon to leave, and whether to begin again at once."""

    def __call__(self, *, again: bool = False) -> None: ...


class Presence:
    """Runs until cancelled. Where the disk does not let it mend something it tries again."""

    def __init__(
        self, lock: InstanceLock, token: ClientToken, door: FrontDoor, databases: Databases, leave: Leave
    ) -> None:
        self._lock, self._token, self._door = lock, token, door
        self._databases, self._leave = databases, leave
        self._leaving = False

    async def run(self) -> None:
        while not self._leaving:
            await asyncio.sleep(_EVERY_SECONDS)
            for look in (self._keep_place, self._keep_databases, self._repeat_words, self._keep_token, self._door.tend):
                if not self._leaving:
                    await self._try(look)

    async def _try(self, look: Callable[[], Awaitable[None]]) -> None:
        """What cannot be mended keeps nothing else from it."""
        try:
            await look()
        except (OSError, CannotListenError):
            return
        except Exception as error:  # noqa: BLE001 - a bug here must not leave the daemon without anybody looking
            log_bug(error)

    async def _keep_place(self) -> None:
        if self._lock.replaced():
            # Another daemon may start there now: two on one registry would end each other's runs.
            log_event(logger, codes.LOG_TRAINER_REPLACED, pid=os.getpid())
            self._leaving = True
            self._leave()

    async def _keep_databases(self) -> None:
        if removed := [str(path) for path in self._databases() if _is_removed(path)]:
            # What is written from now on would be lost with this process. Closing writes it all down again.
            log_event(logger, codes.LOG_DATABASE_REMOVED, files=removed)
            self._leaving = True
            self._leave(again=True)

    async def _repeat_words(self) -> None:
        self._lock.repeat()

    async def _keep_token(self) -> None:
        if self._token.tend():
            log_event(logger, codes.LOG_TOKEN_REPLACED)


def _is_removed(path: Path) -> bool:
    """A folder that is away for a moment takes its files along, and one that may not be entered shows none: neither is
    meant."""
    try:
        path.lstat()
    except FileNotFoundError:
        return path.parent.is_dir()
    except OSError:
        return False
    return False
