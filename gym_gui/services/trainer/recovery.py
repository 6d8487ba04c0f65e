"""Taking up what an earlier daemon left: queued runs wait again, live ones are re-adopted or closed, none starts
twice."""

from __future__ import annotations

import asyncio
import logging

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer import lifecycle as lc
from gym_gui.services.trainer.orchestrator import TrainerOrchestrator, demand_of
from gym_gui.services.trainer.run_queue import Demand, Reservation
from gym_gui.services.trainer.run_record import RunRecord
from gym_gui.services.trainer.tracked_run import TrackedRun
from mosaic_protocol import claims
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.run_config import RunConfigError
from mosaic_protocol.states import RunState

logger = logging.getLogger(__name__)


class Recovery:
    """Runs once, before the orchestrator opens."""

    def __init__(self, orchestrator: TrainerOrchestrator) -> None:
        self._orchestrator = orchestrator
        self._to_launch: list[TrackedRun] = []

    async def run(self) -> None:
        """Live runs first, so that what they hold is taken before anything is started."""
        unfinished = self._orchestrator.registry.unfinished()
        for run in unfinished:
            if run.state is not RunState.INIT:
                await self._take_up(run)
        for run in unfinished:
            if run.state is RunState.INIT:
                await self._queue_again(run)
        for live in self._to_launch:
            await self._orchestrator.begin_launch(live, _held(live.run))

    async def _queue_again(self, run: RunRecord) -> None:
        """A run that cannot start here any more is kept beside the line, with the reason: the next daemon may see more
        of the machine than this one, and whoever does not want to wait for that can cancel it."""
        live = self._orchestrator.tracked[run.run_id] = TrackedRun(run)
        try:
            config = self._orchestrator.config_of(run)
            refusal = self._orchestrator.queue.refusal(demand_of(config)) or ""
        except RunConfigError as error:  # accepted by an older version
            refusal = str(error)
        await self._orchestrator.apply_surely(run.run_id, lc.Waiting(refusal))
        if not refusal:
            self._orchestrator.enqueue(live, config)

    async def _take_up(self, run: RunRecord) -> None:
        step = max(run.last_step, self._orchestrator.hub.newest_step(run.run_id))
        live = self._orchestrator.tracked[run.run_id] = TrackedRun(run, step=step)
        held = _held(run)
        self._orchestrator.queue.restore(run.run_id, Demand(held.cpus, len(held.gpu_indices), held.memory_mb), held)
        await self._orchestrator.hear_again(run.run_id)
        if live.run.process is None:
            await self._find_process(live)
        if live.run.process is not None:
            self._follow(live, live.run.process)

    async def _find_process(self, live: TrackedRun) -> None:
        """The launch was recorded; whether it happened is settled by the claim."""
        run = live.run
        folder = self._orchestrator.paths.run(run.run_id).claims
        claimant = await asyncio.to_thread(claims.revoke, folder, run.attempt)
        if claimant is None and run.state is not RunState.HSHK:  # it had started; a power cut may empty its claim
            await self._orchestrator.apply_surely(run.run_id, lc.ProcessEnded(None))
        elif claimant is None:
            log_event(logger, codes.LOG_RUN_RELAUNCHED, run_id=run.run_id, attempt=run.attempt + 1)
            self._to_launch.append(live)
        else:
            await self._orchestrator.apply_surely(run.run_id, lc.Launched(claimant, "adopted"))

    def _follow(self, live: TrackedRun, process: ProcessIdentity) -> None:
        """Watching a process that is gone already reports its end at once."""
        alive = process.is_alive()
        log_event(logger, codes.LOG_RUN_ADOPTED, run_id=live.run.run_id, pid=process.pid, alive=alive)
        self._orchestrator.resume_stop(live)
        self._orchestrator.follow_process(live)


def _held(run: RunRecord) -> Reservation:
    return run.reservation or Reservation(0, 0, ())
