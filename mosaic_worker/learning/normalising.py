"""Observations and rewards on a common scale, by statistics that run along with the training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic_worker.learning.rollouts import Actor, RolloutCollector
from mosaic_worker.training.session import TrainingSession

NORMAL_LIMIT = 10.0


class RunningMoments(nn.Module):
    """Mean and variance of all rows seen so far; buffers of a module, so that checkpoints keep them.

    Worked on through numpy views: for a row or two at a time that is several times faster. The textbook form is
    ``numpy.mean`` and ``numpy.var`` of all rows together.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(size, dtype=torch.float64))
        # A trace of a standard normal before the first row: there is a variance to divide by from the start.
        self.register_buffer("count", torch.full((1,), 1e-4, dtype=torch.float64))
        self.arrays = self.mean.numpy(), self.variance.numpy(), self.count.numpy()

    def update(self, rows: NDArray[np.float64]) -> None:
        mean, variance, count = self.arrays
        new = len(rows)
        total = count + new
        away = rows[0] - mean if new == 1 else rows.mean(axis=0) - mean
        mean += away * (new / total)
        # Sums of squares about either mean, and what moving both to the common one adds.
        variance *= count / total
        variance += away * away * (count * new / (total * total))
        if new > 1:
            variance += rows.var(axis=0) * (new / total)
        count[:] = total


class Normaliser(nn.Module):
    """Brings observations and rewards to a common scale, within ten deviations."""

    def __init__(self, observation_size: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.observations = RunningMoments(observation_size)
        self.returns = RunningMoments(1)

    def observe(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Learn from observations (environments, size) and return them normalised."""
        self.observations.update(observations)
        return self.normalised(observations)

    def normalised(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        mean, variance, _ = self.observations.arrays
        scaled = (observations - mean) / np.sqrt(variance + 1e-8)
        return scaled.clip(-NORMAL_LIMIT, NORMAL_LIMIT).astype(np.float32)

    def reward(self, rewards: NDArray[np.float64], discounted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rewards by the deviation of discounted returns, the running ones of which are updated in place."""
        discounted *= self.gamma
        discounted += rewards
        self.returns.update(discounted[:, None])
        return (rewards / np.sqrt(self.returns.arrays[1] + 1e-8)).clip(-NORMAL_LIMIT, NORMAL_LIMIT)


class NormalisingCollector(RolloutCollector):
    """Collects rollouts with observations and rewards normalised, and actions as they were drawn."""

    PARTS = ("random", "global_step", "observation", "discounted", "returns", "lengths")

    def __init__(
        self, envs: SyncVectorEnv, session: TrainingSession, actor: Actor, normaliser: Normaliser, seed: int
    ) -> None:
        self.normaliser = normaliser
        self.discounted = np.zeros(envs.num_envs)
        super().__init__(envs, session, actor, seed, discrete=False)

    def restart(self) -> None:
        super().restart()
        self.discounted[:] = 0.0

    def _begin(self, first_observation: NDArray[Any]) -> None:
        # The very first one is counted when collecting begins: a restored normaliser must not count it again.
        self.first_observation = first_observation.copy()
        self.observation = np.zeros(first_observation.shape, dtype=np.float32)
        if self.global_step > 0:
            self.observation = self.normaliser.observe(self.first_observation)

    def _current(self) -> NDArray[np.float32]:
        if self.global_step == 0:
            self.observation = self.normaliser.observe(self.first_observation)
        return self.observation

    def _scaled(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.normaliser.reward(rewards, self.discounted)

    def _seen(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return self.normaliser.observe(observations)

    def _final(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        return self.normaliser.normalised(observation)

    def _end_episode(self, env: int) -> None:
        super()._end_episode(env)
        self.discounted[env] = 0.0
