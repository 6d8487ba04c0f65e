"""Credits of those who watch live: how many records they may be sent before they say that they can take more.

A watcher that does not keep up loses freshness or records, whichever it prefers. Without credits it reads everything in
its own time, from the store. With them it stays at the newest records and hears exactly how many it missed; the store
has them all the same. Neither worker nor store feels it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.telemetry.watching import until_set

MOST_CREDITS = 1_000_000


class CreditGate:
    """Of one watch. Belongs to one event loop."""

    def __init__(self, credit: int) -> None:
        self.left = min(credit, MOST_CREDITS)
        """How many records may be sent; below 0 after a page that held more."""
        self._granted = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self.left > 0

    def spend(self, records: int) -> None:
        """A page may take more than is left: the debt is paid by the next grant."""
        self.left -= records

    def grant(self, credit: int) -> None:
        self.left = min(self.left + credit, MOST_CREDITS)
        self._granted.set()

    async def wait_for_grant(self, timeout: float) -> None:
        """Until credits are granted, or for so many seconds."""
        self._granted.clear()
        if self.is_open:
            return
        await until_set(self._granted, timeout)


class Watches:
    """The gates of all watches, by the names that clients gave them."""

    def __init__(self) -> None:
        self._gates: dict[str, CreditGate] = {}

    @contextmanager
    def entered(self, watch_id: str, credit: int) -> Iterator[CreditGate]:
        if not watch_id or watch_id in self._gates:
            raise RefusedError(f"a watch with credits needs a watch_id of its own, got {watch_id[:60]!r}")
        gate = self._gates[watch_id] = CreditGate(credit)
        try:
            yield gate
        finally:
            del self._gates[watch_id]

    def grant(self, watch_id: str, credit: int) -> bool:
        """False where there is no such watch (any more)."""
        gate = self._gates.get(watch_id)
        if gate is not None:
            gate.grant(credit)
        return gate is not None
