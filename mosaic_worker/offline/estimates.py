"""What a policy would earn, estimated from a dataset that others played: no environment is asked.

Two estimates of the discounted return from the beginnings of episodes, each with an interval:

- **Fitted Q-evaluation** learns what the policy's own actions are worth, as an ensemble of critics. Each learns from
  the dataset's episodes as a bootstrap draws them, so where the data says little about what the policy does they
  disagree, and the interval is wide.
- **Weighted importance sampling**, per decision and self-normalised, weighs the episodes of the data by how likely the
  policy is to play them. The behaviour is cloned from the data. A policy that does not draw its actions is spread as
  the data is. It is honest for short episodes of data near to the policy; the effective number of episodes says how
  much of the data carried the estimate.

Both can be wrong for a policy that does what the data never shows. They rank policies better than they value them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from mosaic_worker.learning.adam import FusedAdam, TargetNetwork
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.offline.normalising import ObservationScale
from mosaic_worker.offline.transitions import Transitions

Act = Callable[[NDArray[Any]], NDArray[Any]]
"""Rows of observations to actions: (rows, size), or whole numbers from 0 on."""
Probabilities = Callable[[NDArray[Any]], NDArray[Any]]
HEADS, HIDDEN, BATCH = 8, 64, 256
RESAMPLES = 1000
_TAU, _LEARNING_RATE = 0.01, 1e-3
_LARGEST_LOG_WEIGHT = 20.0


@dataclass(frozen=True)
class Estimate:
    """A discounted return, with the interval that holds 95 % of what resampling the data gave."""

    value: float
    low: float
    high: float
    effective: float = math.nan
    """Of importance sampling: how many episodes' worth of data carried it."""

    def as_json(self) -> dict[str, float | None]:
        told = {"value": self.value, "low": self.low, "high": self.high, "effective_episodes": self.effective}
        return {name: value if math.isfinite(value) else None for name, value in told.items()}


