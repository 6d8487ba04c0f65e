"""Taking up what an earlier daemon left: queued runs wait again, live ones are re-adopted or closed, none starts
twice."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator, demand_of, handle_of
from gym_gui.services.trainer.runs.run_queue import Demand, Reservation
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from mosaic_protocol.run_config import RunConfigError
from mosaic_protocol.states import RunState

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 1.0


class Recovery:
    """Runs once, before the orchestrator opens."""

    def __init__(self, orchestrator: TrainerOrchestrator) -> None:
        self._orchestrator = orchestrator
        self._to_launch: list[TrackedRun] = []
        self._unsettled: list[TrackedRun] = []
        """Runs whose claim cannot be looked at or revoked now: the disk is full, or their folder refuses."""

    async def run(self) -> None:
        """Live runs first, so that what they hold is taken before anything is started."""
        unfinished = self._orchestrator.registry.unfinished()
        for run in unfinished:
            if run.state is not RunState.INIT:
                await self._take_up(run)
        queued = sorted((run for run in unfinished if run.is_queued), key=lambda run: run.queue_key)
        for run in queued:  # in their order: the first may start before the last is in the line
            self._orchestrator.queue_keys.seen(run.queue_key)
        for run in queued:
            await self._queue_again(run)
        for live in self._to_launch:
            await self._orchestrator.begin_launch(live, _held(live.run))
        for live in self._unsettled:
            self._orchestrator.spawn(self._settle(live))

    async def _queue_again(self, run: RunRecord) -> None:
        """A run that cannot start here any more is kept beside the line, with the reason: the next daemon may see more
        of the machine than this one, and a user who does not want to wait for that can cancel it."""
        live = self._orchestrator.tracked[run.run_id] = TrackedRun(run)
        try:
            config = self._orchestrator.config_of(run)
            refusal = self._orchestrator.queue.refusal(demand_of(config, interactive=run.interactive)) or ""
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
        try:
            if not live.run.locator and await self._never_started(live):
                self._to_launch.append(live)
        except OSError:  # one run must not keep the daemon from all the others
            self._unsettled.append(live)
        if live.run.locator:
            await self._follow(live)

    async def _settle(self, live: TrackedRun) -> None:
        """Try again until the claim says what became of the launch."""
        while not live.run.locator and not live.run.is_over:
            await asyncio.sleep(_SETTLE_SECONDS)
            try:
                launch = await self._never_started(live)
            except OSError as error:
                log_event(logger, codes.LOG_RUN_WAITS, run_id=live.run.run_id, reason=str(error))
                continue
            if launch:
                await self._orchestrator.begin_launch(live, _held(live.run))
                return
        if live.run.locator:
            await self._follow(live)

    async def _never_started(self, live: TrackedRun) -> bool:
        """The launch was recorded; whether it happened is settled by the claim. True when it did not and never will:
        it is to be made again. Otherwise the run is adopted or closed. Raises OSError when the claim cannot be looked
        at."""
        run = live.run
        claimant = await self._orchestrator.executor.revoke(handle_of(run))
        if claimant is None and run.state is not RunState.HSHK:  # it had started; a power cut may empty its claim
            await self._orchestrator.apply_surely(run.run_id, lc.ProcessEnded(None))
        elif claimant is None:
            log_event(logger, codes.LOG_RUN_RELAUNCHED, run_id=run.run_id, attempt=run.attempt + 1)
            return True
        else:
            await self._orchestrator.apply_surely(run.run_id, lc.Launched(claimant.locator, claimant.pid, "adopted"))
        return False

    async def _follow(self, live: TrackedRun) -> None:
        """Watching a process that is gone already reports its end at once."""
        run, alive = live.run, None
        with suppress(OSError):  # for the log alone; whether it lives is what watching finds out
            alive = await self._orchestrator.executor.is_alive(handle_of(run))
        log_event(logger, codes.LOG_RUN_ADOPTED, run_id=run.run_id, pid=run.pid, alive=alive)
        self._orchestrator.resume_stop(live)
        self._orchestrator.follow_process(live)


def _held(run: RunRecord) -> Reservation:
    return run.reservation or Reservation(0, 0, ())
