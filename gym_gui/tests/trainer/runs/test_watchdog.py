"""Who is late: liveness, progress, wall clock and kill deadline are judged apart, by clocks nobody can set."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.rpc import tokens
from gym_gui.services.trainer.runs.lifecycle import KillDue, LifecycleEvent, TimedOut, Unresponsive
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_queue import RunQueue
from gym_gui.services.trainer.runs.run_record import ActiveClock, RunRecord
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from gym_gui.services.trainer.runs.watchdog import Moment, overdue
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.hub import TelemetryHub
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.support.run_records import live_record
from mosaic_host.capacity import HostCapacity
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import Schedule
from mosaic_protocol.states import LIVE_STATES, Desired, RunState

NOW = 100_000.0
BOOT = "this boot"
SETTINGS = TrainerSettings(liveness_seconds=30.0, handshake_seconds=60.0)
ANY_TIME = Schedule()


def tracked(state: RunState = RunState.EXEC, *, silent: float = 0.0, stalled: float = 0.0, **more: Any) -> TrackedRun:
    """A run whose last beat and last progress are so many seconds ago."""
    clocks = {key: more.pop(key) for key in ("kill_at", "step") if key in more}
    return TrackedRun(live_record(state=state, **more), beat_at=NOW - silent, progress_at=NOW - stalled, **clocks)


def judge(live: TrackedRun, schedule: Schedule = ANY_TIME, at: float = NOW) -> object:
    return overdue(live, schedule, SETTINGS, Moment(at, BOOT))


def running_for(seconds: float, boot: str = BOOT) -> ActiveClock:
    return ActiveClock(0.0, NOW - seconds, boot)


@pytest.mark.parametrize("state", sorted(LIVE_STATES))
def test_a_worker_that_just_reported_is_not_late(state: RunState) -> None:
    assert judge(tracked(state)) is None


# ---- liveness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [RunState.RDY, RunState.EXEC, RunState.PAUSE])
def test_a_silent_worker_is_taken_for_hung(state: RunState) -> None:
    assert judge(tracked(state, silent=29.0)) is None
    event = judge(tracked(state, silent=31.0))
    assert isinstance(event, Unresponsive)
    assert "30 s" in event.sentence


def test_a_worker_has_longer_until_its_handshake() -> None:
    assert judge(tracked(RunState.HSHK, silent=59.0)) is None
    event = judge(tracked(RunState.HSHK, silent=61.0))
    assert isinstance(event, Unresponsive)
    assert "register" in event.sentence


async def test_a_worker_that_took_long_is_not_late_in_the_moment_of_its_handshake(tmp_path: Path) -> None:
    """The clock may look at any time, also between the run's move to RDY and the answer to its worker."""
    nobody: Any = None
    with (
        closing(RunRegistry(tmp_path / "registry.sqlite")) as registry,
        closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as store,
        closing(StepStore(tmp_path / "steps.sqlite")) as steps,
    ):
        orchestrator = TrainerOrchestrator(
            MosaicPaths(tmp_path),
            SETTINGS,
            registry,
            TelemetryHub(store, steps),
            RunQueue(HostCapacity(1, 1)),
            nobody,
            nobody,
        )
        record = live_record(state=RunState.HSHK, launch_token_hash=tokens.digest("launch"))
        run, _ = registry.insert(record, "").result(30)
        live = orchestrator.tracked[run.run_id] = TrackedRun(run, beat_at=time.monotonic() - 40.0)
        judged: list[tuple[RunState, object]] = []
        apply = orchestrator.apply

        async def apply_and_judge(run_id: str, event: LifecycleEvent) -> RunRecord:
            applied = await apply(run_id, event)
            judged.append((live.run.state, overdue(live, ANY_TIME, SETTINGS, Moment(time.monotonic(), BOOT))))
            return applied

        orchestrator.apply = apply_and_judge  # type: ignore[method-assign]
        await orchestrator.register(run.run_id, "launch", "{}", "")
    assert judged == [(RunState.RDY, None)]


def test_a_launch_that_is_still_being_prepared_is_not_the_workers_silence() -> None:
    """An environment may be installed before there is any process."""
    assert judge(tracked(RunState.HSHK, silent=3600.0, locator="", pid=0)) is None


# ---- progress ------------------------------------------------------------------------------------


def test_a_step_that_stands_still_is_no_fault_by_itself() -> None:
    assert judge(tracked(stalled=10**6)) is None


def test_a_run_with_a_stall_limit_is_ended_and_says_where_it_stood() -> None:
    schedule = Schedule(max_stall_minutes=2)
    assert judge(tracked(stalled=119.0), schedule) is None
    event = judge(tracked(stalled=121.0, step=77), schedule)
    assert isinstance(event, TimedOut)
    assert "2 minutes" in event.sentence
    assert "step 77" in event.sentence


