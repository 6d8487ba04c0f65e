"""DQN: its arithmetic against autograd and the definition, its buffer, the whole script."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cleanrl_worker.cleanrl import dqn
from mosaic_worker.learning.adam import LeanAdam, TargetNetwork
from mosaic_worker.learning.epsilon_greedy import highest_value
from mosaic_worker.learning.fast_losses.dqn import DqnGradient
from mosaic_worker.learning.fast_losses.verified import LearningStep
from mosaic_worker.learning.replay_buffer import Batch
from mosaic_worker.tests.script_tools import (
    differing,
    logged_values,
    run_main,
)

CLEANRL_DEFAULTS = {
    "exp_name": "dqn",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "save_model": False,
    "upload_model": False,
    "hf_entity": "",
    "env_id": "CartPole-v1",
    "total_timesteps": 500_000,
    "learning_rate": 2.5e-4,
    "num_envs": 1,
    "buffer_size": 10_000,
    "gamma": 0.99,
    "tau": 1.0,
    "target_network_frequency": 500,
    "batch_size": 128,
    "start_e": 1,
    "end_e": 0.05,
    "exploration_fraction": 0.5,
    "learning_starts": 10_000,
    "train_frequency": 10,
}
OURS = {"cuda", "torch_threads", "checkpoint_every", "checkpoint_keep", "save_buffer", "resume", "warm_start"}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As the script does: more threads make networks this small many times slower on a busy machine."""
    torch.set_num_threads(1)


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(dqn.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


CONTINUOUS = (
    "dqn needs a discrete action space; Pendulum-v1 has Box(1,). "
    "Try sac_continuous_action, td3_continuous_action or ppo_continuous_action."
)
BAD_FLAGS = [
    (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0."),
    (["--num-envs", "0"], "--num-envs must be at least 1, got 0."),
    (["--buffer-size", "-3"], "--buffer-size must be at least 1, got -3."),
    (["--batch-size", "0"], "--batch-size must be at least 1, got 0."),
    (["--train-frequency", "0"], "--train-frequency must be at least 1, got 0."),
    (["--target-network-frequency", "0"], "--target-network-frequency must be at least 1, got 0."),
    (["--learning-starts", "-1"], "--learning-starts must be 0 or more, got -1."),
    (["--seed", "-1"], "--seed must be 0 or more, got -1."),
    (["--learning-rate", "nan"], "--learning-rate must be more than 0, got nan."),
    (["--tau", "2"], "--tau must be from 0 to 1, got 2.0."),
    (["--exploration-fraction", "-0.1"], "--exploration-fraction must be from 0 to 1, got -0.1."),
    (["--start-e", "0.01"], "--end-e must be at most start-e (0.01), got 0.05."),
    (["--upload-model"], "--upload-model is not available in this version; leave it out."),
    (["--env-id", "Pendulum-v1"], CONTINUOUS),
    (
        ["--env-id", "minigrid:MiniGrid-Empty-5x5-v0"],
        "dqn needs a Box observation space; minigrid:MiniGrid-Empty-5x5-v0 has a Dict of direction, image, mission.",
    ),
    (["--env-id", "CartPol-v1"], "There is no environment 'CartPol-v1'; did you mean 'CartPole-v1'?"),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(dqn, monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"dqn: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


# --- the arithmetic ----------------------------------------------------------------------------------------


def some_batch(rows: int = 32) -> Batch:
    torch.manual_seed(3)
    return Batch(
        observations=torch.randn(rows, 4),
        next_observations=torch.randn(rows, 4),
        actions=torch.randint(0, 3, (rows, 1)),
        rewards=torch.randn(rows),
        terminated=(torch.rand(rows) < 0.3).float(),
    )


def learning(args: dqn.Args) -> tuple[LearningStep, dqn.QNetwork, dqn.QNetwork]:
    """As `train` puts them together."""
    torch.manual_seed(1)
    network, target = dqn.QNetwork(4, 3), dqn.QNetwork(4, 3).requires_grad_(False)
    adam = LeanAdam(network.parameters(), args.learning_rate)
    follower, fast = TargetNetwork(target, adam.vector), DqnGradient(adam, target, args.gamma)
    learn = LearningStep(adam, follower, lambda batch: dqn.loss_of(network, target, batch, args), fast)
    return learn, network, target


def test_the_fast_gradient_is_that_of_the_loss_in_the_script() -> None:
    args = dqn.Args(gamma=0.9)
    learn, network, target = learning(args)
    with torch.no_grad():
        for parameter in target.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    for rows in (1, 2, 32, 128):
        batch = some_batch(rows)
        assert learn.fast is not None
        found = learn.fast(batch)
        written = learn.adam.gradient.clone()
        learn.adam.gradient.zero_()
        loss, values = dqn.loss_of(network, target, batch, args)
        loss.backward()
        torch.testing.assert_close(written, learn.adam.gradient, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found, (loss.detach(), values.detach()), rtol=1e-5, atol=1e-6)


def test_gradient_steps_equal_torch_adam_on_the_textbook_loss() -> None:
    args = dqn.Args(learning_rate=1e-2)
    learn, network, target = learning(args)
    with torch.no_grad():
        last: Any = target.network[4]
        last.bias.add_(1.0)  # a target network that differs, as it does between its updates
    reference = dqn.QNetwork(4, 3).requires_grad_(True)
    reference.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-2)
    batch = some_batch()
    for _ in range(5):
        values = reference(batch.observations)[torch.arange(32), batch.actions[:, 0]]
        best = target(batch.next_observations).max(dim=1).values
        expected = torch.where(batch.terminated == 1, batch.rewards, batch.rewards + args.gamma * best)
        loss = nn.functional.mse_loss(values, expected)
        optimizer.zero_grad()
        loss.backward()
        found_loss, found_value = learn(batch)
        gradients = nn.utils.parameters_to_vector([p.grad for p in reference.parameters() if p.grad is not None])
        torch.testing.assert_close(learn.adam.gradient, gradients, rtol=1e-3, atol=1e-5)
        optimizer.step()
        assert found_loss.item() == pytest.approx(loss.item(), rel=1e-4)
        assert found_value.item() == pytest.approx(values.mean().item(), rel=1e-3, abs=1e-5)
    for mine, theirs in zip(network.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-3, atol=1e-5)


def test_the_target_network_starts_as_the_network_and_moves_only_on_request() -> None:
    learn, network, target = learning(dqn.Args())
    assert differing(dict(network.state_dict()), dict(target.state_dict())) == []
    before = learn.target.vector.clone()
    learn(some_batch())
    assert torch.equal(learn.target.vector, before) and not torch.equal(learn.adam.vector, before)
    learn.target.follow(1.0)
    assert differing(dict(network.state_dict()), dict(target.state_dict())) == []


def test_acting_in_numpy_agrees_with_the_network_and_follows_its_parameters() -> None:
    learn, network, _ = learning(dqn.Args(learning_rate=0.01))
    best = highest_value(network.network)
    observations = torch.randn(200, 4)
    chosen = []
    for _ in range(2):
        chosen.append(best(observations.numpy()).tolist())
        assert chosen[-1] == network(observations).argmax(dim=1).tolist()
        for _ in range(100):
            learn(some_batch())
    assert chosen[0] != chosen[1]


# --- the script --------------------------------------------------------------------------------------------


def test_dqn_learns_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ["--learning-starts", "1000", "--train-frequency", "4", "--learning-rate", "1e-3"]
    flags = ["--total-timesteps", "16000", "--exploration-fraction", "0.3", *quick, "--seed", "2"]
    assert run_main(dqn, monkeypatch, tmp_path, *flags) == 0
    returns = logged_values(tmp_path, "charts/episodic_return")
    assert np.mean(returns[:20]) < 50
    assert np.mean(returns[-20:]) >= 120
    assert max(returns) <= 500
