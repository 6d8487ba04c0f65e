"""Observations that are pictures, whatever order their axes are in."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

SMALLEST_PICTURE = 10  # pixels of a side


def is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) in (2, 3) and min(picture_size(shape)[1:]) >= SMALLEST_PICTURE


def channels_are_last(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[2] < shape[0]


def picture_size(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of observations with their channels first, last, or without any."""
    if len(shape) == 2:
        return 1, *shape
    first, second, third = shape
    return (third, first, second) if channels_are_last(shape) else (first, second, third)


def as_pictures(observations: Tensor) -> Tensor:
    """A batch of observations as (batch, channels, height, width) numbers."""
    shape = tuple(observations.shape[1:])
    if len(shape) == 2:
        observations = observations.unsqueeze(1)
    elif channels_are_last(shape):
        observations = observations.permute(0, 3, 1, 2)
    # Channels last in memory: the same sums in half the time on a CPU.
    return observations.to(torch.float32, memory_format=torch.channels_last)


def largest_of(space: gym.spaces.Box) -> float:
    """What pictures of this space are divided by, so that they reach from 0 to 1; 1 where there is no limit."""
    largest = float(np.max(space.high))
    return largest if space.dtype == np.uint8 and largest > 1 else 1.0
