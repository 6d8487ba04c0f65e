"""What DQN and C51 have in common as scripts: what they log, what they save, and that a stop costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cleanrl_worker.cleanrl import c51, dqn
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    newest_tensors,
    only_run,
    run_main,
    run_until,
)

EPISODE_TAGS = {"charts/episodic_return", "charts/episodic_length", "charts/epsilon"}
UPDATE_TAGS = {
    "dqn": {"charts/SPS", "losses/td_loss", "losses/q_values"},
    "c51": {"charts/SPS", "losses/loss", "losses/q_values"},
}
SHORT = ["--total-timesteps", "1500", "--learning-starts", "200", "--buffer-size", "400", "--batch-size", "16"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As the scripts do: more threads make networks this small many times slower on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(params=[dqn, c51], ids=["dqn", "c51"])
def script(request: pytest.FixtureRequest) -> ModuleType:
    found: ModuleType = request.param
    return found


def name_of(script: ModuleType) -> str:
    return script.__name__.rpartition(".")[2]


def test_cuda_without_a_device_is_refused(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_main(script, monkeypatch, tmp_path, "--cuda") == 2
    assert "PyTorch finds no CUDA device" in capsys.readouterr().err


def test_episodes_and_updates_are_logged_under_cleanrl_tags(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(script, monkeypatch, tmp_path, *SHORT) == 0
    rows = logged_rows(tmp_path)
    updates = [(step, values) for step, values in rows if "charts/SPS" in values]
    episodes = [values for _, values in rows if "charts/episodic_return" in values]
    assert [step for step, _ in updates] == list(range(300, 1501, 100))
    assert all(values.keys() == UPDATE_TAGS[name_of(script)] for _, values in updates)
    assert all(values.keys() == EPISODE_TAGS for values in episodes) and len(episodes) > 10
    assert 1000 <= sum(values["charts/episodic_length"] for values in episodes) <= 1500


def test_the_same_seed_gives_the_same_bits(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number, seed in enumerate(("5", "5", "6")):
        assert run_main(script, monkeypatch, tmp_path / str(number), *SHORT, "--seed", seed) == 0
        found.append(newest_tensors(tmp_path / str(number)))
    first, again, other = found
    assert differing(first, again) == []
    assert "q_network.network.0.weight" in differing(first, other)


def test_checkpoints_come_at_the_interval_and_at_the_end_with_the_size_of_the_buffer(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--total-timesteps", "1000", "--num-envs", "3", "--checkpoint-every", "400", "--learning-starts", "100"]
    assert run_main(script, monkeypatch, tmp_path, *flags) == 0
    manifests = [checkpoints.load(path).manifest for path in checkpoints_of(tmp_path)]
    assert [manifest.step for manifest in manifests] == [402, 804, 1002]
    last = manifests[-1]
    assert (last.algo, last.env_id, last.args["num_envs"]) == (name_of(script), "CartPole-v1", 3)
    assert last.spaces["action"]["n"] == 2 and last.spaces["observation"]["shape"] == [4]
    assert "The checkpoint at step 402 includes the replay buffer: 402 transitions, 0.0 MB." in capsys.readouterr().out


def test_a_loss_that_is_not_finite_fails_the_run_and_keeps_the_last_good_checkpoint(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--learning-rate", "1e30", "--checkpoint-every", "150"]
    assert run_main(script, monkeypatch, tmp_path, *flags) == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [150]


def test_a_run_too_short_to_learn_says_so(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(script, monkeypatch, tmp_path, "--total-timesteps", "50") == 0
    assert "Nothing will be learned: --learning-starts is 10,000" in capsys.readouterr().out


@pytest.mark.parametrize("envs", [pytest.param("1", marks=pytest.mark.nightly), "3"])
@pytest.mark.parametrize(
    "stop_at",
    [
        pytest.param(3, id="first", marks=pytest.mark.nightly),
        pytest.param(150, id="filling", marks=pytest.mark.nightly),
        pytest.param(201, id="learning", marks=pytest.mark.nightly),
        pytest.param(999, id="amid"),
        pytest.param(1497, id="late", marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, envs: str
) -> None:
    flags = [*SHORT, "--seed", "7", "--num-envs", envs, "--target-network-frequency", "70"]
    assert run_main(script, monkeypatch, tmp_path / "whole", *flags) == 0
    stopped = run_until(stop_at, script, monkeypatch, tmp_path / "half", *flags)
    assert run_main(script, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


def test_a_run_resumed_without_its_buffer_fills_it_before_it_learns_again(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = run_until(900, script, monkeypatch, tmp_path / "half", *SHORT, "--no-save-buffer")
    assert len(checkpoints.load(stopped).tensors["buffer.contents.rows"]) == 0
    assert run_main(script, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    updates = [step for step, values in logged_rows(tmp_path / "rest") if "charts/SPS" in values]
    assert updates == [1100, 1200, 1300, 1400, 1500]


def test_a_warm_start_takes_over_the_networks_alone(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(script, monkeypatch, tmp_path / "first", *SHORT) == 0
    (path,) = checkpoints_of(tmp_path / "first")
    flags = ["--total-timesteps", "20", "--warm-start", str(path), "--seed", "9"]
    assert run_main(script, monkeypatch, tmp_path / "second", *flags) == 0
    given, found = newest_tensors(tmp_path / "first"), newest_tensors(tmp_path / "second")
    networks = [name for name in given if "network." in name]
    assert len(networks) == 12 and all(torch.equal(given[name], found[name]) for name in networks)
    assert len(found["buffer.contents.rows"]) == 20 and not found["learner.mean"].any()


def test_a_checkpoint_of_another_environment_is_refused(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(script, monkeypatch, tmp_path, "--total-timesteps", "20") == 0
    (path,) = checkpoints_of(tmp_path)
    assert run_main(script, monkeypatch, tmp_path, "--env-id", "Acrobot-v1", "--warm-start", str(path)) == 2
    assert "its environment is CartPole-v1, this run's is Acrobot-v1" in capsys.readouterr().err


def test_the_script_stands_alone_as_a_file(script: ModuleType, tmp_path: Path) -> None:
    assert script.__file__ is not None
    command = [sys.executable, script.__file__, "--env-id", "Acrobot-v1", "--total-timesteps", "600"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Training for 600 steps" in done.stdout
    assert only_run(tmp_path).name.startswith(f"Acrobot-v1__{name_of(script)}__1__")
