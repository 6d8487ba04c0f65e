"""Keeping the step store small: what a run shall not keep is removed while it goes on, and what is left of it is
compacted when it is over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.telemetry.step_store import StepStore
from mosaic_protocol import events as ev
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.merging import MOST_STEPS, may_merge, merged

logger = logging.getLogger(__name__)

_LOOKED_AT = 5_000
_WAIT_SECONDS = 5.0


class StepUpkeep:
    """Belongs to the daemon's event loop. May be cancelled or killed at any moment: every change is a transaction that
    leaves each step where it was, once, and the next daemon goes on with what was not finished."""

    def __init__(self, store: StepStore, kept_of: Callable[[str], int | None]) -> None:
        """``kept_of`` says how many steps a run keeps that is over, 0 for all; None for one that is not."""
        self._store, self._kept_of = store, kept_of
        self._ended: asyncio.Queue[str] = asyncio.Queue()

    async def trim(self, run_id: str, keep_steps: int) -> None:
        """Remove the oldest steps of a run; 0 keeps all. The last so many stay, and what shares a chunk with them."""
        if keep_steps:
            while await asyncio.wrap_future(self._store.trim(run_id, keep_steps)):
                pass

    def run_ended(self, run_id: str) -> None:
        """Its journal is read to the end: nothing more comes."""
        self._ended.put_nowait(run_id)

    async def run(self) -> None:
        """For ever. Runs whose daemon died before it got to them come first. Whatever is wrong with one run costs that
        run its upkeep until the next daemon, and no other run anything."""
        await self._patiently("", self._remember)
        while True:
            run_id = await self._ended.get()
            await self._patiently(run_id, partial(self._keep_up, run_id))

    async def _remember(self) -> None:
        for run_id in await asyncio.to_thread(self._store.not_compacted):
            self._ended.put_nowait(run_id)

    async def _keep_up(self, run_id: str) -> None:
        if (keep_steps := self._kept_of(run_id)) is None:
            return
        await self.trim(run_id, keep_steps)
        await self.compact(run_id)
        while await asyncio.wrap_future(self._store.give_back()):
            pass

    async def _patiently(self, run_id: str, work: Callable[[], Awaitable[None]]) -> None:
        """It can wait for disk space: nobody misses anything meanwhile."""
        told = ""
        while True:
            try:
                await work()
            except WorldError as error:
                if str(error) != told:
                    told = str(error)
                    log_event(logger, codes.LOG_STORE_UPKEEP, run_id=run_id, reason=told)
                await asyncio.sleep(_WAIT_SECONDS)
            except Exception as error:  # noqa: BLE001 - a bug met in one run must not end the upkeep of all
                log_bug(error, run_id=run_id)
                reason = f"{type(error).__name__}: {error}"
                log_event(logger, codes.LOG_STORE_UPKEEP_FAILED, run_id=run_id, reason=reason)
                return
            else:
                return

    async def compact(self, run_id: str) -> None:
        """Make full chunks of small ones. Reading and merging is done beside the event loop, with as much rest as work,
        and what is damaged stays as it is."""
        first_step = 0
        while sizes := await asyncio.to_thread(self._store.chunk_sizes, run_id, first_step, _LOOKED_AT):
            for ids in _small_neighbours(sizes):
                began = time.monotonic()
                for old, record in await asyncio.to_thread(self._merged, ids):
                    await asyncio.wrap_future(self._store.replace(run_id, old, [record]))
                await asyncio.sleep(time.monotonic() - began)
            first_step = sizes[-1][1] + 1
        await asyncio.wrap_future(self._store.mark_compacted(run_id))

    def _merged(self, ids: Sequence[int]) -> list[tuple[list[int], ev.StepChunk]]:
        """(ids of chunks, the one to put in their place) of those that can be merged."""
        found = []
        for group in _alike(self._store.chunks(ids, bodies=False)):
            records = [record for _, record in self._store.chunks(group)]
            if len(records) < len(group):  # the run was deleted meanwhile
                continue
            try:
                record = merged(records)
            except ChunkError as error:
                log_event(logger, codes.LOG_STORE_BAD_JOURNAL, stream="steps", reason=str(error), places=1)
                continue
            if record is not None:
                found.append((group, record))
        return found


def _small_neighbours(sizes: Sequence[tuple[int, int, int]]) -> Iterator[list[int]]:
    """Ids of chunks that follow each other and together fit into one, by their steps."""
    group: list[int] = []
    total, following = 0, -1
    for number, first_step, count in [*sizes, (0, -2, MOST_STEPS)]:
        if first_step != following or total + count > MOST_STEPS:
            if len(group) > 1:
                yield group
            group, total = [], 0
        group.append(number)
        total += count
        following = first_step + count


def _alike(candidates: Sequence[tuple[int, ev.StepChunk]]) -> Iterator[list[int]]:
    """Ids of those that may become one chunk: with the same columns, and not too large together."""
    group: list[tuple[int, ev.StepChunk]] = []
    for number, record in candidates:
        count, size = sum(one.count for _, one in group), sum(one.raw_bytes for _, one in group)
        if group and not may_merge(group[0][1], count, size, record):
            if len(group) > 1:
                yield [one for one, _ in group]
            group = []
        group.append((number, record))
    if len(group) > 1:
        yield [one for one, _ in group]
