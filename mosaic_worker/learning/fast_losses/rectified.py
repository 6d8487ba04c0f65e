"""Forward and backward pass of linear layers with rectified units between them, written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mosaic_worker.learning.adam import FlatAdam, views_in


def is_rectified(network: Any) -> bool:
    """Whether a network is linear layers with rectified units between them, and nothing else."""
    if not isinstance(network, nn.Sequential) or len(network) % 2 == 0:
        return False
    kinds = [nn.ReLU if number % 2 else nn.Linear for number in range(len(network))]
    return all(type(layer) is kind for layer, kind in zip(network, kinds, strict=True))


class RectifiedLayers:
    """The layers of such a network, whose parameters lie in the vector of an optimiser."""

    def __init__(self, adam: FlatAdam) -> None:
        views, slopes = views_in(adam.vector, adam.parameters), views_in(adam.gradient, adam.parameters)
        self.layers = list(zip(views[::2], views[1::2], strict=True))
        self.layer_gradients = list(zip(slopes[::2], slopes[1::2], strict=True))

    def activations(self, observations: Tensor) -> list[Tensor]:
        """What enters each layer, and last what leaves the network."""
        found = [observations]
        for weight, bias in self.layers:
            entering = found[-1].relu_() if len(found) > 1 else observations
            found.append(torch.addmm(bias, entering, weight.t()))
        return found

    def propagate(self, activations: list[Tensor], slopes: Tensor) -> None:
        """Fill the gradient, given the slope of the loss in each output of the network."""
        for number in reversed(range(len(self.layers))):
            entering = activations[number]
            weight_gradient, bias_gradient = self.layer_gradients[number]
            torch.mm(slopes.t(), entering, out=weight_gradient)
            torch.sum(slopes, dim=0, out=bias_gradient)
            if number:
                # A rectified unit passes its slope on where it is above zero: there its sign is 1.
                slopes = (slopes @ self.layers[number][0]).mul_(entering.sign())
