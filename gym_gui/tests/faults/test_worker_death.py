"""However a worker ends, the run has one outcome with a sentence that says so, and nothing is left running."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import journalled, rewrite_run, steps_of, worker_of
from mosaic_host.executor import locator_of
from mosaic_host.process_sweep import RunMarks, processes_of, send_signal
from mosaic_protocol.process_identity import ProcessIdentity

GONE_WITHIN = 5.0
START_MODES = pytest.mark.parametrize("warm", [0, 1], ids=["spawned", "forked"])


def started(daemon: DaemonProcess, **config: object) -> str:
    """A run of the toy worker that has begun; its worker was forked if its daemon does so."""
    if daemon.env["MOSAIC_TRAINER_WARM_STARTS"] == "1":
        daemon.wait_over(daemon.submit(name="warmer", total_timesteps=1))
        wait_for("the fork server", lambda: "ready" in daemon.client.health().warm_servers.values())
    run_id = daemon.submit(**config)
    run = daemon.wait_state(run_id, "EXEC")
    assert run.start_mode == ("warm" if daemon.env["MOSAIC_TRAINER_WARM_STARTS"] == "1" else "cold")
    return run_id


@START_MODES
def test_a_killed_worker_fails_its_run_with_the_signal_in_the_sentence(
    make_daemon: Callable[..., DaemonProcess], warm: int
) -> None:
    daemon = make_daemon(warm_starts=warm).start()
    run_id = started(daemon, total_timesteps=100_000)
    send_signal(worker_of(daemon, run_id), signal.SIGKILL)
    run = daemon.wait_over(run_id)
    assert run.outcome == "failed"
    assert "killed by signal 9 (SIGKILL)" in run.reason
    steps = steps_of(daemon, run_id)
    assert steps == list(range(1, len(steps) + 1))


def test_a_crash_is_reported_with_its_error(daemon: DaemonProcess) -> None:
    run = daemon.wait_over(daemon.submit(misbehave="crash", at_step=3))
    assert run.outcome == "failed"
    assert "RuntimeError: the toy broke, as it was asked to" in run.reason
    assert run.last_step == 3


def test_a_silent_exit_is_reported_with_its_status(daemon: DaemonProcess) -> None:
    run = daemon.wait_over(daemon.submit(misbehave="exit", at_step=3))
    assert run.outcome == "failed"
    assert "exited with status 3" in run.reason


@START_MODES
@pytest.mark.parametrize("ending", ["cancel", "kill"])
def test_grandchildren_end_with_the_run(make_daemon: Callable[..., DaemonProcess], warm: int, ending: str) -> None:
    """One plain, one in a session of its own, one forked twice without exec that ignores SIGTERM."""
    daemon = make_daemon(warm_starts=warm).start()
    run_id = started(daemon, total_timesteps=100_000, misbehave="grandchildren", at_step=2)
    family = wait_for("the grandchildren", lambda: f if len(f := daemon.processes(run_id)) == 4 else None)
    began = time.monotonic()
    if ending == "cancel":
        daemon.client.cancel(run_id)
    else:
        send_signal(worker_of(daemon, run_id), signal.SIGKILL)
    wait_for("the whole family to end", lambda: not any(process.is_alive() for process in family))
    assert time.monotonic() - began < GONE_WITHIN or ending == "kill", "those may first write a last checkpoint"
    run = daemon.wait_over(run_id)
    assert run.outcome == ("canceled" if ending == "cancel" else "failed"), run.reason


def test_a_child_with_an_empty_environment_ends_with_the_run(daemon: DaemonProcess) -> None:
    """Nothing of the run is about it but the session, whose leader is killed."""
    run_id = daemon.submit(misbehave="hide_child", at_step=2, gate="/nonexistent/gate", gate_at=3)
    run = daemon.wait_over(run_id)
    assert "killed by signal 9" in run.reason
    marks = RunMarks(run_id, daemon.paths.run(run_id).directory, run.attempt, worker_of(daemon, run_id))
    assert processes_of(marks) == []
    assert "LOG507" in daemon.structured_log(), "the child was found and ended by the sweep"


def test_a_worker_that_ignores_stop_is_ended_for_certain(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(misbehave="ignore_stop", at_step=2)
    wait_for("the worker to hang", lambda: journalled(daemon, run_id) >= 3)
    process = worker_of(daemon, run_id)
    began = time.monotonic()
    daemon.client.cancel(run_id, "it hangs")
    wait_for("the worker to be gone", lambda: not process.is_alive())
    assert time.monotonic() - began < GONE_WITHIN
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert "it hangs" in run.reason and "signal 9" in run.reason


def test_cancelling_again_and_again_does_not_put_off_the_end(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(stop_seconds=2).start()
    run_id = daemon.submit(misbehave="ignore_stop", at_step=2)
    wait_for("the worker to hang", lambda: journalled(daemon, run_id) >= 3)
    process = worker_of(daemon, run_id)
    began = time.monotonic()

    def cancelled_to_its_end() -> bool:
        if process.is_alive():
            daemon.client.cancel(run_id)
        return not process.is_alive()

    wait_for("the worker to be gone", cancelled_to_its_end, interval=0.3)
    assert time.monotonic() - began < GONE_WITHIN
    assert daemon.wait_over(run_id).outcome == "canceled"


def test_a_run_can_be_cancelled_at_any_moment_of_its_start(daemon: DaemonProcess) -> None:
    """While its worker is launched, starts its interpreter, shakes hands: one outcome, nothing left."""
    runs = []
    for pause in [n * 0.025 for n in range(20)]:
        run_id = daemon.submit(name=f"after {pause:g} s", total_timesteps=100_000)
        time.sleep(pause)  # the moment of the cancel; nothing waits for it
        daemon.client.cancel(run_id)
        runs.append(run_id)
    for run_id in runs:
        run = daemon.wait_over(run_id)
        assert run.outcome == "canceled", f"{run.name}: {run.outcome} {run.reason}"
        assert daemon.processes(run_id) == []


@START_MODES
def test_a_worker_may_fork_while_its_session_talks(make_daemon: Callable[..., DaemonProcess], warm: int) -> None:
    daemon = make_daemon(warm_starts=warm, heartbeat_seconds=0.01).start()
    run_id = started(daemon, total_timesteps=20, misbehave="fork_often", at_step=10)
    run = daemon.wait_over(run_id)
    assert run.outcome == "completed", run.reason


def test_of_two_processes_for_one_launch_the_one_with_the_claim_is_the_worker(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    """A fork was given up for lost, and a spawn came second; the daemon watches the loser until it leaves."""
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=20, gate=str(gate), gate_at=10)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    daemon.kill()
    with subprocess.Popen(["sleep", "3600"], start_new_session=True) as loser:
        with closing(daemon.registry()) as registry:
            watched = ProcessIdentity.of(loser.pid)
            assert watched is not None
            rewrite_run(registry, run_id, locator=locator_of(watched), pid=watched.pid)
        daemon.start()
        loser.kill()
    wait_for("the worker to be adopted", lambda: worker_of(daemon, run_id) == worker)
    gate.touch()
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.last_step) == ("completed", 20), run.reason
    assert daemon.starts(run_id) == 1


def test_a_fork_server_that_hangs_delays_a_start_and_nothing_else(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(warm_starts=1).start()
    warm = started(daemon, total_timesteps=1_000_000)
    server = ProcessIdentity.of(int(Path(f"/proc/{worker_of(daemon, warm).pid}/stat").read_text().split()[3]))
    assert server is not None
    send_signal(server, signal.SIGSTOP)
    run_id = daemon.submit(total_timesteps=5)
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.start_mode) == ("completed", "cold"), run.reason
    assert daemon.starts(run_id) == 1
    assert not server.is_alive()
    daemon.client.cancel(warm)
    assert daemon.wait_over(warm).outcome == "canceled"
