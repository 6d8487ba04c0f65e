"""Processes that are held still: a frozen worker has one outcome; a frozen daemon blames nobody for its own sleep."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import journalled, steps_of, worker_of
from mosaic_host.process_sweep import send_signal

LIVENESS = 2.5
ASLEEP = 4.5
"""Longer than every timeout of these daemons."""


def sleep_past_the_timeouts() -> None:
    """The passing of time is what these tests are about."""
    time.sleep(ASLEEP)


def test_a_frozen_worker_fails_its_run_once_and_leaves_nothing(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(liveness_seconds=LIVENESS).start()
    run_id = daemon.submit(total_timesteps=100_000)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    send_signal(worker, signal.SIGSTOP)
    run = daemon.wait_over(run_id)
    assert run.outcome == "failed"
    assert "stopped answering" in run.reason
    assert not worker.is_alive() and daemon.processes(run_id) == []


def test_a_worker_that_thaws_in_time_completes(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon = make_daemon(liveness_seconds=60).start()
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=50, gate=str(gate), gate_at=20)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    send_signal(worker, signal.SIGSTOP)
    wait_for("the worker to be stopped", lambda: Path(f"/proc/{worker.pid}/stat").read_text().split()[2] == "T")
    gate.touch()
    sleep_past_the_timeouts()
    assert daemon.client.run(run_id).state == "EXEC"
    send_signal(worker, signal.SIGCONT)
    assert daemon.wait_over(run_id).outcome == "completed"
    assert steps_of(daemon, run_id) == list(range(1, 51))


def test_a_worker_that_freezes_before_its_handshake_fails_its_run(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(handshake_seconds=1.5).start()
    # Held there, it cannot have registered in the moment between a look at it and the signal.
    run_id = daemon.submit(total_timesteps=100_000, gate_before=str(tmp_path / "never"))

    def stopped() -> bool:
        return bool(daemon.client.run(run_id).pid) and send_signal(worker_of(daemon, run_id), signal.SIGSTOP)

    wait_for("the worker to be stopped", stopped, interval=0.005)
    run = daemon.wait_over(run_id)
    assert (run.outcome, "did not register" in run.reason) == ("failed", True), run.reason
    assert daemon.processes(run_id) == []


def test_a_daemon_that_was_frozen_fails_no_healthy_run(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(liveness_seconds=LIVENESS, handshake_seconds=60).start()
    runs = [daemon.submit(total_timesteps=1500, step_seconds=0.005) for _ in range(3)]
    for run_id in runs:
        daemon.wait_state(run_id, "EXEC")
    for _ in range(2):
        daemon.signal(signal.SIGSTOP)
        sleep_past_the_timeouts()
        daemon.signal(signal.SIGCONT)
        wait_for("the daemon to note it", lambda: "LOG403" in daemon.structured_log())
    for run_id in runs:
        run = daemon.wait_over(run_id)
        assert run.outcome == "completed", run.reason
        assert steps_of(daemon, run_id) == list(range(1, 1501))
        assert daemon.starts(run_id) == 1


def test_a_short_freeze_of_the_daemon_fails_no_healthy_run_either(make_daemon: Callable[..., DaemonProcess]) -> None:
    """Just longer than the liveness limit."""
    daemon = make_daemon(liveness_seconds=LIVENESS).start()
    run_id = daemon.submit(total_timesteps=100_000)
    daemon.wait_state(run_id, "EXEC")
    for asleep in (2.6, 2.8, 3.0):
        daemon.signal(signal.SIGSTOP)
        time.sleep(asleep)
        daemon.signal(signal.SIGCONT)
        before = daemon.client.run(run_id).last_step
        wait_for("the run to go on", lambda n=before: daemon.client.run(run_id).last_step > n)
    assert daemon.client.run(run_id).state == "EXEC"


def test_a_worker_that_ends_while_the_daemon_is_frozen_completes(make_daemon: Callable[..., DaemonProcess]) -> None:
    """Its last words arrive on a connection that is already closed when the daemon wakes up."""
    daemon = make_daemon(liveness_seconds=LIVENESS).start()
    run_id = daemon.submit(total_timesteps=100, step_seconds=0.005)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    daemon.signal(signal.SIGSTOP)
    wait_for("the worker to give up waiting and leave", lambda: not worker.is_alive())
    daemon.signal(signal.SIGCONT)
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.last_step) == ("completed", 100), run.reason
    assert steps_of(daemon, run_id) == list(range(1, 101))


def test_both_frozen_and_thawed_go_on(make_daemon: Callable[..., DaemonProcess]) -> None:
    """As when a laptop's lid is closed."""
    daemon = make_daemon(liveness_seconds=LIVENESS).start()
    run_id = daemon.submit(total_timesteps=200, step_seconds=0.01)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    send_signal(worker, signal.SIGSTOP)
    daemon.signal(signal.SIGSTOP)
    sleep_past_the_timeouts()
    send_signal(worker, signal.SIGCONT)
    daemon.signal(signal.SIGCONT)
    run = daemon.wait_over(run_id)
    assert run.outcome == "completed", run.reason
    assert steps_of(daemon, run_id) == list(range(1, 201))
    assert journalled(daemon, run_id) == 202
