"""A full disk: a clear error, nothing lost, and everything goes on when there is space again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.trainer.client import ClientError
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.cleanrl_runs import cleanrl_daemon, submit_ppo, submit_script, wait_until_warm
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
OTHER_WORDS = 5
"""What a worker says besides its metrics when it is stopped, and the steps of its last moment."""
LONGER_THAN_A_WORKER_WAITS = 12.0
"""A worker that has ended waits ten seconds for the daemon to take its last records."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Name it before ``make_daemon``: it must outlive the daemons on it."""
    disk = SmallDisk(tmp_path / "disk", megabytes=16)
    yield disk
    disk.unmount()


def submitted_until_refused(daemon: DaemonProcess) -> tuple[list[str], ClientError]:
    """Submit until the disk will not take another run: the accepted ones, and the answer to the last one."""
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


def lost_records(reason: str) -> int:
    """How many records a run says died in its worker's memory."""
    found = re.search(r"; ([\d,]+) records? (?:is|are) lost that it held in memory", reason)
    assert found is not None, reason
    return int(found[1].replace(",", ""))


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
    later = wait_for("space", lambda: daemon.submit(name="later", cpus=8, total_timesteps=3))
    assert daemon.wait_over(later).outcome == "completed"


@on_a_small_disk
def test_a_run_that_is_cancelled_on_a_full_disk_says_how_many_records_it_lost(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    run_id = daemon.submit(total_timesteps=10**6, step_seconds=0.002)
    daemon.wait_state(run_id, "EXEC")
    disk.fill()
    wait_for("records in its memory", lambda: daemon.client.run(run_id).last_step > journalled(daemon, run_id) + 50)
    daemon.client.cancel(run_id)
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    stored = steps_of(daemon, run_id)
    assert stored == list(range(1, len(stored) + 1)), "without a hole"
    assert abs(run.last_step - len(stored) - lost_records(run.reason)) <= OTHER_WORDS


@pytest.mark.parametrize("mode", ["cold", pytest.param("warm", marks=pytest.mark.nightly)])
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
        assert (run.outcome, list_checkpoints(daemon.paths.run(run_id).checkpoints)) == ("canceled", []), run.reason
        rows = len(stored_rows(daemon, run_id))
        assert lost_records(run.reason) > PPO_STEPS // PPO_UPDATE - rows, "a row for each update, and its episodes"


def fill_until_it_waits_for_space(daemon: DaemonProcess, disk: SmallDisk, run_id: str) -> None:
    """Fill the disk, logs and all, while a CleanRL run trains, and see it train to its end."""
    checkpoints = daemon.paths.run(run_id).checkpoints
    wait_for("the first steps", lambda: daemon.client.run(run_id).last_step > 0)
    disk.fill()
    disk.fill_last_pages()
    assert not checkpoints.exists(), "the run ended before the disk was full"
    wait_for("the run to try to write its last checkpoint", checkpoints.exists)
    for _ in range(3):
        tried = checkpoints.stat().st_mtime_ns
        wait_for("the run to try again", lambda tried=tried: checkpoints.stat().st_mtime_ns > tried)
    assert daemon.client.run(run_id).state == "EXEC"


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
    daemon.start()
    assert daemon.client.run(live).state == "EXEC"
    disk.free()
    gate.touch()
    for run_id in (live, waiting):
        run = daemon.wait_over(run_id)
        assert run.outcome == "completed", run.reason
        assert daemon.starts(run_id) == 1
    assert steps_of(daemon, live) == list(range(1, STEPS + 1))
