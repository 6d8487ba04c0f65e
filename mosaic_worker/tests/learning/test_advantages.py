"""Advantages from the last step backwards against the definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from mosaic_worker.learning.advantages import advantages_of, explained_variance, kl_estimate, textbook_advantages


def some_rollout(steps: int, envs: int, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    random = np.random.default_rng(seed)
    rewards, values, next_values = random.normal(size=(3, steps, envs)).astype(np.float32)
    terminated, truncated = random.random(size=(2, steps, envs)) < 0.15
    return rewards, values, next_values, terminated, truncated


@pytest.mark.parametrize(("steps", "envs"), [(1, 1), (2, 3), (40, 4), (128, 2)])
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)])
def test_they_are_the_discounted_sums_of_the_definition(steps: int, envs: int, gamma: float, gae_lambda: float) -> None:
    rewards, values, next_values, terminated, truncated = some_rollout(steps, envs, seed=steps)
    found = advantages_of(rewards, values, next_values, terminated, truncated, gamma, gae_lambda)
    expected = textbook_advantages(rewards, values, next_values, terminated, truncated, gamma, gae_lambda)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_only_reset_an_environment_are_passed_over(seed: int) -> None:
    rewards, values, next_values, terminated, truncated = some_rollout(30, 1, seed)
    resets = np.zeros((30, 1), dtype=bool)
    resets[1:] = terminated[:-1] | truncated[:-1]
    found = advantages_of(rewards, values, next_values, terminated, truncated, 0.9, 0.8, resets)
    real = ~resets[:, 0]
    rows = rewards[real], values[real], next_values[real]
    expected = advantages_of(*rows, terminated[real], truncated[real], 0.9, 0.8)
    np.testing.assert_allclose(found[real], expected, rtol=1e-6)
    none = np.zeros_like(resets)
    plain = advantages_of(rewards, values, next_values, terminated, truncated, 0.9, 0.8)
    assert np.array_equal(advantages_of(rewards, values, next_values, terminated, truncated, 0.9, 0.8, none), plain)


def test_explained_variance_is_one_for_a_critic_that_knows_and_not_a_number_without_variance() -> None:
    returns = torch.tensor([1.0, 2.0, 4.0])
    assert explained_variance(returns, returns) == 1
    assert explained_variance(returns, torch.full((3,), 2.0)) == pytest.approx(0)
    assert math.isnan(explained_variance(torch.ones(3), returns))


def test_the_estimate_of_the_divergence_is_zero_for_the_same_policy_and_never_negative() -> None:
    assert kl_estimate(torch.zeros(4)) == 0
    for seed in range(5):
        torch.manual_seed(seed)
        assert kl_estimate(torch.randn(10)) > 0


def column(*numbers: float) -> Any:
    return np.array(numbers, dtype=np.float32).reshape(-1, 1)


def flags_at(steps: int, *at: int) -> Any:
    marks = np.zeros((steps, 1), dtype=bool)
    marks[list(at)] = True
    return marks


def advantages(terminated: Any, truncated: Any, gamma: float = 0.5, gae_lambda: float = 0.5) -> list[float]:
    rewards, values, next_values = column(1, 2, 4), column(10, 20, 30), column(20, 80, 40)
    found = advantages_of(rewards, values, next_values, terminated, truncated, gamma, gae_lambda)
    return [float(number) for number in found[:, 0]]


def test_without_an_end_the_advantages_add_up_to_the_value_after_the_last_step() -> None:
    errors = (1 + 0.5 * 20 - 10, 2 + 0.5 * 80 - 20, 4 + 0.5 * 40 - 30)
    last = errors[2]
    middle = errors[1] + 0.25 * last
    assert advantages(flags_at(3), flags_at(3)) == [errors[0] + 0.25 * middle, middle, last]


def test_a_terminated_step_is_worth_its_reward_alone() -> None:
    _, middle, last = advantages(flags_at(3, 1), flags_at(3))
    assert middle == 2 - 20
    assert last == 4 + 0.5 * 40 - 30


def test_a_truncated_step_is_worth_the_value_of_the_state_it_was_cut_off_in() -> None:
    first, middle, _ = advantages(flags_at(3), flags_at(3, 1))
    assert middle == 2 + 0.5 * 80 - 20
    assert first == (1 + 0.5 * 20 - 10) + 0.25 * middle


def test_an_end_that_is_both_counts_as_terminated() -> None:
    assert advantages(flags_at(3, 1), flags_at(3, 1)) == advantages(flags_at(3, 1), flags_at(3))


def test_with_lambda_one_advantages_are_discounted_returns_minus_values() -> None:
    random = np.random.default_rng(0)
    rewards, values = random.normal(size=(2, 6, 3)).astype(np.float32)
    after = random.normal(size=3).astype(np.float32)
    never = np.zeros((6, 3), dtype=bool)
    next_values = np.vstack([values[1:], after])
    found = advantages_of(rewards, values, next_values, never, never, 0.9, 1.0)
    for step in range(6):
        discounts = 0.9 ** np.arange(6 - step)
        expected = discounts @ rewards[step:] + 0.9 ** (6 - step) * after - values[step]
        np.testing.assert_allclose(found[step], expected, rtol=1e-5, atol=1e-6)
