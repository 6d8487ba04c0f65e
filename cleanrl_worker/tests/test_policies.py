"""What a script learned acts again as it did in training."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from cleanrl_worker.config import PACKAGE
from cleanrl_worker.tests.policy_tools import ENVIRONMENTS, loaded_from, new_checkpoint
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.errors import UsageError
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.acting import LoadedPolicy, brief_space, script_for
from mosaic_worker.policies.policy import fill
from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import CheckpointError

RANDOM = np.random.default_rng(0)


def observations(loaded: LoadedPolicy, count: int = 200) -> np.ndarray:
    shape = loaded.manifest.spaces["observation"]["shape"]
    return np.random.default_rng(5).normal(size=(count, *shape)).astype(np.float32)


def reference_actions(loaded: LoadedPolicy, batch: np.ndarray) -> np.ndarray:
    """The deterministic actions by the script's own network in torch, built the long way round."""
    tensors, script, rows = loaded.checkpoint.tensors, loaded.script, torch.from_numpy(batch)
    part = {"q_network": "q_network", "agent": "agent", "actor": "actor"}
    whole = next(name for name in part if any(key.startswith(f"{name}.") for key in tensors))
    own = {key.removeprefix(f"{whole}."): value for key, value in tensors.items() if key.startswith(f"{whole}.")}
    with gym.make(loaded.manifest.env_id) as env:
        size, space = int(np.prod(env.observation_space.shape or ())), env.action_space
    count = loaded.manifest.spaces["action"].get("n", 0)
    algo = loaded.manifest.algo
    if algo == "ppo":
        network: Any = script.Agent(size, count)
    elif algo == "ppo_continuous_action":
        network = script.Agent(size, 1)
    elif algo == "c51":
        network = script.QNetwork(size, count, loaded.args)
    elif algo == "dqn":
        network = script.QNetwork(size, count)
    else:
        network = script.Actor(size, space)
    network.load_state_dict(own)
    with torch.no_grad():
        if algo == "ppo":
            return network.actor(rows).argmax(1).numpy()
        if algo == "dqn":
            return network(rows).argmax(1).numpy()
        if algo == "c51":
            return (network(rows).softmax(2) @ network.atoms).argmax(1).numpy()
        if algo == "td3_continuous_action":
            return network(rows).numpy()
        if algo == "sac_continuous_action":
            return (network(rows)[0].tanh() * network.action_scale + network.action_bias).numpy()
        mean, variance = tensors["normaliser.observations.mean"], tensors["normaliser.observations.variance"]
        normal = ((rows - mean) / (variance + 1e-8).sqrt()).clamp(-10, 10).float()
        return network.actor_mean(normal).clamp(-2, 2).numpy()


@pytest.mark.parametrize("algo", ENVIRONMENTS)
def test_a_policy_says_what_it_expects(algo: str, tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, algo))
    batch = observations(loaded)
    opinion = loaded.policy.appraise(batch)  # type: ignore[attr-defined]
    preferred = loaded.policy.act(batch, deterministic=True, random=RANDOM)
    assert opinion["value"].shape == (len(batch),) and np.isfinite(opinion["value"]).all()
    assert np.ptp(opinion["value"]) > 0, "states are told apart"
    if preferred.dtype.kind == "i":
        told = opinion["probabilities" if algo == "ppo" else "action_values"]
        assert told.shape == (len(batch), 2) and (told.argmax(1) == preferred).all()
    if algo == "ppo":
        np.testing.assert_allclose(opinion["probabilities"].sum(1), 1, rtol=1e-5)
    if algo in ("sac_continuous_action", "td3_continuous_action"):
        critics = TwinCritics(batch.shape[1] + preferred.shape[1])
        fill(critics, "critics", loaded.checkpoint)
        rows = torch.from_numpy(np.concatenate([batch, preferred], axis=1))
        expected = torch.stack([critic(rows) for critic in critics.textbook()]).amin(0).detach().numpy()
        np.testing.assert_allclose(opinion["value"], expected, atol=1e-4)


