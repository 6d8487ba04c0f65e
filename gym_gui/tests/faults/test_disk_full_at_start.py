"""A disk that fills while a run starts: the run waits, says for what, and starts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.cleanrl_runs import MODES, cleanrl_daemon, submit_ppo, submit_script, wait_until_warm
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import steps_of
from mosaic_protocol.proto import trainer_pb2 as pb

STEPS = 20
PPO_STEPS = 4 * 512


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Name it before ``make_daemon``: it must outlive the daemons on it."""
    disk = SmallDisk(tmp_path / "disk", megabytes=24)
    yield disk
    disk.unmount()


def fill_when_launched(daemon: DaemonProcess, disk: SmallDisk, *runs: str) -> None:
    """Fill the disk once there is a process of each run: one that is launched later waits for space before it has any.
    A script of CleanRL's kind is far from its claim then; a toy, which may be forked and be there at once, is held
    before it by a gate."""
    for run_id in runs:
        wait_for("the launch", lambda run_id=run_id: "Launched" in causes(daemon, run_id), interval=0.001)
    disk.fill()
    disk.fill_last_pages()


def causes(daemon: DaemonProcess, run_id: str) -> list[str]:
    return [move.cause for move in daemon.client.history(run_id)]


@on_a_small_disk
def test_a_run_whose_disk_fills_while_it_starts_waits_and_starts_once(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(home=disk.mount() / "home", handshake_seconds=2).start()
    gate = tmp_path / "gate"
    toy = {"total_timesteps": STEPS, "step_seconds": 0.001, "gate_before": str(gate)}
    runs = [daemon.submit(name=f"toy-{number}", **toy) for number in range(3)]
    fill_when_launched(daemon, disk, *runs)
    gate.touch()
    for run_id in runs:
        wait_for("the run to say what it waits for", lambda run_id=run_id: "space" in daemon.client.run(run_id).reason)
    disk.free()
    for run_id in runs:
        run = daemon.wait_over(run_id)
        assert run.outcome == "completed", run.reason
        assert daemon.starts(run_id) == 1
        assert steps_of(daemon, run_id) == list(range(1, STEPS + 1))


@pytest.mark.parametrize("mode", MODES)
@on_a_small_disk
def test_a_cleanrl_run_whose_disk_fills_while_it_starts_waits_and_loses_nothing(disk: SmallDisk, mode: str) -> None:
    with cleanrl_daemon(disk.mount() / "home", mode) as daemon:
        if mode == "warm":
            wait_until_warm(daemon)
        run_id = submit_ppo(daemon, total_timesteps=PPO_STEPS)
        fill_when_launched(daemon, disk, run_id)
        wait_for("the run to say what it waits for", lambda: "space" in daemon.client.run(run_id).reason)
        disk.free()
        run = daemon.wait_over(run_id)
        assert (run.outcome, run.last_step) == ("completed", PPO_STEPS), run.reason
        assert steps_of(daemon, run_id, "charts/SPS") == list(range(512, PPO_STEPS + 1, 512))
        assert list(daemon.paths.run(run_id).tensorboard.glob("events.out.tfevents.*"))


@on_a_small_disk
def test_a_script_of_somebody_else_whose_disk_fills_while_it_starts_waits_too(disk: SmallDisk) -> None:
    with cleanrl_daemon(disk.mount() / "home", "cold") as daemon:
        run_id = submit_script(daemon, "argparse_manner", total_timesteps=320)
        fill_when_launched(daemon, disk, run_id)
        wait_for("the run to say what it waits for", lambda: "space" in daemon.client.run(run_id).reason)
        disk.free()
        run = daemon.wait_over(run_id)
        assert (run.outcome, run.last_step) == ("completed", 320), run.reason


@on_a_small_disk
def test_a_launch_that_died_of_a_full_disk_is_made_again(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=STEPS, step_seconds=0.001, gate_before=str(gate), write_before=100_000)
    fill_when_launched(daemon, disk, run_id)
    gate.touch()
    wait_for("the launch to be undone", lambda: "LaunchUndone" in causes(daemon, run_id))
    run = wait_for("it to wait for space", lambda: waiting_for_space(daemon, run_id))
    assert (run.state, run.attempt) == ("HSHK", 2)
    disk.free()
    run = daemon.wait_over(run_id)
    assert run.outcome == "completed", run.reason
    assert daemon.starts(run_id) == 1
    assert steps_of(daemon, run_id) == list(range(1, STEPS + 1))


def waiting_for_space(daemon: DaemonProcess, run_id: str) -> pb.Run | None:
    run = daemon.client.run(run_id)
    return run if "waits for disk space" in run.reason else None


@on_a_small_disk
def test_a_run_that_waits_for_space_to_start_can_be_stopped(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=STEPS, gate_before=str(gate))
    fill_when_launched(daemon, disk, run_id)
    gate.touch()
    wait_for("the run to say what it waits for", lambda: "space" in daemon.client.run(run_id).reason)
    daemon.client.cancel(run_id, "no space")
    assert daemon.wait_over(run_id).outcome == "canceled"
    assert daemon.processes(run_id) == []
    assert daemon.client.health().reserved.cpus == 0
