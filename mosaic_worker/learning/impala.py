"""The convolutional network of IMPALA (Espeholt et al., 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Prepare = Callable[[Any, float], Any]


def as_drawn(layer: Any, gain: float) -> Any:
    """The layer as PyTorch draws it."""
    return layer


def scaled(layer: Any, gain: float) -> Any:
    """The layer, the weights of each of its units scaled to length `gain`, its bias zero."""
    with torch.no_grad():
        lengths = layer.weight.flatten(1).norm(dim=1)
        layer.weight.mul_((gain / lengths).view(-1, *[1] * (layer.weight.dim() - 1)))
        layer.bias.zero_()
    return layer


class Residual(nn.Module):
    """Two convolutions whose result is added to what enters."""

    def __init__(self, channels: int, gain: float, prepare: Prepare) -> None:
        super().__init__()
        self.first = prepare(nn.Conv2d(channels, channels, 3, padding=1), math.sqrt(gain))
        self.second = prepare(nn.Conv2d(channels, channels, 3, padding=1), math.sqrt(gain))

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures + self.second(F.relu(self.first(F.relu(pictures))))


def impala_blocks(picture_size: tuple[int, ...], prepare: Prepare = as_drawn) -> tuple[list[nn.Module], int]:
    """(three blocks of convolutions, numbers that they make of a picture).

    `prepare` is called with each layer and a gain that keeps the size of what flows through alike in all depths.
    """
    channels, height, width = picture_size
    layers: list[nn.Module] = []
    depths = (16, 32, 32)
    gain = 1 / math.sqrt(len(depths)) / math.sqrt(2)
    for depth in depths:
        layers += [prepare(nn.Conv2d(channels, depth, 3, padding=1), 1.0), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Residual(depth, gain, prepare), Residual(depth, gain, prepare)]
        channels, height, width = depth, (height + 1) // 2, (width + 1) // 2
    return layers, channels * height * width