@pytest.mark.parametrize("algo", ENVIRONMENTS)
def test_a_policy_chooses_what_the_network_of_its_training_would(algo: str, tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, algo))
    batch = observations(loaded)
    chosen = loaded.policy.act(batch, deterministic=True, random=RANDOM)
    expected = reference_actions(loaded, batch)
    assert chosen.shape == expected.shape
    if chosen.dtype.kind == "i":
        assert set(chosen.tolist()) == {0, 1}, "a network that always says the same tests nothing"
        assert (chosen == expected).mean() > 0.99  # values that tie to the last bit may differ in numpy
    else:
        np.testing.assert_allclose(chosen, expected, atol=1e-4)


@pytest.mark.parametrize("algo", ENVIRONMENTS)
def test_sampled_actions_come_from_the_generator_alone_and_fit_the_environment(algo: str, tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, algo))
    batch = observations(loaded)
    once, again, other = (
        loaded.policy.act(batch, deterministic=False, random=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    with loaded.make_env() as env:
        assert all(env.action_space.contains(action) for action in once.astype(env.action_space.dtype))


def test_a_dqn_samples_at_random_as_often_as_at_the_end_of_its_training(tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, "dqn"))
    batch = observations(loaded, count=20_000)
    best = loaded.policy.act(batch, deterministic=True, random=RANDOM)
    drawn = loaded.policy.act(batch, deterministic=False, random=np.random.default_rng(1))
    assert np.mean(best != drawn) == pytest.approx(loaded.args.end_e / 2, rel=0.2)  # half of the draws hit the best


def test_frozen_statistics_do_not_change_by_acting(tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, "ppo_continuous_action"))
    batch = observations(loaded) * 50
    first = loaded.policy.act(batch, deterministic=True, random=RANDOM)
    for _ in range(3):
        loaded.policy.act(batch * 100, deterministic=True, random=RANDOM)
    assert np.array_equal(first, loaded.policy.act(batch, deterministic=True, random=RANDOM))


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_another_environment_with_the_same_spaces_is_accepted(tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, "ppo"))
    with loaded.make_env("CartPole-v0") as env:
        assert env.spec is not None and env.spec.id == "CartPole-v0"


def test_another_environment_with_other_spaces_is_refused_by_name(tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, "ppo"))
    with pytest.raises(UsageError) as refused:
        loaded.make_env("Acrobot-v1")
    assert str(refused.value) == (
        "this policy of CartPole-v1 does not fit Acrobot-v1: it needs observations in Box(4,) and actions in "
        "Discrete(2), Acrobot-v1 has observations in Box(6,) and actions in Discrete(3)"
    )


def test_an_environment_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, "ppo"))
    with pytest.raises(UsageError, match="'CartPole-v1'"):
        loaded.make_env("CartPole-v11")


def test_tensors_that_do_not_fit_are_named(tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "ppo")
    whole = checkpoints.load(path)
    fewer = {name: tensor for name, tensor in whole.tensors.items() if name != "agent.actor.0.weight"}
    broken = new_checkpoint(tmp_path / "b", "ppo", tensors=fewer | {"agent.actor.4.bias": torch.zeros(3)})
    with pytest.raises(CheckpointError) as refused:
        loaded_from(broken)
    assert "agent.actor.0.weight is missing" in str(refused.value)
    assert "agent.actor.4.bias is [3] there and [2] here" in str(refused.value)


@pytest.mark.parametrize(
    ("algo", "words"),
    [
        ("cleanrl/rpo_continuous_action", "a script that does not know MOSAIC"),
        ("cleanrl/ppo_continuous_action", "can be resumed, not evaluated"),
        ("ppq", "there is no algorithm 'ppq' here; did you mean 'ppo'?"),
    ],
)
def test_an_algorithm_that_cannot_act_here_is_refused_in_one_sentence(algo: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as refused:
        script_for(algo, PACKAGE)
    assert words in str(refused.value)


def test_spaces_are_described_in_a_few_characters() -> None:
    assert brief_space(checkpoints.describe_space(gym.spaces.Box(0, 255, (84, 84, 4), np.uint8))) == "Box(84, 84, 4)"
    assert brief_space(checkpoints.describe_space(gym.spaces.Discrete(2))) == "Discrete(2)"


@pytest.mark.parametrize("algo", load_manifest(PACKAGE).algorithms)
def test_every_script_says_how_its_checkpoints_act(algo: str) -> None:
    script = script_for(algo, PACKAGE)
    assert list(inspect.signature(script.load_policy).parameters) == ["checkpoint", "args"]
    assert list(inspect.signature(script.make_evaluation_env).parameters) == ["args", "render_mode"]
