"""Acting in numpy against the networks' own call in PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mosaic_worker.learning.adam import FlatAdam
from mosaic_worker.learning.continuous_acting import SquashedGaussianActor, TanhActor, squashed_policy, tanh_policy
from mosaic_worker.learning.epsilon_greedy import (
    EpsilonGreedyPolicy,
    highest_mean,
    highest_value,
)
from mosaic_worker.learning.fast_acting import GaussianActor, SoftmaxActor, layers_of, numpy_form, textbook_form
from mosaic_worker.learning.schedules import exploration, multiples_passed


def mlp(kind: type[nn.Module], sizes: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), kind()]
    return nn.Sequential(*layers[:-1])


def rows_of(count: int, size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)


@pytest.mark.parametrize("kind", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("sizes", [(4, 64, 64, 2), (1, 3, 5, 1), (17, 120, 84, 6), (3, 8, 2), (6, 4, 4, 4, 3)])
@pytest.mark.parametrize("count", [1, 4, 33])
def test_the_numpy_form_gives_what_the_network_gives(kind: type[nn.Module], sizes: tuple[int, ...], count: int) -> None:
    torch.manual_seed(count)
    network, rows = mlp(kind, sizes), rows_of(count, sizes[0])
    expected = network(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(numpy_form(network)(rows), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(textbook_form(network)(rows), expected)


def test_a_network_that_is_not_known_is_called_itself() -> None:
    network = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    rows = rows_of(5, 3)
    np.testing.assert_array_equal(numpy_form(network)(rows), network(torch.from_numpy(rows)).detach().numpy())


def test_the_numpy_form_follows_the_parameters_without_copying_them() -> None:
    network = mlp(nn.Tanh, (2, 8, 8, 3))
    adam = FlatAdam(network.parameters(), 1e-2)
    form, rows = numpy_form(network), rows_of(3, 2)
    adam.vector.mul_(0.5)
    np.testing.assert_allclose(form(rows), network(torch.from_numpy(rows)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_softmax_actor_draws_as_often_as_the_softmax_says() -> None:
    torch.manual_seed(1)
    network = mlp(nn.Tanh, (2, 8, 8, 3))
    actor, random = SoftmaxActor(network, 3, first_action=5), np.random.default_rng(1)
    row = rows_of(1, 2)
    rows = np.repeat(row, 20_000, axis=0)
    expected = network(torch.from_numpy(row)).softmax(dim=1)[0].detach().numpy()
    counted, played = actor.choose(rows, actor.noise(random, 1, len(rows))[0])
    assert np.array_equal(counted + 5, played)
    np.testing.assert_allclose(np.bincount(counted, minlength=3) / len(rows), expected, atol=0.015)
    drawn = actor.act(rows, deterministic=False, random=random)
    np.testing.assert_allclose(np.bincount(drawn - 5, minlength=3) / len(rows), expected, atol=0.015)
    assert set(actor.act(rows, deterministic=True, random=random)) == {5 + int(expected.argmax())}


def test_a_gaussian_actor_draws_around_the_mean_and_plays_within_the_range() -> None:
    torch.manual_seed(1)
    network, log_std = mlp(nn.Tanh, (2, 8, 8, 2)), nn.Parameter(torch.tensor([[0.1, -0.5]]))
    low, high = np.full(2, -0.2, np.float32), np.full(2, 0.2, np.float32)
    actor = GaussianActor(network, log_std, low, high, (20_000, 2, 1))
    rows = np.repeat(rows_of(1, 2), 20_000, axis=0)
    drawn, played = actor.choose(rows, actor.noise(np.random.default_rng(2), 1, len(rows))[0])
    mean = network(torch.from_numpy(rows[:1]))[0].detach().numpy()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), np.exp([0.1, -0.5]), rtol=0.03)
    assert played.shape == (20_000, 2, 1) and played.min() >= np.float32(-0.2) and played.max() <= np.float32(0.2)


@pytest.mark.parametrize("count", [1, 7])
def test_the_best_action_is_that_of_the_network(count: int) -> None:
    torch.manual_seed(3)
    network, rows = mlp(nn.ReLU, (5, 12, 12, 4)), rows_of(count, 5)
    expected = network(torch.from_numpy(rows)).argmax(dim=1).tolist()
    assert highest_value(network)(rows).tolist() == expected


@pytest.mark.parametrize(("count", "actions", "atoms"), [(1, 2, 11), (6, 3, 51), (4, 1, 2)])
def test_the_action_of_highest_mean_is_that_of_the_distributions(count: int, actions: int, atoms: int) -> None:
    torch.manual_seed(count)
    network, rows, places = mlp(nn.ReLU, (5, 12, 12, actions * atoms)), rows_of(count, 5), torch.linspace(-3, 9, atoms)
    logits = network(torch.from_numpy(rows)).view(count, actions, atoms)
    expected = (logits.softmax(dim=2) @ places).argmax(dim=1).tolist()
    assert highest_mean(network, places)(rows).tolist() == expected


def test_a_sampled_policy_acts_at_random_now_and_then() -> None:
    policy = EpsilonGreedyPolicy(lambda rows: np.zeros(len(rows), dtype=np.int64), {"n": 4, "start": 2}, epsilon=0.4)
    rows, random = np.zeros((20_000, 3)), np.random.default_rng(5)
    assert set(policy.act(rows, deterministic=True, random=random)) == {2}
    others = policy.act(rows, deterministic=False, random=random) != 2
    assert others.mean() == pytest.approx(0.4 * 3 / 4, abs=0.02)


class Exploring:
    start_e, end_e, exploration_fraction, total_timesteps = 1.0, 0.1, 0.5, 1000


@pytest.mark.parametrize(("step", "share"), [(0, 1.0), (250, 0.55), (500, 0.1), (999, 0.1)])
def test_exploration_falls_linearly_and_then_stays(step: int, share: float) -> None:
    assert exploration(Exploring, step) == pytest.approx(share)


@pytest.mark.parametrize("every", [1, 3, 10])
def test_multiples_are_counted_once_however_far_one_step_goes(every: int) -> None:
    expected = sum(1 for step in range(8, 31) if step % every == 0)
    assert multiples_passed(every, 7, 30) == expected
    assert sum(multiples_passed(every, step, step + 1) for step in range(7, 30)) == expected


class TanhNetwork(nn.Module):
    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, 16), nn.Linear(16, 16), nn.Linear(16, actions)])
        self.action_scale, self.action_bias = torch.full((actions,), 2.0), torch.full((actions,), 1.0)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        first, second, last = self.layers
        return torch.tanh(last(torch.relu(second(torch.relu(first(rows))))))


@pytest.mark.parametrize(("count", "inputs", "actions"), [(1, 3, 1), (5, 11, 3)])
def test_the_actor_of_td3_in_numpy_gives_what_it_gives_in_torch(count: int, inputs: int, actions: int) -> None:
    torch.manual_seed(count)
    actor, rows = TanhNetwork(inputs, actions), rows_of(count, inputs)
    unit = actor(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(TanhActor(actor, 0.1).unit(rows), unit, rtol=1e-5, atol=1e-6)
    low, high = np.full(actions, -1.0, np.float32), np.full(actions, 3.0, np.float32)
    explored = TanhActor(actor, 0.1).explore(rows, low, high, np.random.default_rng(1))
    noise = np.random.default_rng(1).standard_normal((count, actions), dtype=np.float32) * np.float32(0.1)
    np.testing.assert_allclose(explored, np.clip(1 + 2 * (unit + noise), low, high), rtol=1e-5, atol=1e-5)
    policy = tanh_policy(actor, [actions], 0.1)
    found = policy.act(rows, deterministic=True, random=np.random.default_rng(1))
    np.testing.assert_allclose(found, 1 + 2 * unit, rtol=1e-5, atol=1e-5)
    sampled = policy.act(rows, deterministic=False, random=np.random.default_rng(1))
    np.testing.assert_allclose(sampled, 1 + 2 * np.clip(unit + noise, -1, 1), rtol=1e-5, atol=1e-5)


class GaussianNetwork(nn.Module):
    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        sizes = (inputs, 16), (16, 16), (16, actions), (16, actions)
        self.layers = nn.ModuleList([nn.Linear(*size) for size in sizes])
        self.action_scale, self.action_bias = torch.full((actions,), 2.0), torch.full((actions,), 1.0)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second, mean, log_std = self.layers
        hidden = torch.relu(second(torch.relu(first(rows))))
        return mean(hidden), (torch.tanh(log_std(hidden)) * 3.5 - 1.5).exp()


@pytest.mark.parametrize(("count", "inputs", "actions"), [(1, 3, 1), (5, 11, 3)])
def test_the_actor_of_sac_in_numpy_gives_what_it_gives_in_torch(count: int, inputs: int, actions: int) -> None:
    torch.manual_seed(count)
    actor, rows = GaussianNetwork(inputs, actions), rows_of(count, inputs)
    mean, deviation = (part.detach().numpy() for part in actor(torch.from_numpy(rows)))
    form = SquashedGaussianActor(actor, (-5.0, 2.0))
    for found, expected in zip(form.mean_and_deviation(rows), (mean, deviation), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    low, high = np.full(actions, -1.0, np.float32), np.full(actions, 3.0, np.float32)
    noise = np.random.default_rng(1).standard_normal((count, actions), dtype=np.float32)
    drawn = 1 + 2 * np.tanh(mean + deviation * noise)
    explored = form.explore(rows, low, high, np.random.default_rng(1))
    np.testing.assert_allclose(explored, drawn, rtol=1e-4, atol=1e-5)
    policy = squashed_policy(actor, [actions], (-5.0, 2.0))
    sampled = policy.act(rows, deterministic=False, random=np.random.default_rng(1))
    np.testing.assert_allclose(sampled, drawn, rtol=1e-4, atol=1e-5)
    likeliest = policy.act(rows, deterministic=True, random=np.random.default_rng(1))
    np.testing.assert_allclose(likeliest, 1 + 2 * np.tanh(mean), rtol=1e-4, atol=1e-5)


def test_layers_are_views_of_the_parameters() -> None:
    network = mlp(nn.ReLU, (2, 4, 4, 1))
    layers = layers_of(network)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(3)
    assert all((weight == 3).all() and (bias == 3).all() for weight, bias in layers)
