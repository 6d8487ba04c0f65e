"""Off-policy scripts in JAX: their arithmetic against their twins', checkpoints of either, and the whole scripts."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from cleanrl_worker.cleanrl import sac_continuous_action, sac_jax, td3_continuous_action, td3_jax
from cleanrl_worker.config import PACKAGE
from mosaic_worker.compiled.networks import part
from mosaic_worker.compiled.xla import jax, jnp
from mosaic_worker.errors import UsageError
from mosaic_worker.learning.replay_buffer import ContinuousBatch
from mosaic_worker.policies.acting import load_acting
from mosaic_worker.scripts.argument_check import check_arguments
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

TWINS = {sac_jax: sac_continuous_action, td3_jax: td3_continuous_action}
SHORT = ["--env-id", "Pendulum-v1", "--total-timesteps", "700", "--learning-starts", "300", "--batch-size", "16"]


@pytest.fixture(autouse=True, scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compiled programs stay in one place for these tests, those of other processes too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_HOME", str(home := tmp_path_factory.mktemp("home")))
        yield home


@pytest.fixture(params=TWINS, ids=lambda script: script.__name__.rpartition(".")[2])
def script(request: pytest.FixtureRequest) -> ModuleType:
    found: ModuleType = request.param
    return found


def name_of(script: ModuleType) -> str:
    return script.__name__.rpartition(".")[2]


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_the_twin(script: ModuleType) -> None:
    ours, theirs = dataclasses.asdict(script.Args()), dataclasses.asdict(TWINS[script].Args())
    assert set(theirs) - set(ours) == {"torch_deterministic", "torch_threads", "cuda"}
    assert set(ours) - set(theirs) == {"xla_threads"}
    shared = set(ours) & set(theirs) - {"exp_name"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


def test_what_cannot_work_is_refused_in_one_sentence(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(script, monkeypatch, tmp_path, "--env-id", "CartPole-v1") == 2
    name = name_of(script)
    said = f"{name}: {name} needs a continuous action space; CartPole-v1 has Discrete(2). Try ppo, dqn or c51.\n"
    assert capsys.readouterr().err == said
    assert run_main(script, monkeypatch, tmp_path, "--xla-threads", "0") == 2
    assert capsys.readouterr().err == f"{name}: --xla-threads must be at least 1, got 0.\n"
    assert list(tmp_path.iterdir()) == []


def test_without_jax_a_run_is_refused_before_it_starts_with_the_command(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs JAX: .* python -m mosaic_worker.extras --set jax"):
        check_arguments(Path(str(script.__file__)), {})


# --- the arithmetic ----------------------------------------------------------------------------------------


class Pair:
    """A learner and its twin with the same networks, a batch, and the noise that both are to draw."""

    def __init__(self, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        space = gym.spaces.Box(-2.0, 4.0, (2,))
        self.args = script.Args(env_id="Pendulum-v1")
        twin_args = TWINS[script].Args(env_id="Pendulum-v1")
        self.twin = TWINS[script].Learner(3, space, twin_args, torch.device("cpu"))
        self.ours = script.first_learner(self.args, 3, space)
        for name in ("actor", "critics", "target_critics", "target_actor"):
            if (module := getattr(self.twin, name, None)) is None:
                continue
            arrays = part(self.ours.learned, name)
            assert arrays.keys() == module.state_dict().keys()
            with torch.no_grad():  # in place: optimisers and followers have views of it
                for key, value in module.state_dict().items():
                    value.copy_(torch.from_numpy(np.array(arrays[key])))
        torch.manual_seed(1)
        rows = torch.randn(16, 3 + 2 + 3 + 2)
        rows[:, -1] = (rows[:, -1] > 1).float()
        self.batch = ContinuousBatch(rows[:, :3], rows[:, :5], rows[:, 5:8], rows[:, 8], rows[:, 9])
        self.rows = jnp.array(rows.numpy())
        self.knobs = {name: np.float32(getattr(self.args, name)) for name in script.TRACED}
        noise = iter(self.noise())
        monkeypatch.setattr(torch, "randn_like", lambda like: torch.from_numpy(next(noise)))

    def noise(self) -> list[np.ndarray]:
        """As the program draws it: for the critics, then for each step of the actor."""
        if isinstance(self.ours, td3_jax.Learner):
            return [np.array(jax.random.normal(jax.random.split(self.ours.key)[1], (16, 2)))]
        _, for_critics, for_actor = jax.random.split(self.ours.key, 3)
        keys = [for_critics, *jax.random.split(for_actor, self.args.policy_frequency)]
        return [np.array(jax.random.normal(key, (16, 2))) for key in keys]


SHAPES = {sac_jax: sac_jax.Shape(3, 2, 2, 1, True), td3_jax: td3_jax.Shape(3, 2, 2)}


def test_an_update_is_that_of_the_twin(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same networks, batch and noise. The first update of an actor is the second of the critics; here it comes
    with the first."""
    pair = Pair(script, monkeypatch)
    pair.ours = pair.ours._replace(updates=jnp.int32(1))
    pair.twin.updates = 1
    ours, (values, losses) = script.program(SHAPES[script])(pair.ours, pair.rows, pair.knobs)
    their_values, their_losses = pair.twin.update(pair.batch)
    np.testing.assert_allclose(values, their_values.mean(1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(losses, their_losses, rtol=1e-3)
    np.testing.assert_allclose(ours.actor_loss, pair.twin.actor_loss, rtol=1e-3, atol=1e-4)
    if script is sac_jax:
        np.testing.assert_allclose(ours.log_alpha["log_alpha"], pair.twin.temperature.log_alpha, rtol=1e-3, atol=1e-6)
    for name in {one.partition(".")[0] for one in ours.learned}:
        arrays = part(ours.learned, name)
        for key, value in getattr(pair.twin, name).state_dict().items():
            np.testing.assert_allclose(arrays[key], value, atol=2e-4, err_msg=f"{name}.{key}")


# --- the scripts -------------------------------------------------------------------------------------------


def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits_and_the_tags_of_the_twin(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(script, monkeypatch, tmp_path / "whole", *SHORT) == 0
    stopped = run_until(501, script, monkeypatch, tmp_path / "half", *SHORT)
    assert run_main(script, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    whole = newest_tensors(tmp_path / "whole")
    assert differing(whole, newest_tensors(tmp_path / "rest")) == []
    assert run_main(script, monkeypatch, tmp_path / "other", *SHORT, "--seed", "2") == 0
    assert "critics.weight_1" in differing(whole, newest_tensors(tmp_path / "other"))
    assert run_main(TWINS[script], monkeypatch, tmp_path / "twin", *SHORT) == 0
    tags = [{frozenset(values) for _, values in logged_rows(tmp_path / one)} for one in ("whole", "twin")]
    assert tags[0] == tags[1] and len(tags[0]) == 2
    learned = {name: value.shape for name, value in whole.items() if name.startswith(("actor.", "critics.", "target_"))}
    theirs = newest_tensors(tmp_path / "twin")
    assert learned == {
        name: value.shape for name, value in theirs.items() if name.startswith(("actor.", "critics.", "target_"))
    }


def test_each_twin_begins_with_the_networks_of_the_other_and_its_checkpoint_acts_without_jax(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twin, name = TWINS[script], name_of(script)
    few = ["--env-id", "Pendulum-v1", "--total-timesteps", "20"]
    made = {}
    for one in (script, twin):
        assert run_main(one, monkeypatch, tmp_path / name_of(one), *few) == 0
        made[one] = checkpoints_of(tmp_path / name_of(one))[-1]
    for one, other in ((script, twin), (twin, script)):
        begun = tmp_path / f"{name_of(one)} begun"
        assert run_main(one, monkeypatch, begun, *few, "--warm-start", str(made[other])) == 0
        given, found = checkpoints.load(made[other]).tensors, newest_tensors(begun)
        assert torch.equal(given["actor.fc1.weight"], found["actor.fc1.weight"])
        assert torch.equal(given["critics.weight_2"], found["critics.weight_2"])
        assert run_main(one, monkeypatch, tmp_path / "no", *few, "--resume", str(made[other])) == 2
        assert "of this twin the networks can be taken over: --warm-start" in capsys.readouterr().err
    loaded = load_acting(made[script], PACKAGE)
    assert name_of(loaded.script) == name_of(twin) and loaded.manifest.algo == name
    rows = np.random.default_rng(5).normal(size=(50, 3)).astype(np.float32)
    chosen = loaded.policy.act(rows, deterministic=True, random=np.random.default_rng(0))
    assert chosen.shape == (50, 1) and np.ptp(chosen) > 0
    assert loaded.policy.appraise(rows)["value"].shape == (50,)  # type: ignore[attr-defined]


def test_networks_that_are_not_finite_end_the_run_and_the_last_good_checkpoint_stays(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = "--learning-rate" if "learning_rate" in {one.name for one in dataclasses.fields(script.Args)} else "--q-lr"
    flags = [*SHORT, rate, "1e30", "--checkpoint-every", "250"]
    assert run_main(script, monkeypatch, tmp_path, *flags) == 1
    assert "networks are no longer finite" in capsys.readouterr().err
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [250]


def test_the_script_stands_alone_as_a_file(script: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, str(script.__file__), "--env-id", "Pendulum-v1", "--total-timesteps", "20"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert only_run(tmp_path).name.startswith(f"Pendulum-v1__{name_of(script)}__1__")
