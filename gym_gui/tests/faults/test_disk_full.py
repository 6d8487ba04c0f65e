"""A full disk: a clear error, nothing lost, and everything goes on when there is space again."""

from __future__ import annotations

import mmap
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
from gym_gui.tests.support.cleanrl_runs import MODES, cleanrl_daemon, submit_ppo, submit_script, wait_until_warm
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import check_integrity, journalled, steps_of
from mosaic_protocol.checkpoint_manifest import list_checkpoints, verify
from mosaic_protocol.events import MetricRow, decode
from mosaic_protocol.outbox import OutboxReader

STEPS = 400
PPO_UPDATE = 512
PPO_STEPS = 80 * PPO_UPDATE
FOREIGN_UPDATE = 32
FOREIGN_STEPS = 150 * FOREIGN_UPDATE
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


@pytest.mark.parametrize("mode", MODES)
@on_a_small_disk
def test_a_cleanrl_run_that_ends_on_a_full_disk_with_its_logs_on_it_loses_nothing(disk: SmallDisk, mode: str) -> None:
    with cleanrl_daemon(disk.mount() / "home", mode) as daemon:
        if mode == "warm":
            wait_until_warm(daemon)
        run_id = submit_ppo(daemon, total_timesteps=PPO_STEPS)
        fill_until_it_waits_for_space(daemon, disk, run_id)
        disk.free()
        run = daemon.wait_over(run_id)
        assert (run.outcome, run.last_step) == ("completed", PPO_STEPS), run.reason
        assert steps_of(daemon, run_id, "charts/SPS") == list(range(PPO_UPDATE, PPO_STEPS + 1, PPO_UPDATE))
        assert stored_rows(daemon, run_id) == script_rows(daemon, run_id)
        (checkpoint,) = list_checkpoints(daemon.paths.run(run_id).checkpoints)
        assert verify(checkpoint).step == PPO_STEPS
        assert "Traceback" not in (daemon.paths.run_logs(run_id) / "stderr.log").read_text()


@on_a_small_disk
def test_a_script_of_somebody_else_that_ends_on_a_full_disk_loses_nothing_either(disk: SmallDisk) -> None:
    with cleanrl_daemon(disk.mount() / "home", "cold") as daemon:
        run_id = submit_script(daemon, "argparse_manner", total_timesteps=FOREIGN_STEPS)
        fill_until_it_waits_for_space(daemon, disk, run_id)
        disk.free()
        run = daemon.wait_over(run_id)
        assert (run.outcome, run.last_step) == ("completed", FOREIGN_STEPS), run.reason
        assert steps_of(daemon, run_id, "charts/SPS") == list(range(FOREIGN_UPDATE, FOREIGN_STEPS + 1, FOREIGN_UPDATE))
        assert stored_rows(daemon, run_id) == script_rows(daemon, run_id)
        (checkpoint,) = list_checkpoints(daemon.paths.run(run_id).checkpoints)
        assert verify(checkpoint).step == FOREIGN_STEPS


@on_a_small_disk
def test_a_cleanrl_run_that_waits_for_space_can_be_stopped(disk: SmallDisk) -> None:
    with cleanrl_daemon(disk.mount() / "home", "cold") as daemon:
        run_id = submit_ppo(daemon, total_timesteps=PPO_STEPS)
        fill_until_it_waits_for_space(daemon, disk, run_id)
        daemon.client.cancel(run_id, "there is no more space")
        run = daemon.wait_over(run_id)
        assert not daemon.processes(run_id)
        # The daemon gives up its reserve to note the stop, and that may be space enough for the checkpoint.
        kept = len(list_checkpoints(daemon.paths.run(run_id).checkpoints))
        assert (run.outcome, kept) in (("canceled", 0), ("completed", 1)), run.reason


def fill_until_it_waits_for_space(daemon: DaemonProcess, disk: SmallDisk, run_id: str) -> None:
    """Fill the disk, logs and all, while a CleanRL run trains, and see it train to its end."""
    checkpoints = daemon.paths.run(run_id).checkpoints
    wait_for("the first steps", lambda: daemon.client.run(run_id).last_step > 0)
    disk.fill()
    for name in ("stdout.log", "stderr.log"):
        fill_last_page(daemon.paths.run_logs(run_id) / name)
    assert not checkpoints.exists(), "the run ended before the disk was full"
    wait_for("the run to try to write its last checkpoint", checkpoints.exists)
    for _ in range(3):
        tried = checkpoints.stat().st_mtime_ns
        wait_for("the run to try again", lambda tried=tried: checkpoints.stat().st_mtime_ns > tried)
    assert daemon.client.run(run_id).state == "EXEC"


def fill_last_page(log: Path) -> None:
    """A page that is there already takes lines on a full disk too."""
    with log.open("ab") as file:
        file.write(b"\n" * (-log.stat().st_size % mmap.PAGESIZE))


def script_rows(daemon: DaemonProcess, run_id: str) -> list[tuple[int, dict[str, float | None]]]:
    """The metrics that the script of a run journalled, in order."""
    reader = OutboxReader(daemon.paths.run(run_id).outbox, "script")
    try:
        return [metrics_in(line) for lines in iter(reader.read, []) for line in lines]
    finally:
        reader.close()


def stored_rows(daemon: DaemonProcess, run_id: str) -> list[tuple[int, dict[str, float | None]]]:
    """The metrics that the daemon stored of a run, in order."""
    return [metrics_in(line) for page in daemon.client.stream("metrics", run_id) for line in page.records]


def metrics_in(line: bytes) -> tuple[int, dict[str, float | None]]:
    record = decode(line)
    assert isinstance(record, MetricRow)
    return record.step, record.values


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