class Judge:
    """A dataset, prepared to judge policies by. `choices`: how many discrete actions there are; 0: continuous ones."""

    def __init__(self, data: Transitions, choices: int, gamma: float, seed: int = 0) -> None:
        self.data, self.choices, self.gamma = data, choices, gamma
        self.scale = ObservationScale.of(data)
        self.observations = torch.from_numpy(self.scale(data.observations))
        self.following = torch.from_numpy(self.scale(data.next_observations))
        self.actions = torch.from_numpy(np.asarray(data.actions))
        self.spread = float(data.rewards.std()) or 1.0
        self.first = data.episode_starts[:-1]
        self.episode = np.repeat(np.arange(len(self.first)), data.lengths())
        self.random, self.draw = np.random.default_rng(seed), torch.Generator().manual_seed(seed)

    # ---- the data itself -------------------------------------------------------------------------------------------

    def behaviour(self) -> Estimate:
        """What the data's own policy earned: no estimate but a mean, to compare with."""
        discounts = self.gamma ** (np.arange(len(self.data)) - np.repeat(self.first, self.data.lengths()))
        return self._resampled(np.add.reduceat(self.data.rewards * discounts, self.first))

    def _resampled(self, values: NDArray[Any]) -> Estimate:
        drawn = self.random.choice(values, (RESAMPLES, len(values))).mean(axis=1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        return Estimate(float(values.mean()), float(low), float(high))

    # ---- fitted Q-evaluation ---------------------------------------------------------------------------------------

    def fitted(self, act: Act, updates: int, progress: Callable[[int], bool] = lambda done: True) -> Estimate:
        """By critics of the policy's own actions. `progress` is told of the updates, and ends them by saying False."""
        torch.manual_seed(int(self.random.integers(2**31)))
        width = self.observations.shape[1] + (0 if self.choices else self.actions.shape[1])
        critics, copies = (TwinCritics(width, HIDDEN, HEADS, max(1, self.choices)) for _ in range(2))
        adam = FusedAdam(critics, _LEARNING_RATE)
        target = TargetNetwork(copies.requires_grad_(False), adam.vector)
        chosen = torch.from_numpy(np.asarray(act(self.data.next_observations)))
        rewards = torch.from_numpy(self.data.rewards / np.float32(self.spread))
        going_on = torch.from_numpy((~self.data.terminals).astype(np.float32))
        # Each critic sees every episode as often as its own bootstrap drew it.
        counts = self.random.multinomial(len(self.first), np.full(len(self.first), 1 / len(self.first)), HEADS)
        weights = torch.from_numpy(counts[:, self.episode].astype(np.float32))
        for done in range(updates):
            if done % 100 == 0 and not progress(done):
                break
            rows = torch.randint(len(self.data), (BATCH,), generator=self.draw)
            with torch.no_grad():
                following = self._judged(copies, self.following[rows], chosen[rows])
                targets = rewards[rows] + self.gamma * going_on[rows] * following
            errors = self._judged(critics, self.observations[rows], self.actions[rows]) - targets
            adam.minimise((weights[:, rows] * errors.square()).mean(dim=1).sum())
            target.follow(_TAU)
        return self._from_the_beginnings(critics, act)

    @torch.no_grad()
    def _from_the_beginnings(self, critics: TwinCritics, act: Act) -> Estimate:
        chosen = torch.from_numpy(np.asarray(act(self.data.observations[self.first])))
        values = self._judged(critics, self.observations[self.first], chosen).numpy() * self.spread
        heads = self.random.integers(HEADS, size=RESAMPLES)
        starts = self.random.integers(len(self.first), size=(RESAMPLES, len(self.first)))
        low, high = np.quantile(values[heads[:, None], starts].mean(axis=1), (0.025, 0.975))
        return Estimate(float(values.mean()), float(low), float(high))

    def _judged(self, critics: TwinCritics, observations: Tensor, actions: Tensor) -> Tensor:
        """What each critic says of actions, shaped (critics, rows)."""
        if self.choices:
            of_all = critics(observations)
            return of_all.gather(2, actions.long().expand(HEADS, -1).unsqueeze(2)).squeeze(2)
        found: Tensor = critics(torch.cat((observations, actions.float()), dim=1))
        return found

    # ---- importance sampling ---------------------------------------------------------------------------------------

    def weighted(self, act: Act, probabilities: Probabilities | None, updates: int) -> Estimate:
        """By how likely the policy is to play the data's episodes. `probabilities` of discrete actions, where the
        policy has them."""
        ratios = self._log_ratios(act, probabilities, self._cloned(updates))
        lengths, longest = self.data.lengths(), int(self.data.lengths().max())
        inside = np.arange(longest) < lengths[:, None]
        logs, rewards = np.zeros(inside.shape), np.zeros(inside.shape)
        logs[inside], rewards[inside] = ratios, self.data.rewards
        # An episode that is over keeps its weight: it goes on with rewards of nothing.
        cumulated = np.clip(np.cumsum(logs, axis=1), -_LARGEST_LOG_WEIGHT, _LARGEST_LOG_WEIGHT)
        weights = np.exp(cumulated)
        discounted = rewards * self.gamma ** np.arange(longest)
        value = _self_normalised(weights, discounted)
        drawn = self.random.integers(len(lengths), size=(min(RESAMPLES, 200), len(lengths)))
        low, high = np.quantile([_self_normalised(weights[one], discounted[one]) for one in drawn], (0.025, 0.975))
        last = weights[:, -1]
        return Estimate(value, float(low), float(high), float(last.sum() ** 2 / np.square(last).sum()))

    def _cloned(self, updates: int) -> nn.Module:
        """The behaviour, cloned: logits of discrete actions, or the mean of continuous ones."""
        torch.manual_seed(int(self.random.integers(2**31)))
        outputs = self.choices or self.actions.shape[1]
        network = nn.Sequential(
            nn.Linear(self.observations.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, outputs),
        )  # fmt: skip
        adam = FusedAdam(network, _LEARNING_RATE)
        for _ in range(updates):
            rows = torch.randint(len(self.data), (BATCH,), generator=self.draw)
            found, wanted = network(self.observations[rows]), self.actions[rows]
            adam.minimise(F.cross_entropy(found, wanted) if self.choices else F.mse_loss(found, wanted.float()))
        return network

    @torch.no_grad()
    def _log_ratios(self, act: Act, probabilities: Probabilities | None, cloned: nn.Module) -> NDArray[Any]:
        """Logarithm of how much likelier the policy is than the behaviour to take each action of the data."""
        found = cloned(self.observations)
        if self.choices:
            behaviour = F.log_softmax(found, dim=1).gather(1, self.actions.long()[:, None]).squeeze(1).numpy()
            return np.log(self._chances(act, probabilities) + 1e-6) - behaviour
        spread = (found - self.actions).std(dim=0).clamp_min(1e-3)
        own = torch.from_numpy(np.asarray(act(self.data.observations), np.float32))
        logs = ((self.actions - found) / spread).square() - ((self.actions - own) / spread).square()
        ratios: NDArray[Any] = (0.5 * logs).sum(dim=1).numpy()
        return ratios

    def _chances(self, act: Act, probabilities: Probabilities | None) -> NDArray[Any]:
        taken = self.actions.numpy()
        if probabilities is None:
            return (act(self.data.observations) == taken).astype(np.float64)
        return probabilities(self.data.observations)[np.arange(len(taken)), taken]


def _self_normalised(weights: NDArray[Any], discounted: NDArray[Any]) -> float:
    """The mean reward of each step by the weights at that step, added up."""
    return float(((weights * discounted).sum(axis=0) / weights.sum(axis=0)).sum())
