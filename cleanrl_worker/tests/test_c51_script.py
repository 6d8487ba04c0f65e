"""C51: its projection and gradients against the definition, its buffer, the whole script."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cleanrl_worker.cleanrl import c51
from mosaic_worker.learning.adam import LeanAdam, TargetNetwork
from mosaic_worker.learning.epsilon_greedy import highest_mean
from mosaic_worker.learning.fast_losses.c51 import C51Gradient, project
from mosaic_worker.learning.fast_losses.verified import LearningStep
from mosaic_worker.learning.replay_buffer import Batch
from mosaic_worker.tests.script_tools import (
    differing,
    logged_values,
    run_main,
)

CLEANRL_DEFAULTS = {
    "exp_name": "c51",
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
    "n_atoms": 101,
    "v_min": -100,
    "v_max": 100,
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
    ours = dataclasses.asdict(c51.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


CONTINUOUS = (
    "c51 needs a discrete action space; Pendulum-v1 has Box(1,). "
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
    (["--gamma", "2"], "--gamma must be from 0 to 1, got 2.0."),
    (["--n-atoms", "1"], "--n-atoms must be at least 2, got 1."),
    (["--v-min", "100"], "--v-min must be less than v-max (100.0), got 100.0."),
    (["--exploration-fraction", "-0.1"], "--exploration-fraction must be from 0 to 1, got -0.1."),
    (["--start-e", "0.01"], "--end-e must be at most start-e (0.01), got 0.05."),
    (["--upload-model"], "--upload-model is not available in this version; leave it out."),
    (["--env-id", "Pendulum-v1"], CONTINUOUS),
    (
        ["--env-id", "minigrid:MiniGrid-Empty-5x5-v0"],
        "c51 needs a Box observation space; minigrid:MiniGrid-Empty-5x5-v0 has a Dict of direction, image, mission.",
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
    assert run_main(c51, monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"c51: {sentence}\n"
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


def textbook_projection(
    probabilities: Tensor, rewards: Tensor, terminated: Tensor, args: c51.Args
) -> list[list[float]]:
    """The projection atom by atom, as the paper's algorithm states it."""
    spacing = (args.v_max - args.v_min) / (args.n_atoms - 1)
    rows = []
    for row, reward, end in zip(probabilities.tolist(), rewards.tolist(), terminated.tolist(), strict=True):
        found = [0.0] * args.n_atoms
        for number, probability in enumerate(row):
            atom = args.v_min + number * spacing
            moved = min(max(reward + (0 if end else args.gamma * atom), args.v_min), args.v_max)
            place = (moved - args.v_min) / spacing
            below, above = math.floor(place), math.ceil(place)
            if below == above:
                found[below] += probability
            else:
                found[below] += probability * (above - place)
                found[above] += probability * (place - below)
        rows.append(found)
    return rows


def projected(probabilities: Tensor, rewards: Tensor, terminated: Tensor, args: c51.Args) -> Tensor:
    atoms = torch.linspace(args.v_min, args.v_max, args.n_atoms)
    return project(probabilities, rewards, terminated, atoms, args.gamma)


@pytest.mark.parametrize(
    ("atoms", "low", "high"), [(2, 0.0, 1.0), (11, -5.0, 5.0), (51, -10.0, 30.0), (101, -100.0, 100.0)]
)
def test_the_projection_is_that_of_the_paper(atoms: int, low: float, high: float) -> None:
    args = c51.Args(n_atoms=atoms, v_min=low, v_max=high, gamma=0.9)
    torch.manual_seed(2)
    probabilities = torch.randn(60, atoms).mul(2).softmax(dim=1)
    rewards, terminated = torch.randn(60) * (high - low), (torch.rand(60) < 0.4).float()
    found = projected(probabilities, rewards, terminated, args)
    expected = torch.tensor(textbook_projection(probabilities, rewards, terminated, args))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(60))


def test_a_terminated_transition_is_worth_its_reward_for_certain() -> None:
    args = c51.Args(n_atoms=5, v_min=-2, v_max=2)
    found = projected(torch.full((3, 5), 0.2), torch.tensor([1.0, 0.5, 9.0]), torch.ones(3), args)
    expected = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1.0]])
    torch.testing.assert_close(found, expected)


def test_the_projection_keeps_the_mean_where_no_atom_leaves_the_range() -> None:
    args = c51.Args(n_atoms=41, v_min=-20, v_max=20, gamma=0.5)
    atoms = torch.linspace(-20, 20, 41)
    probabilities = torch.randn(10, 41).softmax(dim=1)
    rewards = torch.linspace(-5, 5, 10)
    found = projected(probabilities, rewards, torch.zeros(10), args)
    torch.testing.assert_close(found @ atoms, rewards + 0.5 * probabilities @ atoms, rtol=1e-4, atol=1e-4)


