"""Who is late? Pure rules over monotonic times; liveness and progress are judged apart.

Liveness: a live worker reports every few seconds whatever its script does; silence means it hangs or is stopped.
Progress: the step counter may rightly stand still for long (a slow environment, an evaluation), so it counts only where
the run config sets ``schedule.max_stall_minutes``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from gym_gui.services.trainer.runs.lifecycle import KillDue, LifecycleEvent, TimedOut, Unresponsive
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from gym_gui.services.trainer.settings import TrainerSettings
from mosaic_protocol.process_identity import boot_id
from mosaic_protocol.run_config import Schedule
from mosaic_protocol.states import Desired, RunState

_REMOTE_LIVENESS = 30.0
"""The least silence of a worker on another host that means something: a cut is noticed, and the way made again, within
a part of it."""


@dataclass(frozen=True)
class Moment:
    """Now, by the clock that nobody can set."""

    monotonic: float
    boot: str

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), boot_id())


def overdue(live: TrackedRun, schedule: Schedule, settings: TrainerSettings, now: Moment) -> LifecycleEvent | None:
    """The event that a run's lateness amounts to, None when it is not late."""
    if live.kill_at is not None:
        on_its_way = not live.run.locator  # there is nothing to kill yet
        return KillDue() if now.monotonic >= live.kill_at and not on_its_way else None
    return _silent(live, settings, now) or _over_time(live, schedule, now) or _stalled(live, schedule, now)


def _silent(live: TrackedRun, settings: TrainerSettings, now: Moment) -> LifecycleEvent | None:
    silence = now.monotonic - live.beat_at
    if live.run.state is RunState.HSHK:
        if live.run.locator and silence > settings.handshake_seconds:
            return Unresponsive(f"the worker did not register within {settings.handshake_seconds:g} s")
        return None
    patience = max(settings.liveness_seconds, _REMOTE_LIVENESS if live.run.host else 0.0)
    if silence > patience:
        return Unresponsive(f"the worker stopped answering: no heartbeat for {patience:g} s; it was ended")
    return None


def _over_time(live: TrackedRun, schedule: Schedule, now: Moment) -> LifecycleEvent | None:
    minutes = schedule.max_wallclock_minutes
    if minutes is None or live.run.active.total(now.monotonic, now.boot) <= minutes * 60:
        return None
    return TimedOut(f"reached its limit of {minutes:g} minutes (schedule.max_wallclock_minutes)")


def _stalled(live: TrackedRun, schedule: Schedule, now: Moment) -> LifecycleEvent | None:
    minutes = schedule.max_stall_minutes
    expected = live.run.state is RunState.EXEC and live.run.desired is Desired.RUN
    if minutes is None or not expected or now.monotonic - live.progress_at <= minutes * 60:
        return None
    return TimedOut(f"made no progress for {minutes:g} minutes (schedule.max_stall_minutes), last at step {live.step}")
