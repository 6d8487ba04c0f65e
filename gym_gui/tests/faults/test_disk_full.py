"""A full disk: a clear error, nothing lost, and everything goes on when there is space again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.trainer.client import ClientError
from gym_gui.services.trainer.daemon_control import answers, running_endpoint
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import check_integrity, journalled, steps_of

STEPS = 400
LONGER_THAN_A_WORKER_WAITS = 12.0
"""A worker that has ended waits ten seconds for the daemon to take its last records."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Name it before ``make_daemon``: it must outlive the daemons on it."""
    disk = SmallDisk(tmp_path / "disk", megabytes=16)
    yield disk
    disk.unmount()


def submitted_until_refused(daemon: DaemonProcess) -> tuple[list[str], ClientError]:
    """Submit until the disk will not take another run: the accepted ones, and what the last one was told."""
    accepted: list[str] = []
    while True:
        try:
            run = daemon.client.submit(toy_config(name=f"queued-{len(accepted)}", cpus=8)).run
        except ClientError as error:
            return accepted, error
        accepted.append(run.run_id)
        assert len(accepted) < 1000, "the disk is not full"


@on_a_small_disk
def test_a_full_disk_refuses_a_run_with_a_sentence_and_loses_nothing(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    gate = tmp_path / "gate"
    live = daemon.submit(total_timesteps=STEPS, step_seconds=0.005, gate=str(gate), gate_at=STEPS - 10)
    daemon.wait_state(live, "EXEC")
    disk.fill()
    accepted, refusal = submitted_until_refused(daemon)
    assert refusal.status == "RESOURCE_EXHAUSTED"
    assert "free some disk space" in str(refusal)
    wait_for("the live run to go on", lambda: daemon.client.run(live).last_step >= STEPS - 11)
    assert journalled(daemon, live) < STEPS - 11, "the journal was not held back; is the disk full?"
    listed = {run.run_id for run in daemon.client.runs(size=1000).runs}
    assert listed == {live, *accepted}

    disk.free()
    later = wait_for("space", lambda: daemon.submit(name="later", cpus=8))
    gate.touch()
    run = daemon.wait_over(live)
    assert run.outcome == "completed", run.reason
    assert steps_of(daemon, live) == list(range(1, STEPS + 1))
    assert {run.run_id for run in daemon.client.runs(size=1000).runs} == {live, *accepted, later}
    daemon.kill()
    check_integrity(daemon.paths.registry_db)
    check_integrity(daemon.paths.telemetry_db)
    with closing(daemon.registry()) as registry:
        assert registry.get(later).name == "later"


@on_a_small_disk
def test_a_run_that_ends_on_a_full_disk_loses_no_word(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(home=disk.mount() / "home", liveness_seconds=4).start()
    gate = tmp_path / "gate"
    live = daemon.submit(total_timesteps=STEPS, step_seconds=0.001, gate=str(gate), gate_at=10)
    daemon.wait_state(live, "EXEC")
    disk.fill()
    gate.touch()
    wait_for("the worker to come to its end", lambda: daemon.client.run(live).last_step == STEPS)
    time.sleep(LONGER_THAN_A_WORKER_WAITS)
    disk.free()
    run = daemon.wait_over(live)
    assert (run.outcome, run.last_step) == ("completed", STEPS), run.reason
    assert steps_of(daemon, live) == list(range(1, STEPS + 1))


@on_a_small_disk
def test_a_run_can_be_stopped_on_a_full_disk(disk: SmallDisk, make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    live = daemon.submit(total_timesteps=10**6, step_seconds=0.01)
    daemon.wait_state(live, "EXEC")
    disk.fill()
    _, refusal = submitted_until_refused(daemon)
    assert refusal.status == "RESOURCE_EXHAUSTED"
    daemon.client.cancel(live, "it fills the disk")
    run = daemon.wait_over(live)
    assert run.outcome == "canceled" and "it fills the disk" in run.reason

    disk.free()
    reserve = daemon.paths.registry_db.with_name("reserve")
    wait_for("space", lambda: daemon.submit(name="later", cpus=8))
    wait_for("the reserve to be held again", reserve.exists)


@on_a_small_disk
def test_a_daemon_leaves_and_comes_back_on_a_full_disk(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    gate = tmp_path / "gate"
    live = daemon.submit(total_timesteps=STEPS, step_seconds=0.001, gate=str(gate), gate_at=10)
    daemon.wait_state(live, "EXEC")
    waiting = daemon.submit(name="waiting", cpus=8, total_timesteps=3)
    disk.fill()
    assert daemon.terminate() == 0

    status, words = leave_or_answer(daemon)
    assert status in (None, 1), words
    assert "Traceback" not in words
    disk.free()
    if status is not None:
        assert "disk" in words or "space" in words
        daemon.start()
    gate.touch()
    for run_id in (live, waiting):
        run = daemon.wait_over(run_id)
        assert run.outcome == "completed", run.reason
        assert daemon.starts(run_id) == 1
    assert steps_of(daemon, live) == list(range(1, STEPS + 1))


def leave_or_answer(daemon: DaemonProcess) -> tuple[int | None, str]:
    """Start a daemon that writes to a pipe, its disk being full: its exit status, None if it serves, and its words."""
    command = [sys.executable, "-m", "gym_gui.services.trainer", *daemon.arguments]
    process = daemon.process = subprocess.Popen(
        command, env=daemon.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )

    def left_or_answers() -> bool:
        endpoint = running_endpoint(daemon.paths)
        serves = endpoint is not None and endpoint.pid == process.pid and answers(daemon.paths, endpoint)
        return process.poll() is not None or serves

    wait_for("the daemon to leave or to answer", left_or_answers)
    assert process.stdout is not None
    if process.poll() is None:
        return None, ""
    with process.stdout as words:
        return process.returncode, words.read().decode()