SMALL = c51.Args(n_atoms=21, v_min=-5, v_max=5, learning_rate=1e-2, batch_size=32)


def learning(args: c51.Args) -> tuple[LearningStep, c51.QNetwork, c51.QNetwork]:
    """As `train` puts them together."""
    torch.manual_seed(1)
    network, target = c51.QNetwork(4, 3, args), c51.QNetwork(4, 3, args).requires_grad_(False)
    adam = LeanAdam(network.parameters(), args.learning_rate, epsilon=0.01 / args.batch_size)
    follower, fast = TargetNetwork(target, adam.vector), C51Gradient(adam, target, network.atoms, args.gamma)
    learn = LearningStep(adam, follower, lambda batch: c51.loss_of(network, target, batch, args), fast)
    return learn, network, target


def test_the_fast_gradient_is_that_of_the_loss_in_the_script() -> None:
    learn, network, target = learning(SMALL)
    for parameter in target.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    for rows in (1, 2, 32, 128):
        batch = some_batch(rows)
        assert learn.fast is not None
        found = learn.fast(batch)
        written = learn.adam.gradient.clone()
        learn.adam.gradient.zero_()
        loss, values = c51.loss_of(network, target, batch, SMALL)
        loss.backward()
        torch.testing.assert_close(written, learn.adam.gradient, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found, (loss.detach(), values.detach()), rtol=1e-5, atol=1e-5)


def test_gradient_steps_equal_torch_adam_on_the_textbook_loss() -> None:
    learn, network, target = learning(SMALL)
    last: Any = target.network[4]
    last.bias.add_(torch.randn(63))  # a target network that differs, as it does between its updates
    reference = c51.QNetwork(4, 3, SMALL).requires_grad_(True)
    reference.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-2, eps=0.01 / 32)
    batch, rows = some_batch(), torch.arange(32)
    for _ in range(5):
        after = target(batch.next_observations).softmax(dim=2)
        best = (after * target.atoms).sum(dim=2).argmax(dim=1)
        expected = torch.tensor(textbook_projection(after[rows, best], batch.rewards, batch.terminated, SMALL))
        probabilities = reference(batch.observations)[rows, batch.actions[:, 0]].softmax(dim=1)
        loss = -(expected * probabilities.log()).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        found_loss, found_value = learn(batch)
        gradients = nn.utils.parameters_to_vector([p.grad for p in reference.parameters() if p.grad is not None])
        torch.testing.assert_close(learn.adam.gradient, gradients, rtol=1e-3, atol=1e-5)
        optimizer.step()
        assert found_loss.item() == pytest.approx(loss.item(), rel=1e-4)
        value = (probabilities * target.atoms).sum(dim=1).mean().item()
        assert found_value.item() == pytest.approx(value, rel=1e-3, abs=1e-4)
    for mine, theirs in zip(network.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-3, atol=1e-4)


def test_the_target_network_starts_as_the_network_and_moves_only_on_request() -> None:
    learn, network, target = learning(SMALL)
    assert differing(dict(network.state_dict()), dict(target.state_dict())) == []
    before = learn.target.vector.clone()
    learn(some_batch())
    assert torch.equal(learn.target.vector, before) and not torch.equal(learn.adam.vector, before)
    learn.target.follow(1.0)
    assert differing(dict(network.state_dict()), dict(target.state_dict())) == []


def test_acting_in_numpy_agrees_with_the_network_and_follows_its_parameters() -> None:
    learn, network, _ = learning(SMALL)
    best = highest_mean(network.network, network.atoms)
    observations = torch.randn(200, 4)
    chosen = []
    for _ in range(2):
        chosen.append(best(observations.numpy()).tolist())
        assert chosen[-1] == (network(observations).softmax(dim=2) * network.atoms).sum(dim=2).argmax(dim=1).tolist()
        for _ in range(20):
            learn(some_batch())
    assert chosen[0] != chosen[1]


# --- the script --------------------------------------------------------------------------------------------


def test_c51_learns_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ["--learning-starts", "1000", "--train-frequency", "4", "--learning-rate", "1e-3"]
    flags = ["--total-timesteps", "12000", "--exploration-fraction", "0.3", *quick, "--seed", "2"]
    assert run_main(c51, monkeypatch, tmp_path, *flags) == 0
    returns = logged_values(tmp_path, "charts/episodic_return")
    assert np.mean(returns[:20]) < 50
    assert np.mean(returns[-20:]) >= 120
    assert max(returns) <= 500
