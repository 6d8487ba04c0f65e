"""The telemetry hub: the one door through which records enter, and the place from which watchers are served.

Records come in from the wire (:meth:`TelemetryHub.publish`) or, for a worker that is gone, from its outbox on disk
(:meth:`TelemetryHub.drain`). Both store first and tell afterwards. Watchers read the store from their own cursor and
are only woken here (those at the same place share the reading, see the module ``watching``); so a slow
watcher costs itself its freshness and nobody else anything.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.trainer.errors import RegistryCorruptError, StorageFullError, WorldError
from gym_gui.services.trainer.telemetry.batches import Batch, Stored
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from mosaic_host.errors import is_shortage
from mosaic_host.executor import OutboxPart
from mosaic_protocol import events as ev
from mosaic_protocol.full_disk import may_pass
from mosaic_protocol.outbox import OutboxPlace
from mosaic_protocol.steps.open_chunk import STREAM

logger = logging.getLogger(__name__)

T = TypeVar("T")
LifecycleListener = Callable[[str, str, ev.RunLifecycleEvent], Awaitable[None]]
"""Hears (run id, stream, record)."""
ProgressListener = Callable[[str, int], None]
"""Hears (run id, step)."""
_CODES = codes.by_code()
_NO_END = 2**63 - 1
_LINES_AHEAD = 100


class Outboxes(Protocol):
    """Where the journals of runs are: a part of :class:`mosaic_host.executor.Executor`."""

    async def streams(self, run_id: str) -> list[str]: ...

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart: ...

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None: ...


@dataclass(frozen=True)
class LivePage:
    """What a live watch is sent at once: ``count`` records from ``first_row`` on to ``last_row``, and how many before
    them it is not sent, be it that nobody has them any more."""

    first_row: int
    last_row: int
    lines: Sequence[bytes] = ()
    count: int = 0
    missed: int = 0


class TelemetryHub:
    """Belongs to the daemon's event loop."""

    def __init__(self, store: TelemetryStore, steps: StepStore) -> None:
        self.store, self.steps = store, steps
        self._on_lifecycle: LifecycleListener | None = None
        self._on_progress: ProgressListener | None = None
        self._news: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reading = ThreadPoolExecutor(1, "telemetry-reader")
        self._unreadable_since: dict[str, float] = {}

    def listen(self, listener: LifecycleListener, progress: ProgressListener | None = None) -> None:
        """Who hears the lifecycle records, each once and after it is stored, and how far runs are by their metrics."""
        self._on_lifecycle, self._on_progress = listener, progress

    async def publish(self, batch: Batch) -> int:
        """Store a batch, pass it on, and return the number up to which the stream is stored. A sender that hangs up
        half-way does not keep what was stored from being passed on."""
        return await asyncio.shield(self._publish(batch))

    async def _publish(self, batch: Batch) -> int:
        stored = await asyncio.wrap_future(self._ingest(batch))
        for record in stored.fresh:
            await self._tell(batch, record)
        steps = [record.step for record in stored.fresh if isinstance(record, ev.MetricRow)]
        if steps and self._on_progress is not None:
            self._on_progress(batch.run_id, max(steps))
        if stored.damaged:
            self._tell_damage(batch.run_id, batch.stream, stored.damaged[0], len(stored.damaged))
        if stored.warning:
            log_event(logger, codes.LOG_STORE_MANY_TAGS, run_id=batch.run_id, reason=stored.warning)
        if stored.fresh:
            self._wake(batch.run_id)
        return stored.acked

    def _ingest(self, batch: Batch) -> Future[Stored]:
        if batch.stream != STREAM:
            return self.store.ingest(batch)
        is_first = self.steps.summaries_before(batch.run_id) is None
        return self.steps.ingest(batch, self.store.last_row(batch.run_id, "episode") if is_first else 0)

    async def read(self, query: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Read something large of the store in the one thread for that: exports of millions of points wait for each
        other, and never keep a thread from what ends a run."""
        return await asyncio.get_running_loop().run_in_executor(
            self._reading, functools.partial(query, *arguments, **options)
        )

    def records(self, run_id: str, kind: str, after_row: int, before: int = _NO_END) -> list[tuple[int, bytes]]:
        """(row, line) of records of one kind after a row, as many as fit into one message. Steps come as chunks, whose
        rows count steps; the last may go beyond ``before``. Blocks; for :meth:`read`."""
        if kind == "step":
            return self.steps.chunks_after(run_id, after_row, before)
        return self._episodes(run_id, after_row) if kind == "episode" else self.store.records(run_id, kind, after_row)

    def _episodes(self, run_id: str, after_row: int) -> list[tuple[int, bytes]]:
        """Episodes of recorded steps; before them, and where there are no steps, what the worker itself told of its
        episodes. A worker that sends both says the same of each twice from its first chunk on: its steps count."""
        summaries = self.steps.summaries_before(run_id)
        if summaries is None or after_row < summaries:
            told = self.store.records(run_id, "episode", after_row)
            if found := [(row, line) for row, line in told if summaries is None or row <= summaries]:
                return found
        return [(row, ev.encode(episode)) for row, episode in self.steps.episodes(run_id, after_row)]

    def _episodes_between(self, run_id: str, after_row: int, to_row: int) -> int:
        """How many episodes have a row after one and up to another."""
        summaries = self.steps.summaries_before(run_id)
        told = to_row if summaries is None else min(to_row, summaries)  # these rows have no holes
        return max(0, told - after_row) + self.steps.count_episodes(run_id, after_row, to_row)

    def next_records(self, run_id: str, kind: str, row: int, most: int) -> LivePage:
        """The first records of steps or episodes after a row, wherever they begin: as many as fit into one message, and
        of steps no more than a chunk beyond ``most``. No page goes over steps that the store does not have. Blocks."""
        if kind == "step":
            return _page_of_steps(row, self.steps.neighbours_after(run_id, row, most))
        rows = self.records(run_id, kind, row)[:most]
        return LivePage(row, rows[-1][0] if rows else row, [line for _, line in rows], len(rows))

    def newest_records(self, run_id: str, kind: str, row: int) -> LivePage:
        """The newest records of steps or episodes after a row, and how many were left out for them. Blocks."""
        if kind == "step":
            chunk = self.steps.newest_chunk(run_id)
            return _page_of_steps(row, [chunk] if chunk is not None and chunk[1] > row else [])
        begin = max(row, self.row_before_last(run_id, kind, 1))
        rows = self.records(run_id, kind, begin)
        last_row = rows[-1][0] if rows else row
        missed = self._episodes_between(run_id, row, begin) if rows else 0
        return LivePage(begin, last_row, [line for _, line in rows], len(rows), missed)

    def missing_end(self, run_id: str, kind: str, row: int) -> LivePage:
        """Of a run that is over and whose records after this row there are none: how many steps it had more. Blocks."""
        end = max(row, self.steps.totals(run_id).steps) if kind == "step" else row
        return LivePage(end, end, missed=end - row)

    def row_before_last(self, run_id: str, kind: str, count: int) -> int:
        """After which row the last so many records begin."""
        if kind == "step":
            totals = self.steps.totals(run_id)
            return max(0, totals.steps - totals.claimed - count)
        summaries = self.steps.summaries_before(run_id) if kind == "episode" else None
        if summaries is None:
            return max(0, self.store.last_row(run_id, kind) - count)
        row = self.steps.episode_row_before_last(run_id, count)
        return row if row is not None else max(0, summaries - count + self.steps.count_episodes(run_id, 0))

    def close(self) -> None:
        """Wait for the read under way; those that wait for it are given up."""
        self._reading.shutdown(cancel_futures=True)

    async def drain(
        self, run_id: str, outboxes: Outboxes, *, begun: bool = False, patience: float = 0.0
    ) -> OSError | None:
        """Take over what a dead worker left in its outbox. Damage is logged and left where it is; the rest is kept.
        What nobody thought of is damage of its stream, because a run has to end whatever its worker wrote.
        Raises OSError when the machine is short of something, with nothing lost: it may be repeated. The folder of a
        run that has ``begun`` is there, or away for a while: within the ``patience`` that is raised as well, after it
        the error is returned, and the journal is not read to its end."""
        unread: OSError | None = None
        streams: list[str] = []
        try:
            streams = await outboxes.streams(run_id)
            await asyncio.to_thread(self._require_known, run_id, streams)
        except Exception as error:  # noqa: BLE001 - judged
            if begun or not isinstance(error, FileNotFoundError):
                unread = self._judge(error, run_id, "", patience)
        for stream in streams:
            try:
                await self._drain_stream(run_id, outboxes, stream)
            except Exception as error:  # noqa: BLE001 - judged
                unread = self._judge(error, run_id, stream, patience) or unread
        self._unreadable_since.pop(run_id, None)
        return unread

    def _judge(self, error: Exception, run_id: str, stream: str, patience: float) -> OSError | None:
        """Damage is logged, and the run ends all the same; so is what nobody thought of, which would keep the run from
        its end for ever if it were repeated. A folder that cannot be read now is given time: its volume may come back.
        A host that cannot be reached says nothing about its journals, nor does a machine that is short of something."""
        is_damage = isinstance(error, OSError | RegistryCorruptError)
        if isinstance(error, OSError) and may_pass(error):
            since = self._unreadable_since.setdefault(run_id, time.monotonic())
            if time.monotonic() - since >= patience:
                return error
            raise error
        if isinstance(error, ConnectionError) or is_shortage(error):
            raise error
        if isinstance(error, WorldError) and not is_damage:
            raise error
        if not is_damage:
            log_bug(error, run_id=run_id, stream=stream)
        self._tell_damage(run_id, stream, str(error) if is_damage else f"{type(error).__name__}: {error}", 1)
        return None

    def _require_known(self, run_id: str, found: list[str]) -> None:
        """A stream keeps its last segment for ever: an outbox without a stream that the stores know is not the one that
        its worker wrote, but perhaps the empty folder where its volume is mounted."""
        known = {*self.store.streams(run_id), *self.steps.streams(run_id)}
        if absent := sorted(known.difference(found)):
            raise FileNotFoundError(errno.ENOENT, f"its outbox holds no journal of {' and '.join(absent)}")

    def stored_lifecycle(self, run_id: str) -> list[tuple[str, ev.RunLifecycleEvent]]:
        """(stream, record) of a run's lifecycle records. A damaged store tells nothing, and takes no run with it."""
        try:
            return self.store.lifecycle(run_id)
        except RegistryCorruptError as error:
            self._tell_damage(run_id, "", str(error), 1)
            return []

    def missing(self, run_id: str, journalled: Mapping[str, int]) -> int:
        """How many records are not stored of those that a worker said it has, by stream the number of the newest."""
        try:
            return sum(max(0, seq - self._store_of(stream).acked(run_id, stream)) for stream, seq in journalled.items())
        except RegistryCorruptError:
            return 0

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

    def _store_of(self, stream: str) -> TelemetryStore | StepStore:
        return self.steps if stream == STREAM else self.store

    async def _drain_stream(self, run_id: str, outboxes: Outboxes, stream: str) -> None:
        acked = await asyncio.to_thread(self._store_of(stream).acked, run_id, stream)
        part = await outboxes.read_outbox(run_id, stream, acked, None)
        while part.lines:
            following = await outboxes.read_outbox(run_id, stream, acked, part.place)
            ahead = following.lines[:_LINES_AHEAD]
            batch = Batch(run_id, stream, part.first_seq, part.lines, part.oldest_seq, salvage=True, ahead=ahead)
            await self._publish_patiently(batch)
            part = following
        await self._drain_open_chunk(run_id, outboxes, stream)

    async def _drain_open_chunk(self, run_id: str, outboxes: Outboxes, stream: str) -> None:
        """The steps that the worker had recorded and not yet journalled."""
        line = await outboxes.read_open_chunk(run_id, stream) if stream == STREAM else None
        if line is not None:
            number = ev.decode(line).seq
            await self._publish_patiently(Batch(run_id, stream, number, [line], salvage=True))

    async def _publish_patiently(self, batch: Batch) -> None:
        """On a full disk in halves: the space that the store holds for this is small."""
        while True:
            try:
                await self.publish(batch)
            except RegistryCorruptError:
                raise
            except WorldError as error:
                log_event(logger, codes.LOG_STORE_FULL, run_id=batch.run_id, reason=str(error))
                if isinstance(error, StorageFullError) and len(batch.lines) > 1:
                    first, batch = _halves(batch)
                    await self._publish_patiently(first)
                else:
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

    def news(self, run_id: str) -> asyncio.Event:
        """Is set when something more of this run is stored. Take it before reading, and nothing is missed."""
        return self._news[run_id]


def _page_of_steps(row: int, chunks: Sequence[tuple[int, int, bytes]]) -> LivePage:
    """Of chunks that follow each other."""
    if not chunks:
        return LivePage(row, row)
    first, last = max(row, chunks[0][0]), chunks[-1][1]
    return LivePage(first, last, [line for _, _, line in chunks], last - first, first - row)


def _halves(batch: Batch) -> tuple[Batch, Batch]:
    middle = len(batch.lines) // 2
    return (
        replace(batch, lines=batch.lines[:middle], ahead=batch.lines[middle : middle + _LINES_AHEAD]),
        replace(batch, first_seq=batch.first_seq + middle, lines=batch.lines[middle:]),
    )


def _re_emit(run_id: str, record: ev.LogRecord) -> None:
    """A worker's structured log line in the daemon's log, under its own code where that is known."""
    constant = _CODES.get(record.code, codes.LOG_WORKER_MESSAGE)
    level = logging.getLevelNamesMapping().get(record.level, constant.level)
    log_event(
        logger, constant, level=level, run_id=run_id, worker_code=record.code, said=record.message, detail=record.fields
    )
