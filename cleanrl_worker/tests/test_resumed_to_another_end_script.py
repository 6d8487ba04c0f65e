"""PPO resumed with another `--total-timesteps` than it was stopped with: every rollout counts for what it is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from cleanrl_worker.cleanrl import ppo, ppo_atari, ppo_continuous_action, ppo_rnd_envpool
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_values,
    newest_tensors,
    run_main,
    run_until,
)

SMALL = ["--num-envs", "2", "--num-steps", "20", "--num-minibatches", "2", "--update-epochs", "2"]
SMALL += ["--checkpoint-every", "0"]
ENVIRONMENTS = {ppo: "CartPole-v1", ppo_continuous_action: "Pendulum-v1", ppo_atari: "ALE/Breakout-v5"}
TRAINED = ["learner.mean", "learner.mean_square"]


@pytest.fixture(params=ENVIRONMENTS, ids=lambda script: script.__name__.rpartition(".")[2])
def script(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def flags_of(script: ModuleType, total: int) -> list[str]:
    return [*SMALL, "--env-id", ENVIRONMENTS[script], "--total-timesteps", str(total)]


def last_step(directory: Path) -> int:
    return checkpoints.read_manifest(checkpoints_of(directory)[-1]).step


@pytest.mark.parametrize("stop_at", [80, 90], ids=["its beginning", "amid"])
def test_a_run_that_was_stopped_in_its_short_last_rollout_goes_on_as_a_longer_run_would(
    script: ModuleType, stop_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = "--no-anneal-lr"  # a rate that falls is another one in a longer run
    stopped = run_until(stop_at, script, monkeypatch, tmp_path / "half", *flags_of(script, 100), steady)
    assert run_main(script, monkeypatch, tmp_path / "whole", *flags_of(script, 160), steady) == 0
    rest = ["--resume", str(stopped), "--total-timesteps", "160"]
    assert run_main(script, monkeypatch, tmp_path / "rest", *rest) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


def test_a_run_that_was_over_goes_on_to_its_new_end_and_learns_all_the_way(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "0"
    assert run_main(script, monkeypatch, directory, *flags_of(script, 90)) == 0
    for total in (94, 98, 102):  # three short rollouts more, within two whole ones
        over, directory = checkpoints_of(directory)[-1], tmp_path / str(total)
        assert run_main(script, monkeypatch, directory, "--resume", str(over), "--total-timesteps", str(total)) == 0
        assert last_step(directory) == total
        (rate,) = set(logged_values(directory, "charts/learning_rate"))
        assert 0 < rate < 2.5e-4
    assert differing(newest_tensors(tmp_path / "98"), newest_tensors(tmp_path / "102"))


def test_an_end_within_the_open_rollout_closes_it_with_the_steps_that_were_made(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = run_until(90, script, monkeypatch, tmp_path / "half", *flags_of(script, 160))
    before = checkpoints.load(stopped).tensors
    rest = ["--resume", str(stopped), "--total-timesteps", "84"]
    assert run_main(script, monkeypatch, tmp_path / "rest", *rest) == 0
    last = checkpoints.load(checkpoints_of(tmp_path / "rest")[-1])
    after, rollout = last.tensors, last.manifest.state["rollout"]
    assert last.manifest.step == 90
    assert (rollout["content"]["steps"] if script is ppo_atari else len(after["rollout.actions"])) == 5
    assert all(not before[name].equal(after[name]) and after[name].isfinite().all() for name in TRAINED)
    assert len(logged_values(tmp_path / "rest", "losses/value_loss")) == 1


@pytest.mark.parametrize("script", [*ENVIRONMENTS, ppo_rnd_envpool])
def test_rollouts_of_another_length_are_refused(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alike = ["--env-id", "Breakout-v5", "--env-backend", "ale", "--num-iterations-obs-norm-init", "0"]
    flags = flags_of(script, 80) if script in ENVIRONMENTS else [*SMALL, "--total-timesteps", "80", *alike]
    assert run_main(script, monkeypatch, tmp_path / "one", *flags) == 0
    (path,) = checkpoints_of(tmp_path / "one")
    for steps in ("10", "40"):
        other = ["--resume", str(path), "--num-steps", steps, "--total-timesteps", "200"]
        assert run_main(script, monkeypatch, tmp_path / steps, *other) == 2
        said = f"{path} cannot be used: its --num-steps is 20, this run's is {steps}; leave it as it was\n"
        assert capsys.readouterr().err.endswith(said)
