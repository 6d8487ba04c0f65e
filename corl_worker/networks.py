"""Actors that several algorithms share: two hidden layers of rectified units each.

Names and shapes are those of MOSAIC's online scripts, so that ``td3_continuous_action`` and ``sac_continuous_action``
can begin with what was learned offline.
"""

from __future__ import annotations

import math

import gymnasium as gym
import torch
from torch import Tensor, nn

LOG_STD_RANGE = LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
"""What tanh stretches the logarithm of a squashed actor's deviation to; the online script's."""
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class BoundedActor(nn.Module):
    """What every actor of continuous actions has: a body, and the range of the actions."""

    action_scale: Tensor
    action_bias: Tensor

    def __init__(self, observation_size: int, actions: gym.spaces.Box, hidden: int) -> None:
        super().__init__()
        low, high = torch.from_numpy(actions.low).reshape(-1), torch.from_numpy(actions.high).reshape(-1)
        self.size = len(low)
        self.fc1 = nn.Linear(observation_size, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.register_buffer("action_scale", ((high - low) / 2).float())
        self.register_buffer("action_bias", ((high + low) / 2).float())

    def body(self, observations: Tensor) -> Tensor:
        return self.fc2(self.fc1(observations).relu_()).relu_()

    def unit(self, actions: Tensor) -> Tensor:
        """Actions on the scale from -1 to 1."""
        return (actions - self.action_bias) / self.action_scale

    def stretched(self, unit: Tensor) -> Tensor:
        return torch.addcmul(self.action_bias, unit, self.action_scale)


class TanhActor(BoundedActor):
    """Observation to one action, as in TD3."""

    def __init__(self, observation_size: int, actions: gym.spaces.Box, hidden: int) -> None:
        super().__init__(observation_size, actions, hidden)
        self.fc_mu = nn.Linear(hidden, self.size)

    def forward(self, observations: Tensor) -> Tensor:
        return self.stretched(self.fc_mu(self.body(observations)).tanh_())


class GaussianActor(BoundedActor):
    """Observation to a Gaussian around a squashed mean, with a deviation that is the same in every state."""

    def __init__(self, observation_size: int, actions: gym.spaces.Box, hidden: int) -> None:
        super().__init__(observation_size, actions, hidden)
        self.fc_mean = nn.Linear(hidden, self.size)
        self.log_std = nn.Parameter(torch.zeros(self.size))

    def forward(self, observations: Tensor) -> Tensor:
        """The mean, on the scale from -1 to 1."""
        return self.fc_mean(self.body(observations)).tanh_()

    def log_probs(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Log-densities of actions (rows,), on that scale."""
        log_std = self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        away = (self.unit(actions) - self(observations)) * (-log_std).exp()
        return -(0.5 * away.square() + log_std + HALF_LOG_TWO_PI).sum(dim=1)

    def sample(self, observations: Tensor) -> Tensor:
        """Actions within their range."""
        mean = self(observations)
        noise = torch.randn_like(mean) * self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
        return self.stretched((mean + noise).clamp(-1, 1))


class SquashedActor(BoundedActor):
    """Observation to a Gaussian that tanh squashes into the action range, as in SAC."""

    def __init__(self, observation_size: int, actions: gym.spaces.Box, hidden: int) -> None:
        super().__init__(observation_size, actions, hidden)
        self.fc_mean = nn.Linear(hidden, self.size)
        self.fc_logstd = nn.Linear(hidden, self.size)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the deviation of each action dimension, before they are squashed."""
        hidden = self.body(observations)
        middle, reach = (LOG_STD_MAX + LOG_STD_MIN) / 2, (LOG_STD_MAX - LOG_STD_MIN) / 2
        return self.fc_mean(hidden), self.fc_logstd(hidden).tanh() * reach + middle

    def sample(self, observations: Tensor, count: int = 0) -> tuple[Tensor, Tensor]:
        """Actions, through which gradients flow, and their log-probabilities, shaped (rows,); with a `count` that many
        for each row, in front of the rows."""
        mean, log_std = self(observations)
        noise = torch.randn((count, *mean.shape) if count else mean.shape, device=mean.device)
        unit = (mean + log_std.exp() * noise).tanh()
        # The Gaussian's density at its own noise, then the change of volume by tanh and by the action range.
        squeezed = (self.action_scale * (1 - unit.square()) + 1e-6).log()
        log_probs = -(0.5 * noise.square() + log_std + squeezed + HALF_LOG_TWO_PI).sum(dim=-1)
        return self.stretched(unit), log_probs


def choices_network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Observation to one number for each discrete action (or to one value)."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )
