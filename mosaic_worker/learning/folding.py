"""Pictures folded into blocks, on which convolutions with a stride are several times faster.

A stride of 4 over pictures whose sides are multiples of 4 is a stride of 1 over pictures of 4x4 blocks with 16 times
the channels, which convolutions are much better at. Rollouts keep pictures in that form, as bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

BLOCK = 4


def folded_shape(stack: int, side: int) -> tuple[int, int, int]:
    """Rows and columns of blocks, then picture and pixel within the block."""
    return side // BLOCK, side // BLOCK, stack * BLOCK * BLOCK


def folded(observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Observations (count, stack, side, side) as pictures of blocks (count, side / 4, side / 4, 16 stack)."""
    _, stack, height, width = observations.shape
    rows, columns = height // BLOCK, width // BLOCK
    blocks = observations.reshape(-1, stack, rows, BLOCK, columns, BLOCK)
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, rows, columns, stack * BLOCK * BLOCK)


def over_blocks(network: nn.Sequential, pictures: Tensor, divisor: float | None = None) -> Tensor:
    """What a network, whose first convolution has a stride of 4, makes of folded pictures divided by a number.

    The textbook form is ``network(observations / divisor)`` on pictures that are not folded. The division is made in
    the weights, which are fewer.
    """
    first, *others = network
    assert isinstance(first, nn.Conv2d)
    weight = F.pixel_unshuffle(first.weight, BLOCK)
    if divisor is not None:
        weight = weight / divisor
    hidden = F.conv2d(pictures.permute(0, 3, 1, 2), weight, first.bias)
    for layer in others:
        hidden = layer(hidden)
    return hidden


def initialised(layer: Any, gain: float) -> Any:
    """The layer with orthogonal weights of this gain and a bias of zero."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
