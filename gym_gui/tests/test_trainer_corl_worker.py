"""The CORL worker through the real daemon: it learns from a dataset, is held, ended and goes on to the bit, and what it
learned is measured, estimated and asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corl_worker.tests.worlds import play_set
from gym_gui.tests.support.cleanrl_runs import cleanrl_daemon
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from mosaic_protocol.checkpoint_manifest import read_manifest

ENDLESS = 100_000_000
FLAGS = {"hidden_dim": 16, "batch_size": 16, "eval_freq": 0}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with cleanrl_daemon(tmp_path_factory.mktemp("corl") / "home", "cold") as found:
        play_set(found.paths, "swings", "Pendulum-v1")
        yield found


def submit(daemon: DaemonProcess, steps: int, **more: Any) -> str:
    settings = {"algo": "td3_bc", "dataset": "swings", "total_timesteps": steps, "params": FLAGS, **more}
    worker = {"type": "corl", "module": "corl_worker.cli", "config": settings}
    config = {"run_name": "offline", "resources": {"cpus": {"requested": 1}}, "metadata": {"worker": worker}}
    return daemon.client.submit({**config, "artifacts": {}}).run.run_id


def last_checkpoint(daemon: DaemonProcess, run_id: str) -> Path:
    return max(daemon.paths.run(run_id).checkpoints.glob("step-*"))


@pytest.fixture(scope="module")
def ended(daemon: DaemonProcess) -> Path:
    """The last checkpoint of a run that was paused, went on, and was cancelled."""
    run_id = submit(daemon, ENDLESS)
    wait_for("updates", lambda: daemon.client.run(run_id).last_step > 0, timeout=2 * HANG_GUARD)
    daemon.client.pause(run_id)
    held = daemon.wait_state(run_id, "PAUSE").last_step
    daemon.client.resume(run_id)
    wait_for("updates after the pause", lambda: daemon.client.run(run_id).last_step > held)
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
    return last_checkpoint(daemon, run_id)


def test_a_run_that_was_ended_goes_on_to_the_bit(daemon: DaemonProcess, ended: Path) -> None:
    steps = read_manifest(ended).step + 50
    start = {"mode": "resume", "checkpoint": str(ended)}
    resumed, whole = submit(daemon, steps, start=start), submit(daemon, steps)
    for run_id in (resumed, whole):
        run = daemon.wait_over(run_id, timeout=4 * HANG_GUARD)
        assert run.outcome == "completed", run.reason
    one, other = (read_manifest(last_checkpoint(daemon, run_id)) for run_id in (resumed, whole))
    assert one.tensor_sha256 == other.tensor_sha256
    assert one.offline_dataset["name"] == "swings"


def test_what_was_learned_is_measured_estimated_and_listed(daemon: DaemonProcess, ended: Path) -> None:
    line = CommandLine(daemon.paths.root, daemon.env)
    measured = line("eval", str(ended), "--episodes", "1", "--deterministic", "--json")
    assert measured.code == 0 and measured.json["results"]["deterministic"]["episodes"] == 1, measured.err
    listed = line("checkpoints", "--json").json
    assert all(one["offline_dataset"]["name"] == "swings" for one in listed["checkpoints"])
    refused = line("eval", str(ended), "--offline", "--dataset", "swigns")
    assert refused.code != 0 and "did you mean 'swings'?" in refused.err


def test_a_run_is_refused_before_it_starts(daemon: DaemonProcess) -> None:
    line = CommandLine(daemon.paths.root, daemon.env)
    assert "--dataset is missing" in line("train", "td3_bc", "--dry-run").err
    assert "did you mean 'swings'?" in line("train", "td3_bc", "--dataset", "swing", "--dry-run").err
    told = line("train", "iql", "--dataset", "swings", "--dry-run")
    assert told.code == 0 and "Pendulum-v1" in told.out and "180" in told.out
