"""The telemetry hub: the one door through which records enter, and the place from which watchers are served.

Records come in from the wire (:meth:`TelemetryHub.publish`) or, for a worker that is gone, from its outbox on disk
(:meth:`TelemetryHub.drain`). Both store first and tell afterwards. Watchers read the store from their own cursor and
are only woken here; so a slow watcher costs itself its freshness and nobody else anything. A credit-gated live
fan-out attaches here, behind :meth:`TelemetryHub._tell`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.errors import RegistryCorruptError, WorldError, is_shortage
from gym_gui.services.trainer.store import Batch, TelemetryStore
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import MESSAGE_BYTES, OutboxReader, oldest_seq, streams

logger = logging.getLogger(__name__)

T = TypeVar("T")
LifecycleListener = Callable[[str, str, ev.RunLifecycleEvent], Awaitable[None]]
"""Hears (run id, stream, record)."""
ProgressListener = Callable[[str, int], None]
"""Hears (run id, step)."""
_DRAIN_RECORDS = 5000
_CODES = codes.by_code()


class TelemetryHub:
    """Belongs to the daemon's event loop."""

    def __init__(self, store: TelemetryStore) -> None:
        self.store = store
        self._on_lifecycle: LifecycleListener | None = None
        self._on_progress: ProgressListener | None = None
        self._news: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reading = ThreadPoolExecutor(1, "telemetry-reader")

    def listen(self, listener: LifecycleListener, progress: ProgressListener | None = None) -> None:
        """Who hears the lifecycle records, each once and after it is stored, and how far runs are by their metrics."""
        self._on_lifecycle, self._on_progress = listener, progress

    async def publish(self, batch: Batch) -> int:
        """Store a batch, pass it on, and return the number up to which the stream is stored. A sender that hangs up
        half-way does not keep what was stored from being passed on."""
        return await asyncio.shield(self._publish(batch))

    async def _publish(self, batch: Batch) -> int:
        stored = await asyncio.wrap_future(self.store.ingest(batch))
        for record in stored.fresh:
            await self._tell(batch, record)
        steps = [record.step for record in stored.fresh if isinstance(record, ev.MetricRow)]
        if steps and self._on_progress is not None:
            self._on_progress(batch.run_id, max(steps))
        if stored.damaged:
            self._tell_damage(batch.run_id, batch.stream, stored.damaged[0], len(stored.damaged))
        if stored.fresh:
            self._wake(batch.run_id)
        return stored.acked

    async def read(self, query: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Read something large of the store in the one thread for that: exports of millions of points wait for each
        other, and never keep a thread from what ends a run."""
        return await asyncio.get_running_loop().run_in_executor(
            self._reading, functools.partial(query, *arguments, **options)
        )

    def close(self) -> None:
        """Wait for the read under way; those that wait for it are given up."""
        self._reading.shutdown(cancel_futures=True)

    async def drain(self, run_id: str, outbox: Path) -> None:
        """Take over what a dead worker left in its outbox. Damage is told and left where it is; the rest is kept.
        Raises OSError when the machine is short of something, with nothing lost: it may be repeated."""
        for stream in await self._streams(run_id, outbox):
            try:
                await self._drain_stream(run_id, outbox, stream)
            except (OSError, RegistryCorruptError) as error:
                self._tell_unless_short(error, run_id, stream)

    async def _streams(self, run_id: str, outbox: Path) -> list[str]:
        try:
            return await asyncio.to_thread(streams, outbox)
        except OSError as error:
            self._tell_unless_short(error, run_id, "")
            return []

    def _tell_unless_short(self, error: OSError | RegistryCorruptError, run_id: str, stream: str) -> None:
        if isinstance(error, OSError) and is_shortage(error):
            raise error
        self._tell_damage(run_id, stream, str(error), 1)

    def stored_lifecycle(self, run_id: str) -> list[tuple[str, ev.RunLifecycleEvent]]:
        """(stream, record) of a run's lifecycle records. A damaged store tells nothing, and takes no run with it."""
        try:
            return self.store.lifecycle(run_id)
        except RegistryCorruptError as error:
            self._tell_damage(run_id, "", str(error), 1)
            return []

    def headline(self, run_id: str) -> dict[str, float]:
        """The newest numbers of a run; none from a damaged store, because a listing is needed most then."""
        try:
            return self.store.headline(run_id)
        except RegistryCorruptError:
            return {}

    def newest_step(self, run_id: str) -> int:
        """How far a run was by its numbers, 0 when they do not say."""
        try:
            return self.store.newest_step(run_id)
        except RegistryCorruptError:
            return 0

    def _tell_damage(self, run_id: str, stream: str, reason: str, places: int) -> None:
        log_event(logger, codes.LOG_STORE_BAD_JOURNAL, run_id=run_id, stream=stream, reason=reason, places=places)

    async def _drain_stream(self, run_id: str, outbox: Path, stream: str) -> None:
        """From the oldest record there is: a store that was begun anew knows nothing of what an earlier one had."""
        acked = await asyncio.to_thread(self.store.acked, run_id, stream)
        oldest = await asyncio.to_thread(oldest_seq, outbox, stream)
        reader = OutboxReader(outbox, stream, after_seq=max(acked, oldest - 1), salvage=True)
        try:
            while lines := await asyncio.to_thread(reader.read, _DRAIN_RECORDS, MESSAGE_BYTES):
                first = reader.next_seq - len(lines)
                await self._publish_patiently(Batch(run_id, stream, first, lines, oldest, salvage=True))
        finally:
            reader.close()

    async def _publish_patiently(self, batch: Batch) -> None:
        while True:
            try:
                await self.publish(batch)
            except RegistryCorruptError:
                raise
            except WorldError as error:
                log_event(logger, codes.LOG_STORE_FULL, run_id=batch.run_id, reason=str(error))
                await asyncio.sleep(1.0)
            else:
                return

    async def _tell(self, batch: Batch, record: ev.Record) -> None:
        if isinstance(record, ev.RunLifecycleEvent) and self._on_lifecycle is not None:
            await self._on_lifecycle(batch.run_id, batch.stream, record)
        elif isinstance(record, ev.LogRecord):
            _re_emit(batch.run_id, record)

    def _wake(self, run_id: str) -> None:
        self._news.pop(run_id, asyncio.Event()).set()

    async def news(self, run_id: str, timeout: float) -> None:
        """Wait until something of this run was stored, at most ``timeout`` seconds."""
        try:
            await asyncio.wait_for(self._news[run_id].wait(), timeout)
        except TimeoutError:
            return


def _re_emit(run_id: str, record: ev.LogRecord) -> None:
    """A worker's structured log line in the daemon's log, under its own code where that is known."""
    constant = _CODES.get(record.code, codes.LOG_WORKER_MESSAGE)
    level = logging.getLevelNamesMapping().get(record.level, constant.level)
    log_event(
        logger, constant, level=level, run_id=run_id, worker_code=record.code, said=record.message, detail=record.fields
    )
