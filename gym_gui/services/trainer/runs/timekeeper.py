"""The clock: looks at every live run a few times a second and reports who is late."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.trainer.runs.lifecycle import HostAway, HostLost, LifecycleEvent, Unresponsive
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator, handle_of
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from gym_gui.services.trainer.runs.watchdog import Moment, overdue
from mosaic_protocol.states import LIVE_STATES, RunState

logger = logging.getLogger(__name__)

_TICK = 0.25
_IDLE_TICK = 1.0
_TOLD_AFTER = 3.0
"""A host that is away for less is not worth a line in the history."""
_HELD_STILL = 0.25
"""A tick that comes so much too late means that the daemon itself was held still."""


class Timekeeper:
    """Belongs to the daemon's event loop; :meth:`run` goes on until cancelled."""

    def __init__(self, orchestrator: TrainerOrchestrator, can_be_reached: Callable[[], bool]) -> None:
        """``can_be_reached``: whether workers find the daemon's socket in this moment."""
        self._orchestrator, self._can_be_reached = orchestrator, can_be_reached

    async def run(self) -> None:
        last = time.monotonic()
        while True:
            tick = _TICK if self._orchestrator.tracked else _IDLE_TICK
            await asyncio.sleep(tick)
            now = time.monotonic()
            late, last = now - last - tick, now
            if late > _HELD_STILL:
                self._forgive(late)
            await self._judge_all(Moment.now(), tick)

    def _forgive(self, seconds: float) -> None:
        if seconds > 1.0:
            log_event(logger, codes.LOG_TRAINER_SLEPT, seconds=round(seconds, 1))
        for live in self._orchestrator.tracked.values():
            live.forgive(seconds)

    async def _judge_all(self, now: Moment, passed: float) -> None:
        for live in list(self._orchestrator.tracked.values()):
            try:
                if not await self._is_away(live, now, passed):
                    await self._judge(live, now)
            except Exception as error:  # noqa: BLE001 - a bug that shows in one run must not leave the others unwatched
                log_bug(error)

    async def _is_away(self, live: TrackedRun, now: Moment, passed: float) -> bool:
        """Whether the host of a run cannot be reached: then no deadline of the run moves on, but that of the host."""
        run = live.run
        if not run.host or live.clearing or run.state not in LIVE_STATES:
            return False
        why = self._orchestrator.executor.why_away(run.run_id)
        if not why:
            live.away_since = None
            if run.away:
                await self._orchestrator.apply_surely(run.run_id, HostAway(""))
            return False
        live.forgive(passed)
        live.away_since = now.monotonic if live.away_since is None else live.away_since
        away = now.monotonic - live.away_since
        if away > _TOLD_AFTER and not run.away:
            await self._orchestrator.apply_surely(run.run_id, HostAway(why))
        if away > self._orchestrator.settings.host_hours * 3600:
            hours = f"{self._orchestrator.settings.host_hours:g} hours"
            self._orchestrator.executor.give_up(run.run_id)
            await self._orchestrator.apply_surely(run.run_id, HostLost(f"its host was away for {hours}: {why}"))
        return True

    async def _judge(self, live: TrackedRun, now: Moment) -> None:
        if live.clearing or live.run.state not in LIVE_STATES:
            return
        if live.nudge_at is not None and now.monotonic >= live.nudge_at and live.run.locator:
            live.nudge_at = None
            await self._orchestrator.executor.ask_to_stop(handle_of(live.run))
        live.hindered = live.hindered or (live.run.state is RunState.HSHK and self._orchestrator.disk.is_full())
        event = overdue(live, self._orchestrator.schedule_of(live.run), self._orchestrator.settings, now)
        if event is not None and not await self._excused(live, event):
            await self._orchestrator.apply_surely(live.run.run_id, event)

    async def _excused(self, live: TrackedRun, event: LifecycleEvent) -> bool:
        """No worker is heard while nobody can reach the socket; one that is on its way waits for disk space, or for its
        folder, without a word."""
        if not isinstance(event, Unresponsive):
            return False
        hindered = not await asyncio.to_thread(self._can_be_reached)
        if not hindered and live.run.state is RunState.HSHK:
            hindered = await self._is_hindered(live)
        if hindered:
            live.seen()
        return hindered

    async def _is_hindered(self, live: TrackedRun) -> bool:
        try:
            return bool(await self._orchestrator.executor.hindrance(live.run.run_id))
        except ConnectionError:  # its host was lost in this moment
            return True
