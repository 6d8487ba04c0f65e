"""Gradients that are written out against autograd on the textbook loss, and what happens when a loss is another one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mosaic_worker.learning.adam import LeanAdam, TargetNetwork
from mosaic_worker.learning.fast_losses import c51, dqn
from mosaic_worker.learning.fast_losses.rectified import is_rectified
from mosaic_worker.learning.fast_losses.verified import LearningStep
from mosaic_worker.learning.replay_buffer import Batch

SHAPES = [(1, 1, 2, (8,)), (5, 4, 3, (16, 8)), (128, 4, 2, (120, 84)), (33, 11, 6, (7, 9, 5)), (2, 27, 18, ())]
"""(rows, observation size, actions, hidden sizes)"""


def rectified(sizes: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def some_batch(rows: int, size: int, actions: int) -> Batch:
    return Batch(
        observations=torch.randn(rows, size),
        next_observations=torch.randn(rows, size),
        actions=torch.randint(actions, (rows, 1)),
        rewards=torch.randn(rows) * 3,
        terminated=(torch.rand(rows) < 0.3).float(),
    )


class Distributions(nn.Module):
    def __init__(self, network: nn.Module, atoms: int) -> None:
        super().__init__()
        self.network, self.atoms = network, atoms

    def forward(self, observations: Tensor) -> Tensor:
        return self.network(observations).view(len(observations), -1, self.atoms)


def by_autograd(adam: LeanAdam, loss: Tensor) -> Tensor:
    adam.gradient.zero_()
    loss.backward()
    return adam.gradient.clone()


@pytest.mark.parametrize(("rows", "size", "actions", "hidden"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_dqn_is_that_of_autograd(
    rows: int, size: int, actions: int, hidden: tuple[int, ...], seed: int
) -> None:
    torch.manual_seed(seed)
    network, target = (rectified((size, *hidden, actions)) for _ in range(2))
    target.requires_grad_(False)
    adam, batch = LeanAdam(network.parameters(), 1e-3), some_batch(rows, size, actions)
    loss, values = dqn.DqnGradient(adam, target, 0.97)(batch)
    written = adam.gradient.clone()
    expected_loss, expected_values = dqn.textbook_loss(network, target, batch, 0.97)
    torch.testing.assert_close(written, by_autograd(adam, expected_loss), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close((loss, values), (expected_loss.detach(), expected_values.detach()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "size", "actions", "hidden"), SHAPES)
@pytest.mark.parametrize("atoms", [2, 11, 51])
def test_the_gradient_of_c51_is_that_of_autograd(
    rows: int, size: int, actions: int, hidden: tuple[int, ...], atoms: int
) -> None:
    torch.manual_seed(atoms)
    places = torch.linspace(-4, 5, atoms)
    network, target = (Distributions(rectified((size, *hidden, actions * atoms)), atoms) for _ in range(2))
    target.requires_grad_(False)
    adam, batch = LeanAdam(network.parameters(), 1e-3), some_batch(rows, size, actions)
    loss, values = c51.C51Gradient(adam, target, places, 0.97)(batch)
    written = adam.gradient.clone()
    expected_loss, expected_values = c51.textbook_loss(network, target, places, batch, 0.97)
    torch.testing.assert_close(written, by_autograd(adam, expected_loss), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close((loss, values), (expected_loss.detach(), expected_values.detach()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "atoms"), [(1, 2), (4, 5), (9, 51), (3, 101)])
def test_the_projection_is_that_of_the_textbook(rows: int, atoms: int) -> None:
    torch.manual_seed(rows)
    places = torch.linspace(-10, 7, atoms)
    probabilities = torch.randn(rows, atoms).softmax(dim=1)
    rewards, terminated = torch.randn(rows) * 8, (torch.arange(rows) % 2).float()
    found = c51.project(probabilities, rewards, terminated, places, 0.9)
    expected = c51.textbook_projection(probabilities, rewards, terminated, places, 0.9)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(rows))


@pytest.mark.parametrize(
    ("network", "is_one"),
    [
        (rectified((4, 8, 2)), True),
        (rectified((4, 2)), True),
        (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), False),
        (nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2)), False),
        (nn.Sequential(nn.Linear(4, 8), nn.ReLU()), False),
        (nn.Linear(4, 2), False),
    ],
)
def test_only_linear_layers_with_rectified_units_between_are_written_out(network: nn.Module, is_one: bool) -> None:
    assert is_rectified(network) is is_one


class Learning:
    """DQN's networks, with a loss that a reader may have changed."""

    def __init__(self, loss_of: Any = None) -> None:
        torch.manual_seed(4)
        self.network, self.target = (rectified((4, 16, 3)) for _ in range(2))
        self.target.requires_grad_(False)
        self.adam = LeanAdam(self.network.parameters(), 1e-2)
        target = TargetNetwork(self.target, self.adam.vector)  # both are equal at first, as in a run
        loss_of = loss_of or dqn.textbook_loss
        fast = dqn.DqnGradient(self.adam, self.target, 0.9)
        self.step = LearningStep(self.adam, target, lambda batch: loss_of(self.network, self.target, batch, 0.9), fast)


def test_the_fast_form_is_used_as_long_as_it_is_the_gradient_of_the_loss() -> None:
    fast, slow = Learning(), Learning()
    slow.step.fast = None
    for seed in range(20):
        torch.manual_seed(seed)
        batch = some_batch(12, 4, 3)
        found, expected = fast.step(batch), slow.step(batch)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert fast.step.fast is not None
    torch.testing.assert_close(fast.adam.vector, slow.adam.vector, rtol=1e-4, atol=1e-5)


def double_dqn(network: nn.Module, target: nn.Module, batch: Batch, gamma: float) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        best = network(batch.next_observations).argmax(dim=1, keepdim=True)
        following = target(batch.next_observations).gather(1, best).squeeze(1)
        targets = batch.rewards + gamma * (1 - batch.terminated) * following
    chosen = network(batch.observations).gather(1, batch.actions).squeeze(1)
    return nn.functional.mse_loss(chosen, targets), chosen.mean()


def huber(network: nn.Module, target: nn.Module, batch: Batch, gamma: float) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        targets = batch.rewards + gamma * (1 - batch.terminated) * target(batch.next_observations).amax(dim=1)
    chosen = network(batch.observations).gather(1, batch.actions).squeeze(1)
    return nn.functional.smooth_l1_loss(chosen, targets), chosen.mean()


@pytest.mark.parametrize("changed", [double_dqn, huber])
def test_a_loss_that_was_changed_is_followed_itself(changed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = Learning(changed), Learning(changed)
    theirs.step.fast = None
    for seed in range(20):
        torch.manual_seed(seed)
        batch = some_batch(12, 4, 3)
        ours.step(batch), theirs.step(batch)
    assert ours.step.fast is None
    assert capsys.readouterr().out.count("autograd follows it") == 1
    assert torch.equal(ours.adam.vector, theirs.adam.vector)


def test_comparing_both_forms_leaves_the_target_network_and_the_generator_as_they_were() -> None:
    learning = Learning()
    batch = some_batch(12, 4, 3)
    before = learning.step.target.vector.clone()
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    learning.step(batch)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(learning.step.target.vector, before)


def test_a_gradient_that_is_lost_does_not_accuse_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    learning = Learning()
    learning.adam.vector.fill_(float("nan"))
    learning.step(some_batch(6, 4, 3))
    assert learning.step.fast is not None and capsys.readouterr().out == ""
