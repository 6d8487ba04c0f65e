"""Runs that were made elsewhere: accepted as over, and given their numbers, batch by batch.

The way of every record is the way of these: a stream for each file, stored with its cursor in one commit. So an import
that was cut short goes on where it stopped, and one that is repeated adds what is new and nothing twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from ulid import ULID

from gym_gui.services.run_labels import config_of, labels_in
from gym_gui.services.trainer.errors import RefusedError, WrongStateError
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.telemetry.batches import Batch
from mosaic_protocol import events as ev
from mosaic_protocol.imported_runs import IMPORTED, STREAM_PREFIX, source_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.run_config import RunConfig, parse_run_config, to_json
from mosaic_protocol.states import Outcome, RunState

_LONGEST_STREAM = 300


@dataclass
class _Span:
    """What the numbers of an import cover."""

    points: int = 0
    step: int = 0
    began: float = 0.0
    ended: float = 0.0

    def add(self, row: ev.MetricRow) -> None:
        self.points += 1
        self.step = max(self.step, row.step)
        if row.t > 0:
            self.began = min(self.began or row.t, row.t)
            self.ended = max(self.ended, row.t)


class RunImports:
    """Belongs to the daemon's event loop."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion) -> None:
        self._orchestrator, self._deletion = orchestrator, deletion

    async def accept(self, config_json: str, request_id: str, *, name_is_default: bool) -> tuple[RunRecord, bool]:
        """Store a run that is over. True when it was stored before. Raises what a submitted run config raises."""
        config = await asyncio.to_thread(parse_run_config, config_json)
        if config.worker.type != IMPORTED:
            raise RefusedError(f"an imported run has the worker type {IMPORTED!r}, not {config.worker.type!r}")
        note = lc.Transition(RunState.INIT, RunState.TERM, "Imported", config.run_name)
        stored = self._orchestrator.registry.insert(
            _record_of(config), request_id, name_is_default=name_is_default, accepted=note
        )
        run, known = await asyncio.wrap_future(stored)
        self._orchestrator.announce()
        return run, known

    async def take(self, run: RunRecord, batches: AsyncIterator[pb.RecordBatch]) -> AsyncGenerator[pb.RecordAck, None]:
        """Store batches of one run, and acknowledge each. The run is not deleted meanwhile."""
        if run.worker_type != IMPORTED:
            raise WrongStateError(f"run {run.short} was not imported: only its worker sends its numbers")
        if run.deleted_at:
            raise WrongStateError(f"run {run.short} is in the trash: `mosaic restore` brings it back first")
        span = _Span()
        with self._deletion.held(run, "imported into"):
            try:
                async for batch in batches:
                    acked = await self._orchestrator.hub.publish(_checked(run, batch, span))
                    yield pb.RecordAck(stream=batch.stream, acked_seq=acked)
            finally:  # also when the client is gone: what is stored counts
                if span.points:
                    found = lc.RecordsImported(span.points, span.step, span.began, span.ended)
                    await self._orchestrator.apply(run.run_id, found)


def _checked(run: RunRecord, batch: pb.RecordBatch, span: _Span) -> Batch:
    if batch.run_id != run.run_id:
        raise RefusedError("one call imports one run")
    if not batch.stream.startswith(STREAM_PREFIX) or len(batch.stream) > _LONGEST_STREAM:
        raise RefusedError(f"a stream of imported numbers is called {STREAM_PREFIX}NAME")
    for line in batch.lines:
        record = ev.decode(line)
        if not isinstance(record, ev.MetricRow):
            raise RefusedError("an import takes metrics only")
        span.add(record)
    return Batch(run.run_id, batch.stream, int(batch.first_seq), list(batch.lines))


def _record_of(config: RunConfig) -> RunRecord:
    text = to_json(config)
    return RunRecord(
        run_id=str(ULID()),
        name=config.run_name,
        worker_type=IMPORTED,
        config_json=text,
        labels=labels_in(config_of(text)),
        created_at=time.time(),
        algo=config.algo or "",
        env_id=config.env_id or "",
        total_steps=max(0, config.total_timesteps or 0),
        state=RunState.TERM,
        outcome=Outcome.COMPLETED,
        reason=f"imported from {source_of(config.worker.config) or 'elsewhere'}; how it ended is not known",
    )
