"""``mosaic resume`` of a run that is over: a new run that ends where the old one would have."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for

pytestmark = pytest.mark.usefixtures("workers_train")

TRAIN = ("train", "ppo", "--env-id", "CartPole-v1", "--json", "--no-preflight", "--num-steps", "32")


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


def final_tensors(daemon: DaemonProcess, run_id: str) -> dict[str, bytes]:
    *_, newest = sorted(daemon.paths.run(run_id).checkpoints.glob("step-*"))
    return {name: array.tobytes() for name, array in load_file(Path(newest) / "model.safetensors").items()}


def test_a_cancelled_run_goes_on_as_a_new_one_and_ends_with_the_same_bits(
    daemon: DaemonProcess, mosaic: CommandLine
) -> None:
    whole = mosaic(*TRAIN, "--total-timesteps", "12000").json["run_id"]
    stopped = mosaic(*TRAIN, "--total-timesteps", "12000", "--detach").json["run_id"]
    wait_for("the run to get going", lambda: daemon.client.run(stopped).last_step > 2000)
    assert mosaic("cancel", stopped).code == 0
    halfway = daemon.client.run(stopped)
    assert (halfway.outcome, halfway.last_step < 12000) == ("canceled", True)
    answer = mosaic("resume", stopped, "--json")
    assert answer.code == 0, answer.err
    continued = daemon.wait_over(answer.json["run_id"])
    assert (continued.outcome, continued.last_step) == ("completed", 12000), continued.reason
    assert f'"run_id":"{stopped}"' in continued.config_json
    assert (halfway.name, continued.name) == ("ppo-cartpole-v1-s1-2", "ppo-cartpole-v1-s1-2-resumed")
    assert final_tensors(daemon, continued.run_id) == final_tensors(daemon, whole)


def test_what_cannot_go_on_is_refused_with_the_reason(daemon: DaemonProcess, mosaic: CommandLine) -> None:
    done = daemon.submit(total_timesteps=1)
    daemon.wait_over(done)
    assert "it completed" in mosaic("resume", done).err
    failed = daemon.submit(total_timesteps=100, misbehave="crash")
    daemon.wait_over(failed)
    refused = mosaic("resume", failed)
    assert (refused.code, "its worker 'toy' does not offer it" in refused.err) == (2, True)
