"""Networks in a faster form against the same networks in their plain one."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mosaic_worker.learning.folding import folded, folded_shape, over_blocks
from mosaic_worker.learning.normalising import RunningMoments
from mosaic_worker.learning.temperature import Temperature
from mosaic_worker.learning.twin_critics import TwinCritics


@pytest.mark.parametrize(("inputs", "hidden", "rows"), [(1, 4, 1), (4, 256, 256), (20, 32, 7)])
def test_twin_critics_give_the_values_and_gradients_of_two_networks(inputs: int, hidden: int, rows: int) -> None:
    torch.manual_seed(inputs)
    critics = TwinCritics(inputs, hidden)
    first, second = critics.textbook()
    data = torch.randn(rows, inputs)
    values = critics(data)
    expected = torch.stack([first(data), second(data)])
    torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(critics.first(data), first(data), rtol=1e-5, atol=1e-6)
    values.square().sum().backward()
    expected.square().sum().backward()
    for number, network in enumerate((first, second)):
        for weight, layer in ((critics.weight_1, network[0]), (critics.weight_3, network[4])):
            assert weight.grad is not None
            gradient: Any = layer.weight.grad
            torch.testing.assert_close(weight.grad[number], gradient.t(), rtol=1e-4, atol=1e-5)


def test_twin_critics_are_drawn_as_linear_layers_are() -> None:
    critics = TwinCritics(100, 200)
    bound = 1 / math.sqrt(100)
    assert critics.weight_1.abs().max() <= bound
    assert critics.weight_1.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert not torch.equal(critics.weight_1[0], critics.weight_1[1])


@pytest.mark.parametrize(("stack", "side", "count"), [(4, 84, 3), (1, 84, 2), (2, 36, 1)])
@pytest.mark.parametrize("divisor", [None, 255.0])
def test_a_network_over_blocks_is_the_network_over_pictures(
    stack: int, side: int, count: int, divisor: float | None
) -> None:
    torch.manual_seed(stack)
    network = nn.Sequential(nn.Conv2d(stack, 8, 8, stride=4), nn.ReLU(), nn.Conv2d(8, 4, 4, stride=2), nn.Flatten())
    pictures = np.random.default_rng(1).integers(256, size=(count, stack, side, side), dtype=np.uint8)
    blocks = folded(pictures)
    assert blocks.shape[1:] == folded_shape(stack, side)
    found = over_blocks(network, torch.from_numpy(blocks).float(), divisor)
    expected = network(torch.from_numpy(pictures).float() / (divisor or 1.0))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * (1 if divisor else 255))


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_running_moments_are_those_of_all_rows_together(rows: int) -> None:
    moments, random = RunningMoments(2), np.random.default_rng(rows)
    seen = random.normal(3, 2, size=(50, rows, 2))
    for part in seen:
        moments.update(part)
    together = seen.reshape(-1, 2)
    np.testing.assert_allclose(moments.mean.numpy(), together.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(moments.variance.numpy(), together.var(axis=0), rtol=1e-3)


def test_the_temperature_is_tuned_as_adam_tunes_it() -> None:
    args = SimpleNamespace(q_lr=1e-2, autotune=True, alpha=0.2)
    temperature = Temperature(-2.0, args)
    log_alpha = nn.Parameter(torch.zeros((), dtype=torch.float64))
    adam = torch.optim.Adam([log_alpha], lr=1e-2)
    for step in range(30):
        log_prob = math.sin(step) * 3
        loss = -log_alpha.exp() * (log_prob - 2.0)
        adam.zero_grad()
        loss.backward()
        adam.step()
        temperature.tune(log_prob)
        assert temperature.log_alpha == pytest.approx(log_alpha.item(), rel=1e-6)
        assert temperature.loss == pytest.approx(loss.item(), rel=1e-9)


@pytest.mark.parametrize(("alpha", "expected"), [(0.2, 0.2), (0.0, 0.0)])
def test_a_temperature_that_is_not_tuned_is_the_one_given(alpha: float, expected: float) -> None:
    assert Temperature(-1.0, SimpleNamespace(q_lr=1.0, autotune=False, alpha=alpha)).alpha == pytest.approx(expected)


def test_copies_of_twin_critics_are_independent() -> None:
    critics = TwinCritics(3, 8)
    other = copy.deepcopy(critics)
    with torch.no_grad():
        other.weight_1.zero_()
    assert critics.weight_1.abs().sum() > 0