@pytest.mark.parametrize("state", [RunState.HSHK, RunState.RDY, RunState.PAUSE])
def test_a_run_that_is_not_training_cannot_stall(state: RunState) -> None:
    assert judge(tracked(state, stalled=10**6), Schedule(max_stall_minutes=1)) is None


def test_a_run_that_is_asked_to_pause_cannot_stall() -> None:
    assert judge(tracked(stalled=10**6, desired=Desired.PAUSE), Schedule(max_stall_minutes=1)) is None


# ---- wall clock ----------------------------------------------------------------------------------


def test_a_run_over_its_time_is_ended() -> None:
    schedule = Schedule(max_wallclock_minutes=10)
    assert judge(tracked(active=running_for(599)), schedule) is None
    event = judge(tracked(active=running_for(601)), schedule)
    assert isinstance(event, TimedOut)
    assert "10 minutes" in event.sentence


def test_time_before_a_pause_counts_and_the_pause_does_not() -> None:
    paused = tracked(RunState.PAUSE, active=ActiveClock(599.0))
    assert judge(paused, Schedule(max_wallclock_minutes=10), at=NOW) is None
    resumed = tracked(active=ActiveClock(599.0, NOW - 2, BOOT))
    assert isinstance(judge(resumed, Schedule(max_wallclock_minutes=10)), TimedOut)


def test_a_clock_of_another_boot_is_not_read() -> None:
    assert judge(tracked(active=running_for(10**6, boot="another")), Schedule(max_wallclock_minutes=10)) is None


def test_a_run_without_a_limit_may_go_on() -> None:
    assert judge(tracked(active=running_for(10**7))) is None


# ---- the kill deadline ---------------------------------------------------------------------------


def test_a_stopping_run_is_killed_at_its_deadline_and_judged_by_nothing_else() -> None:
    late_in_every_way: dict[str, Any] = {"silent": 10**6, "stalled": 10**6, "active": running_for(10**6)}
    schedule = Schedule(max_wallclock_minutes=1, max_stall_minutes=1)
    assert judge(tracked(kill_at=NOW + 1, **late_in_every_way), schedule) is None
    assert judge(tracked(kill_at=NOW, **late_in_every_way), schedule) == KillDue()


def test_a_kill_that_is_under_way_is_not_ordered_again() -> None:
    assert judge(tracked(kill_at=float("inf"), silent=10**6)) is None


# ---- beats ---------------------------------------------------------------------------------------


def test_a_beat_is_life_and_only_a_moved_step_is_progress() -> None:
    live = TrackedRun(live_record(), beat_at=0.0, progress_at=0.0, step=5, phase="training")
    live.beat(5, 100, "training")
    assert live.beat_at > 0
    assert live.progress_at == 0
    live.beat(6, 0, "training")
    assert live.progress_at > 0
    assert (live.step, live.total_steps) == (6, 100)


def test_a_new_phase_is_progress() -> None:
    live = TrackedRun(live_record(), progress_at=0.0, step=5, phase="starting")
    live.beat(5, 100, "training")
    assert live.progress_at > 0


def test_any_word_is_a_sign_of_life() -> None:
    live = TrackedRun(live_record(), beat_at=0.0)
    live.seen()
    assert live.beat_at > 0


# ---- the daemon slept ----------------------------------------------------------------------------


def test_after_the_daemon_slept_nobody_is_late_because_of_that() -> None:
    now = time.monotonic()
    live = TrackedRun(live_record(state=RunState.EXEC), beat_at=now - 61, progress_at=now - 121, kill_at=None)
    schedule = Schedule(max_stall_minutes=2)
    assert isinstance(overdue(live, schedule, SETTINGS, Moment(now, BOOT)), Unresponsive)
    live.forgive(60.0)
    assert overdue(live, schedule, SETTINGS, Moment(now, BOOT)) is None


def test_sleep_does_not_excuse_the_silence_before_it() -> None:
    now = time.monotonic()
    live = TrackedRun(live_record(state=RunState.EXEC), beat_at=now - 100)
    live.forgive(60.0)
    assert isinstance(overdue(live, ANY_TIME, SETTINGS, Moment(now, BOOT)), Unresponsive)


def test_forgiving_never_puts_a_beat_into_the_future() -> None:
    live = TrackedRun(live_record())
    live.forgive(3600.0)
    assert max(live.beat_at, live.progress_at) <= time.monotonic()


def test_a_stopping_worker_gets_back_the_time_that_the_daemon_slept() -> None:
    """Both the deadline and the reminder before it: the worker may have been held still as well."""
    live = TrackedRun(live_record(), kill_at=50.0, nudge_at=48.0)
    live.forgive(10.0)
    assert (live.kill_at, live.nudge_at) == (60.0, 58.0)
