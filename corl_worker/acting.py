"""Policies that learned from a dataset: actors of :mod:`corl_worker.networks` behind the scales of their training.

The same objects judge a run as it goes on and act for its checkpoints.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corl_worker.networks import LOG_STD_MAX, LOG_STD_MIN, LOG_STD_RANGE, GaussianActor, SquashedActor, TanhActor
from mosaic_protocol.dataset_files import spaces
from mosaic_worker.learning.continuous_acting import BoundedPolicy, squashed_policy, tanh_policy
from mosaic_worker.learning.fast_acting import Rows, SoftmaxActor, layers_of, relu_hidden
from mosaic_worker.offline import ObservationScale, RewardScale
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint


class Scales(nn.Module):
    """What observations and rewards were brought to a common scale with; buffers, so that checkpoints keep them."""

    mean: Tensor
    std: Tensor
    reward: Tensor

    def __init__(self, observation_size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(observation_size))
        self.register_buffer("std", torch.ones(observation_size))
        self.register_buffer("reward", torch.tensor([1.0, 0.0], dtype=torch.float64))

    def take(self, observations: ObservationScale, rewards: RewardScale) -> None:
        self.mean.copy_(torch.from_numpy(observations.mean))
        self.std.copy_(torch.from_numpy(observations.std))
        self.reward.copy_(torch.tensor([rewards.factor, rewards.shift]))

    @property
    def observations(self) -> ObservationScale:
        return ObservationScale(self.mean.numpy(), self.std.numpy())

    @property
    def rewards(self) -> RewardScale:
        return RewardScale(*self.reward.tolist())


class ScaledPolicy:
    """A policy that sees observations as rows of numbers on the scale of its training."""

    def __init__(self, inner: Any, scales: Scales, observation: dict[str, Any]) -> None:
        """`observation`: the space as a checkpoint describes it."""
        self.inner, self.scale, self.observation = inner, scales.observations, observation

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        found: NDArray[Any] = self.inner.act(self.rows(observations), deterministic=deterministic, random=random)
        return found

    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """What the actor's critics expect, on the scale of the rewards that they learned from."""
        found: dict[str, NDArray[Any]] = self.inner.appraise(self.rows(observations))
        return found

    def rows(self, observations: NDArray[Any]) -> Rows:
        """Observations as the actor sees them."""
        return self.scale(observation_rows(self.observation, observations))


def observation_rows(described: dict[str, Any], observations: NDArray[Any]) -> NDArray[np.float32]:
    """Observations as rows of numbers, as datasets have them. `described`: their space."""
    return spaces.flattened(described, {(): np.asarray(observations)})


def acting(actor: nn.Module, spaces_told: dict[str, Any], scales: Scales, noise: float = 0.0) -> ScaledPolicy:
    """The policy of an actor. `spaces_told`: observation and action space, described as checkpoints do; `noise`: what a
    deterministic actor explores with."""
    action = spaces_told["action"]
    inner: Any
    if action["type"] == "Discrete":
        inner = SoftmaxActor(actor, int(action["n"]), int(action.get("start", 0)))
    elif isinstance(actor, TanhActor):
        inner = tanh_policy(actor, action["shape"], noise)
    elif isinstance(actor, SquashedActor):
        inner = squashed_policy(actor, action["shape"], LOG_STD_RANGE)
    else:
        assert isinstance(actor, GaussianActor)
        inner = gaussian_policy(actor, action["shape"])
    return ScaledPolicy(inner, scales, spaces_told["observation"])


def gaussian_policy(actor: GaussianActor, action_shape: list[int]) -> BoundedPolicy:
    """Of an actor whose deviation is the same in every state. The textbook form is ``actor.sample``."""
    layers = layers_of(nn.ModuleList([actor.fc1, actor.fc2, actor.fc_mean]))

    def choose(rows: Rows, deterministic: bool, random: np.random.Generator) -> Rows:
        unit = np.tanh(relu_hidden(layers, rows) @ layers[2][0] + layers[2][1])
        if not deterministic:
            deviation = actor.log_std.detach().clamp(LOG_STD_MIN, LOG_STD_MAX).exp().cpu().numpy()
            unit = (unit + deviation * random.standard_normal(unit.shape, dtype=np.float32)).clip(-1, 1)
        return unit

    return BoundedPolicy(actor, action_shape, choose)


def observation_width(described: dict[str, Any]) -> int:
    """Numbers in one flattened observation."""
    return spaces.width(described)


def loaded_scales(checkpoint: Checkpoint) -> Scales:
    """The scales of a checkpoint. Raises CheckpointError."""
    scales = Scales(observation_width(checkpoint.manifest.spaces["observation"]))
    fill(scales, "scales", checkpoint)
    return scales


def any_range(checkpoint: Checkpoint) -> gym.spaces.Box:
    """Actions of the right shape, to build a network with; the true range is among its tensors."""
    return gym.spaces.Box(-1, 1, tuple(checkpoint.manifest.spaces["action"]["shape"]))


def load_acting(actor: nn.Module, checkpoint: Checkpoint, noise: float = 0.0) -> Policy:
    """Give an actor the parameters of a checkpoint and let it act. Raises CheckpointError when they do not fit."""
    fill(actor, "actor", checkpoint)
    return acting(actor, checkpoint.manifest.spaces, loaded_scales(checkpoint), noise)


def sizes_of(checkpoint: Checkpoint) -> tuple[int, int]:
    """Numbers in an observation, and in an action or of its choices."""
    told = checkpoint.manifest.spaces
    action = told["action"]
    count = int(action["n"]) if action["type"] == "Discrete" else math.prod(action["shape"])
    return observation_width(told["observation"]), count
