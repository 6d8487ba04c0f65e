"""Somebody sets the clock: nothing times out that is not late, and what is late still times out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import steps_of
from gym_gui.tests.support.live_sessions import submit_session, until, watched
from mosaic_protocol.live.messages import End

HOUR = 3600
_SLEEP_WITHOUT_FAKETIME = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
"""libfaketime 0.9.10 refuses the sleep that Python asks for (absolute, by the monotonic clock) when it leaves that
clock alone; every other way to wait works. (gRPC's own threads still burn some CPU while the clock is set back, because
the kernel wakes them by the real clock.)"""


class FakeClock:
    """The wall clock of a daemon and of all it starts; the monotonic clock, which nobody can set, stays real."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        assert libraries, "libfaketime is missing: install the package with `apt-get install libfaketime`"
        self._file = folder / "clock"
        self.set_off_by(0)
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(_SLEEP_WITHOUT_FAKETIME)
        self.environment = {
            "PYTHONPATH": os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")]),
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "NO_FAKE_STAT": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set_off_by(self, seconds: int) -> None:
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> FakeClock:
    return FakeClock(tmp_path)


def started(make_daemon: Callable[..., DaemonProcess], clock: FakeClock, **settings: object) -> DaemonProcess:
    daemon = make_daemon(**settings)
    daemon.env.update(clock.environment)
    return daemon.start()


def wait_for_heartbeats(daemon: DaemonProcess, run_id: str) -> None:
    """Wait until the worker reported progress twice; the watchdog judges more often than that."""
    for _ in range(2):
        before = daemon.client.run(run_id).last_step
        wait_for("progress", lambda n=before: daemon.client.run(run_id).last_step > n)


def paused_and_resumed(daemon: DaemonProcess, run_id: str) -> float:
    """Pause a run and let it go on; by how much the clock that noted it is off."""
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    noted_at = daemon.client.history(run_id)[-1].wall_time
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC")
    return noted_at - time.time()


def test_a_clock_that_jumps_an_hour_ends_no_run(
    make_daemon: Callable[..., DaemonProcess], clock: FakeClock, tmp_path: Path
) -> None:
    daemon = started(make_daemon, clock, liveness_seconds=20, handshake_seconds=30)
    run_id = daemon.submit(
        total_timesteps=1_000_000, step_seconds=0.005, max_wallclock_minutes=30, max_stall_minutes=30
    )
    daemon.wait_state(run_id, "EXEC")
    for jump in (HOUR, -HOUR, 0):
        clock.set_off_by(jump)
        wait_for("the daemon to see the clock jump", lambda j=jump: abs(paused_and_resumed(daemon, run_id) - j) < 600)
        wait_for_heartbeats(daemon, run_id)
    meanwhile = daemon.submit(name="begun after the jumps", total_timesteps=20)
    assert daemon.wait_over(meanwhile).outcome == "completed"
    daemon.client.cancel(run_id)
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert 0 < run.active_seconds < 600
    steps = steps_of(daemon, run_id)
    assert steps == list(range(1, len(steps) + 1))


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_run_that_takes_too_long_times_out_whatever_the_clock_says(
    make_daemon: Callable[..., DaemonProcess], clock: FakeClock, jump: int
) -> None:
    daemon = started(make_daemon, clock)
    run_id = daemon.submit(total_timesteps=1_000_000, max_wallclock_minutes=2 / 60)
    daemon.wait_state(run_id, "EXEC")
    began = time.monotonic()
    clock.set_off_by(jump)
    run = daemon.wait_over(run_id)
    assert run.outcome == "timed_out", run.reason
    assert "max_wallclock_minutes" in run.reason
    assert time.monotonic() - began > 1, "it was not given its time"
    assert 2 <= run.active_seconds < 60


def test_a_run_is_re_adopted_across_a_jump(
    make_daemon: Callable[..., DaemonProcess], clock: FakeClock, tmp_path: Path
) -> None:
    daemon = started(make_daemon, clock)
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=20, gate=str(gate), gate_at=10, max_wallclock_minutes=30)
    daemon.wait_state(run_id, "EXEC")
    daemon.kill()
    clock.set_off_by(-HOUR)
    daemon.start()
    assert daemon.client.run(run_id).state == "EXEC"
    gate.touch()
    run = daemon.wait_over(run_id)
    assert (run.outcome, daemon.starts(run_id)) == ("completed", 1), run.reason
    assert steps_of(daemon, run_id) == list(range(1, 21))


def test_a_session_is_played_on_whatever_the_clock_says(
    make_daemon: Callable[..., DaemonProcess], clock: FakeClock
) -> None:
    daemon = started(make_daemon, clock)
    run_id = submit_session(daemon, "CartPole-v1", actor="random", speed=2)
    with watched(daemon, run_id) as client:
        until(client, "steps", lambda: client.state.steps > 20)
        for jump in (HOUR, -HOUR):
            clock.set_off_by(jump)
            wait_for("the daemon to see it", lambda j=jump: abs(paused_and_resumed(daemon, run_id) - j) < 600)
            seen = client.state.steps
            until(client, "steps after the jump", lambda n=seen: client.state.steps > n + 100)
        client.send(End())
        run = daemon.wait_over(run_id)
    assert run.outcome == "completed", run.reason
    steps = list(daemon.client.steps(run_id))
    assert [step.step for step in steps] == list(range(len(steps))) and len(steps) > 220
