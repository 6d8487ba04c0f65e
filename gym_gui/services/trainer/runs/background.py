"""Work that goes on behind the calls: background tasks, and decisions that must not be cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gym_gui.logging_config.structured import log_bug

T = TypeVar("T")


class BackgroundWork:
    """Belongs to one event loop. After :meth:`close` nothing runs and nothing new is begun."""

    def __init__(self) -> None:
        self.closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._shielded: set[asyncio.Future[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; an error in it is a bug and is logged with its traceback."""
        if self.closing:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Let work end that has begun, also when the client who asked for it hangs up: what is committed must have its
        consequences."""
        task = asyncio.ensure_future(work)
        self._shielded.add(task)
        task.add_done_callback(self._shielded.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel the background tasks; wait for the decisions under way."""
        self.closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._shielded, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_bug(error)
