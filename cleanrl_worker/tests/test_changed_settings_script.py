"""What the manifest says a run may change as it goes on: it is a flag of the script, it resumes, and it has effect."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from cleanrl_worker.config import PACKAGE
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.scripts.flags import read_flags
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.script_tools import checkpoints_of, logged_values, run_main, run_until

ALGORITHMS = {name: one for name, one in load_manifest(PACKAGE).algorithms.items() if one.changeable_params}
SMALL = {
    "ppo": "--num-envs 2 --num-steps 20 --num-minibatches 2 --update-epochs 2",
    "ppo_jax": "--num-envs 2 --num-steps 20 --num-minibatches 4 --update-epochs 2",
    "ppo_continuous_action": "--num-envs 2 --num-steps 20 --num-minibatches 2 --update-epochs 2",
    "dqn": "--buffer-size 100 --learning-starts 20 --batch-size 8 --train-frequency 2",
    "dqn_jax": "--buffer-size 100 --learning-starts 20 --batch-size 8 --train-frequency 2 --no-compiled-envs",
    "c51": "--buffer-size 100 --learning-starts 20 --batch-size 8 --train-frequency 2",
    "c51_jax": "--buffer-size 100 --learning-starts 20 --batch-size 8 --train-frequency 2 --no-compiled-envs",
    "sac_continuous_action": "--buffer-size 100 --learning-starts 20 --batch-size 8",
    "sac_jax": "--buffer-size 100 --learning-starts 20 --batch-size 8",
    "td3_jax": "--buffer-size 100 --learning-starts 20 --batch-size 8",
    "td3_continuous_action": "--buffer-size 100 --learning-starts 20 --batch-size 8",
}
EVERY_TIME = ("ppo", "dqn")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_may_change_is_a_flag_of_the_script(name: str) -> None:
    script = ALGORITHMS[name].script
    assert script is not None
    assert set(ALGORITHMS[name].changeable_params) <= read_flags(PACKAGE / script).keys()


def _other(value: Any) -> Any:
    """Another value that is as good as the default one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 0.5 if value is None else value * 0.9


@pytest.mark.parametrize(
    "name", [name if name in EVERY_TIME else pytest.param(name, marks=pytest.mark.nightly) for name in SMALL]
)
def test_a_run_goes_on_with_everything_changed_that_may_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = importlib.import_module(f"cleanrl_worker.cleanrl.{name}")
    algorithm = ALGORITHMS[name]
    flags = ["--env-id", str(algorithm.example_env), "--total-timesteps", "160", *SMALL[name].split()]
    stopped = run_until(80, script, monkeypatch, tmp_path / "first", *flags, "--checkpoint-every", "0")
    args = checkpoints.read_manifest(stopped).args
    changed = {one: _other(args[one]) for one in algorithm.changeable_params}
    words = ["--resume", str(stopped)]
    for one, value in changed.items():
        flag = one.replace("_", "-")
        words += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    assert run_main(script, monkeypatch, tmp_path / "rest", *words) == 0
    ended = checkpoints.read_manifest(checkpoints_of(tmp_path / "rest")[-1])
    assert (ended.step, {one: ended.args[one] for one in changed}) == (160, changed)
    if "anneal_lr" in changed:  # it was falling, and falls no more
        rates = set(logged_values(tmp_path / "rest", "charts/learning_rate"))
        assert len(rates) == 1
        assert rates.pop() == pytest.approx(changed["learning_rate"])
