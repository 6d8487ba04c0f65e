"""What lets many watch one run at little more cost than one: they look in step, and what they look at is read once.

Watchers that have seen everything stand at the same place, so at the next look they want the same. Each still has its
own cursor: one that lags behind, or began elsewhere, reads for itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")

_SECONDS_EACH = 0.002
_LONGEST_REST = 0.5


class SharedReads:
    """Reads that are wanted by several at the same time are made once. Belongs to one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Any]] = {}

    async def get(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """What ``read`` gives, or gives somebody who asked for the same and still waits. One who leaves does not take
        the read from the others."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.ensure_future(read())
            task.add_done_callback(lambda done: self._forget(key, done))
        result: T = await asyncio.shield(task)
        return result

    def _forget(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()  # those who asked for it may all be gone


class SharedLooks:
    """Values that are made once for all who look at the same moment. Belongs to one event loop."""

    def __init__(self) -> None:
        self._moment: Hashable = None
        self._made: dict[Hashable, Any] = {}

    def get(self, moment: Hashable, key: Hashable, make: Callable[[], T]) -> T:
        """The value that belongs to the key in this moment; that of an earlier moment is forgotten."""
        if moment != self._moment:
            self._moment, self._made = moment, {}
        if key not in self._made:
            self._made[key] = make()
        value: T = self._made[key]
        return value


class Pace:
    """How long watchers rest between two looks. The more there are the longer, so that together they are sent a bounded
    number of messages a second; one alone hardly rests."""

    def __init__(self) -> None:
        self._watchers = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    async def rest(self, at_least: float = 0.0) -> None:
        await asyncio.sleep(until_next(max(at_least, min(_LONGEST_REST, self._watchers * _SECONDS_EACH))))


async def until_set(event: asyncio.Event, timeout: float) -> None:
    """Wait for an event, at most so many seconds. One who hangs up in the moment in which it is set is let go all the
    same: ``asyncio.wait_for`` of Python 3.11 forgets that, and the watcher would be served for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await event.wait()


def until_next(interval: float) -> float:
    """Seconds until the next of those moments, ``interval`` apart, at which everybody looks."""
    return interval - time.monotonic() % interval
