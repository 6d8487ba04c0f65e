"""Networks with the layers and names that CleanRL's files have, and how they choose actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def layers(inputs: int, hidden: tuple[int, int], outputs: int, between: Any) -> nn.Sequential:
    first, second = hidden
    return nn.Sequential(
        nn.Linear(inputs, first), between(), nn.Linear(first, second), between(), nn.Linear(second, outputs)
    )


class PpoAgent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic, self.actor = layers(4, (64, 64), 1, nn.Tanh), layers(4, (64, 64), 2, nn.Tanh)

    def forward(self, observations: Tensor) -> Tensor:
        return self.actor(observations).argmax(1)


class ContinuousPpoAgent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic, self.actor_mean = layers(3, (64, 64), 1, nn.Tanh), layers(3, (64, 64), 1, nn.Tanh)
        self.actor_logstd = nn.Parameter(torch.zeros(1, 1))

    def forward(self, observations: Tensor) -> Tensor:
        return self.actor_mean(observations).clamp(-2, 2)


class DqnNetwork(nn.Module):
    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.network = layers(4, (120, 84), outputs, nn.ReLU)

    def forward(self, observations: Tensor) -> Tensor:
        return self.network(observations).argmax(1)


class C51Network(DqnNetwork):
    atoms: Tensor

    def __init__(self, atoms: int = 51, low: float = -100.0, high: float = 100.0) -> None:
        super().__init__(2 * atoms)
        self.register_buffer("atoms", torch.linspace(low, high, atoms))

    def forward(self, observations: Tensor) -> Tensor:
        logits = self.network(observations).view(len(observations), 2, -1)
        return (logits.softmax(2) * self.atoms).sum(2).argmax(1)


class Actor(nn.Module):
    action_scale: Tensor
    action_bias: Tensor

    def __init__(self, last: tuple[str, ...]) -> None:
        super().__init__()
        self.fc1, self.fc2, self.last = nn.Linear(3, 256), nn.Linear(256, 256), last
        for name in last:
            self.add_module(name, nn.Linear(256, 1))
        self.register_buffer("action_scale", torch.tensor([2.0]))
        self.register_buffer("action_bias", torch.tensor([0.0]))

    def forward(self, observations: Tensor) -> Tensor:
        hidden = self.fc2(self.fc1(observations).relu()).relu()
        return self.get_submodule(self.last[0])(hidden).tanh() * self.action_scale + self.action_bias


class SacActor(Actor):
    def __init__(self) -> None:
        super().__init__(("fc_mean", "fc_logstd"))


class Td3Actor(Actor):
    def __init__(self) -> None:
        super().__init__(("fc_mu",))


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 256), nn.Linear(256, 256), nn.Linear(256, 1)

    def forward(self, rows: Tensor) -> Tensor:
        return self.fc3(self.fc2(self.fc1(rows).relu()).relu())


class AtariAgent(nn.Module):
    """Six actions, as Pong has."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(512, 6), nn.Linear(512, 1)

    def forward(self, observations: Tensor) -> Tensor:
        return self.actor(self.network(observations / 255)).argmax(1)


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0, self.conv1 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures + self.conv1(self.conv0(pictures.relu()).relu())


class ConvSequence(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.res_block0, self.res_block1 = ResidualBlock(outputs), ResidualBlock(outputs)

    def forward(self, pictures: Tensor) -> Tensor:
        shrunk = nn.functional.max_pool2d(self.conv(pictures), 3, stride=2, padding=1)
        return self.res_block1(self.res_block0(shrunk))


class ProcgenAgent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        parts = [ConvSequence(3, 16), ConvSequence(16, 32), ConvSequence(32, 32)]
        self.network = nn.Sequential(*parts, nn.Flatten(), nn.ReLU(), nn.Linear(2048, 256), nn.ReLU())
        self.actor, self.critic, self.aux_critic = nn.Linear(256, 15), nn.Linear(256, 1), nn.Linear(256, 1)

    def forward(self, observations: Tensor) -> Tensor:
        return self.actor(self.network(observations / 255)).argmax(1)
