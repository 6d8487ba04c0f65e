"""Steps or episodes of a run as they are recorded, through the telemetry lane, into the GUI's thread.

A thread takes what the lane brings and hands it on in batches. It takes the next batch when the GUI has taken the last,
and lets the lane starve for a moment when more comes than a person could see: then the newest records are shown, and
how many were left out is known exactly. The run and its store feel nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PyQt6.QtCore import QObject

from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.services.trainer.streams import RunBus, StreamControl, Subscription
from gym_gui.ui.bridge import Feed, TrainerBridge
from mosaic_protocol.states import RunState

CREDITS = 1024
"""How many records may be on their way. With :data:`TAKE_SECONDS` it bounds what the cockpit unpacks in a second."""
TAKE_SECONDS = 0.1
BEHIND_SECONDS = 1.0
"""The rest after a batch that was full. Longer than the daemon waits for credits before it skips to the newest."""


@dataclass(frozen=True)
class BusBatch:
    """What came since the last one."""

    records: list[Any]
    """Steps or episodes, in order."""
    starving: bool
    """Whether records are being left out now."""
    missed: int
    """How many were left out since the feed began."""


class BusFeed(Feed):
    """``arrived(list)`` brings :class:`BusBatch` objects; for the rest see :class:`~gym_gui.ui.bridge.Feed`."""

    def __init__(self, bridge: TrainerBridge, run_id: str, kind: str, tail: int, parent: QObject) -> None:
        super().__init__(bridge, self._batches, parent)
        self._run_id, self._kind, self._tail = run_id, kind, tail
        self._missed_before = 0

    def _batches(self, client: TrainerClient, after_row: int) -> Iterator[tuple[int, Any]]:
        tail = 0 if after_row else self._tail
        with RunBus(client) as bus:
            subscription = bus.subscribe(
                self._run_id, self._kind, credit=CREDITS, tail=tail, after_row=after_row, observations=False
            )
            told = (False, 0)
            while not subscription.ended:
                batch = self._taken(subscription)
                if batch.records or (batch.starving, batch.missed) != told:
                    told = (batch.starving, batch.missed)
                    yield subscription.row, batch
                if self._rest(BEHIND_SECONDS if len(batch.records) >= CREDITS else TAKE_SECONDS):
                    return
            self._missed_before += subscription.missed
        self._require_its_end(client, subscription)

    def _taken(self, subscription: Subscription) -> BusBatch:
        """All that waits, up to as much as may be on its way."""
        records: list[Any] = []
        while len(records) < CREDITS and (event := subscription.get(timeout=0)) is not None:
            if not isinstance(event, StreamControl):
                records.append(event)
        return BusBatch(records, subscription.is_starving, self._missed_before + subscription.missed)

    def _rest(self, seconds: float) -> bool:
        """Wait, and until the GUI has taken what was handed on; whether the feed was stopped meanwhile."""
        while not self._stopped.wait(seconds):
            if self._items.empty():
                return False
        return True

    def _require_its_end(self, client: TrainerClient, subscription: Subscription) -> None:
        if self._stopped.is_set():
            return
        if subscription.error:
            raise ClientError(subscription.error, "FAILED_PRECONDITION")
        # A daemon that leaves in good order ends its streams as if all had been said.
        if client.run(self._run_id).state != RunState.TERM:
            raise ClientError("the daemon left before the run was over", "UNAVAILABLE")
