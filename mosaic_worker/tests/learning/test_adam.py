"""The three forms of Adam against ``torch.optim.Adam`` and against the textbook."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from mosaic_worker.learning.adam import (
    FlatAdam,
    FusedAdam,
    LeanAdam,
    TargetNetwork,
    as_vector,
    require_finite,
    textbook_adam,
    views_in,
)

SIZES = [(1, 1), (3, 2), (7, 33), (64, 5)]


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


def some_loss(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return (module(inputs) - 1).square().mean()


@pytest.mark.parametrize("kind", [FlatAdam, LeanAdam, FusedAdam])
@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
def test_steps_are_those_of_torch(kind: Any, inputs: int, outputs: int) -> None:
    torch.manual_seed(inputs)
    ours = network(inputs, outputs)
    theirs = copy.deepcopy(ours)
    adam = kind(ours if kind is FusedAdam else ours.parameters(), 1e-2)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    for _ in range(20):
        rows = torch.randn(9, inputs)
        adam.minimise(some_loss(ours, rows))
        optimizer.zero_grad()
        some_loss(theirs, rows).backward()
        optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [FlatAdam, LeanAdam])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-5, 1e-2])
def test_steps_are_those_of_the_textbook(kind: Any, epsilon: float) -> None:
    torch.manual_seed(1)
    parameter = nn.Parameter(torch.randn(50))
    adam = kind([parameter], 3e-2, epsilon)
    vector, mean, mean_square = parameter.detach().clone(), torch.zeros(50), torch.zeros(50)
    for step in range(1, 30):
        gradient = torch.randn(50) * torch.rand(()) * 10
        adam.gradient.copy_(gradient)
        adam.descend()
        vector, mean, mean_square = textbook_adam(
            vector, gradient, mean, mean_square, step=step, learning_rate=3e-2, epsilon=epsilon
        )
        torch.testing.assert_close(parameter.detach(), vector, rtol=1e-5, atol=1e-6)


def test_a_gradient_is_clipped_as_torch_clips_it() -> None:
    torch.manual_seed(2)
    ours, rows = network(4, 2), torch.randn(6, 4) * 100
    theirs = copy.deepcopy(ours)
    adam = FlatAdam(ours.parameters(), 1e-2, epsilon=1e-5)
    some_loss(ours, rows).backward()
    adam.clip(0.5)
    some_loss(theirs, rows).backward()
    nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None and other.grad is not None
        torch.testing.assert_close(mine.grad, other.grad)


def test_parameters_are_views_of_the_vector_and_keep_their_values() -> None:
    module = network(3, 2)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    vector = as_vector(module.parameters())
    for parameter, value in zip(module.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
    vector.fill_(7)
    assert all((parameter == 7).all() for parameter in module.parameters())
    assert [view.shape for view in views_in(vector, module.parameters())] == [value.shape for value in before]


def test_an_update_that_is_put_back_leaves_no_trace() -> None:
    torch.manual_seed(3)
    module = network(3, 2)
    adam = FlatAdam(module.parameters(), 1e-2)
    adam.minimise(some_loss(module, torch.randn(5, 3)))
    undo = adam.remember()
    vector, mean = adam.vector.clone(), adam.mean.clone()
    drawn = torch.rand(4)
    adam.minimise(some_loss(module, torch.randn(5, 3)))
    assert not torch.equal(adam.vector, vector)
    adam.put_back(undo)
    assert torch.equal(adam.vector, vector) and torch.equal(adam.mean, mean) and adam.steps == 1
    assert torch.equal(torch.rand(4), drawn)


def test_a_target_network_begins_equal_and_follows() -> None:
    module, target = network(3, 2), network(3, 2)
    adam = FlatAdam(module.parameters(), 1e-2)
    follower = TargetNetwork(target, adam.vector)
    assert torch.equal(follower.vector, adam.vector)
    before = follower.vector.clone()
    adam.vector.add_(1)
    follower.follow(0.25)
    torch.testing.assert_close(follower.vector, before + 0.25)
    follower.follow(1.0)
    assert torch.equal(follower.vector, adam.vector)


@pytest.mark.parametrize("lost", [float("nan"), float("inf"), -float("inf")])
def test_parameters_that_are_lost_are_reported_with_advice(lost: float) -> None:
    require_finite(torch.ones(3), torch.zeros(2))
    with pytest.raises(FloatingPointError, match="The networks are no longer finite; a lower --q-lr may help"):
        require_finite(torch.ones(3), torch.tensor([0.0, lost]), what="networks are", advice="--q-lr")
