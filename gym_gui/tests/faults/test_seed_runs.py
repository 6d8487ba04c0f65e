"""One program of several seeds under a real daemon: whatever ends it, each seed is a whole run afterwards."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from gym_gui.services.trainer.client import ClientError
from gym_gui.services.trainer.runs.seed_runs import id_of_seed
from gym_gui.tests.support.cleanrl_runs import cleanrl_config, cleanrl_daemon
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_worker.state import checkpoints

PATIENCE = 300.0
SEEDS = (4, 5, 6)
SMALL = {"seeds": 3, "num_envs": 2, "num_steps": 32, "num_minibatches": 1, "update_epochs": 1}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One for all: the program is compiled once."""
    with cleanrl_daemon(tmp_path_factory.mktemp("seeds") / "home", "cold") as started:
        yield started


def submitted(daemon: DaemonProcess, steps: int, **flags: object) -> str:
    told = {**SMALL, **flags}
    config = cleanrl_config(told, algo="ppo_jax", env_id="CartPole-v1", seed=SEEDS[0], total_timesteps=steps)
    return daemon.client.submit(config).run.run_id


def seeds_of(daemon: DaemonProcess, run_id: str) -> list[pb.Run]:
    return [daemon.client.run(id_of_seed(run_id, seed)) for seed in SEEDS]


def trains(daemon: DaemonProcess, run_id: str) -> None:
    daemon.wait_state(run_id, "EXEC", timeout=PATIENCE)
    wait_for("the first update", lambda: daemon.client.run(run_id).last_step >= 0 and _points(daemon, run_id), PATIENCE)


def _points(daemon: DaemonProcess, run_id: str) -> list[int]:
    (series,) = daemon.client.metrics(run_id, ["losses/value_loss"], max_points=100_000)
    return list(series.steps)


def checkpoint_steps(daemon: DaemonProcess, run: pb.Run) -> list[int]:
    folder = daemon.paths.run(run.run_id).directory / "checkpoints"
    return [checkpoints.read_manifest(path).step for path in checkpoints.list_checkpoints(folder)]


def test_seeds_are_whole_runs_also_when_the_daemon_is_killed_while_they_train(daemon: DaemonProcess) -> None:
    run_id = submitted(daemon, 64 * 40, checkpoint_every=640)
    trains(daemon, run_id)
    with pytest.raises(ClientError):
        daemon.client.run(id_of_seed(run_id, SEEDS[0]))
    daemon.kill()
    daemon.start()
    whole = daemon.wait_over(run_id, timeout=PATIENCE)
    assert whole.outcome == "completed", whole.reason
    for seed, run in zip(SEEDS, seeds_of(daemon, run_id), strict=True):
        assert (run.state, run.outcome, run.last_step, run.seed) == ("TERM", "completed", 64 * 40, seed)
        assert _points(daemon, run.run_id) == list(range(64, 64 * 40 + 1, 64))
        assert checkpoint_steps(daemon, run)[-1] == 64 * 40
    assert len(daemon.client.runs(size=100).runs) == 1 + len(SEEDS)


def test_a_stop_stops_all_seeds_with_their_checkpoints_and_a_pause_holds_them(daemon: DaemonProcess) -> None:
    run_id = submitted(daemon, 64 * 1_000_000)
    trains(daemon, run_id)
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE", timeout=PATIENCE)
    held = _points(daemon, run_id)
    daemon.client.resume(run_id)
    wait_for("it to go on", lambda: len(_points(daemon, run_id)) > len(held), PATIENCE)
    daemon.client.cancel(run_id, "enough")
    assert daemon.wait_over(run_id, timeout=PATIENCE).outcome == "canceled"
    runs = seeds_of(daemon, run_id)
    assert {run.outcome for run in runs} == {"canceled"}
    assert all(run.reason.startswith("canceled: enough") for run in runs)
    (step,) = {checkpoint_steps(daemon, run)[-1] for run in runs}
    assert {_points(daemon, run.run_id)[-1] for run in runs} == {step}


def test_a_killed_program_fails_its_seeds_with_the_signal_and_keeps_what_they_told(daemon: DaemonProcess) -> None:
    run_id = submitted(daemon, 64 * 1_000_000)
    trains(daemon, run_id)
    send_signal(worker_of(daemon, run_id), signal.SIGKILL)
    whole = daemon.wait_over(run_id, timeout=PATIENCE)
    assert whole.outcome == "failed"
    for run in seeds_of(daemon, run_id):
        assert run.outcome == "failed" and "killed by signal 9 (SIGKILL)" in run.reason
        told = _points(daemon, run.run_id)
        assert told and told == list(range(64, told[-1] + 1, 64))
