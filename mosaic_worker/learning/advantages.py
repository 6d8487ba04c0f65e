"""Generalised advantage estimates (Schulman et al., 2016), and two figures that are logged beside them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


def textbook_advantages(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float64]:
    """The definition: discounted sums of one-step errors, up to the end of the episode. For reading and for tests."""
    steps, envs = rewards.shape
    advantages = np.zeros((steps, envs))
    for step in range(steps):
        for env in range(envs):
            for later in range(step, steps):
                future = 0.0 if terminated[later, env] else gamma * float(next_values[later, env])
                error = float(rewards[later, env]) + future - float(values[later, env])
                advantages[step, env] += (gamma * gae_lambda) ** (later - step) * error
                if terminated[later, env] or truncated[later, env]:
                    break
    return advantages


def advantages_of(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Flags,
    truncated: Flags,
    gamma: float,
    gae_lambda: float,
    resets: Flags | None = None,
) -> Floats:
    """The same from the last step backwards, all environments at once; arrays are shaped (steps, environments).

    `next_values` is the critic's value of the observation that a step truly led to, which at the end of an
    episode is not the first one of the next. A terminated episode has no future: that value counts for
    nothing. A truncated one has, but the steps after it belong to another episode: the value counts, the
    later advantages do not. Rows in `resets` only put a new episode in place: estimates pass through them.
    """
    errors = rewards + gamma * next_values * ~terminated - values
    carry = np.float32(gamma * gae_lambda) * ~(terminated | truncated)
    advantages = np.empty_like(errors)
    following = np.zeros_like(errors[0])
    for step in range(len(errors) - 1, -1, -1):
        found = errors[step] + carry[step] * following
        following = found if resets is None else np.where(resets[step], following, found)
        advantages[step] = following
    return advantages


def kl_estimate(log_ratios: Tensor) -> float:
    """How far the new policy is from the old one: an unbiased estimate that is never negative."""
    return (log_ratios.exp() - 1 - log_ratios).mean().item()


def explained_variance(returns: Tensor, values: Tensor) -> float:
    """1 when the critic foresaw the returns, 0 when a constant would have done as well, NaN without variance."""
    variance = returns.var(correction=0).item()
    unexplained = (returns - values).var(correction=0).item()
    return 1 - unexplained / variance if variance else math.nan
