"""Two or more critics in one network, as TD3, SAC and their kin use them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class TwinCritics(nn.Module):
    """Independent Q-networks with two hidden layers of rectified units; parameters have a leading dimension of 2, or of
    as many as there are.

    Takes (observation, action) rows side by side and gives values shaped (2, rows): the numbers of :meth:`textbook`,
    in one pass instead of two. With several outputs, one for each discrete action, values have a third dimension.
    """

    def __init__(self, inputs: int, hidden: int = 256, count: int = 2, outputs: int = 1) -> None:
        super().__init__()
        self.count = count
        self.weight_1, self.bias_1 = twin_layer(inputs, hidden, count)
        self.weight_2, self.bias_2 = twin_layer(hidden, hidden, count)
        self.weight_3, self.bias_3 = twin_layer(hidden, outputs, count)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.baddbmm(self.bias_1, inputs.expand(self.count, -1, -1), self.weight_1).relu_()
        hidden = torch.baddbmm(self.bias_2, hidden, self.weight_2).relu_()
        return torch.baddbmm(self.bias_3, hidden, self.weight_3).squeeze(2)

    def first(self, inputs: Tensor) -> Tensor:
        """The first critic's values alone, shaped (rows,)."""
        hidden = torch.addmm(self.bias_1[0], inputs, self.weight_1[0]).relu_()
        hidden = torch.addmm(self.bias_2[0], hidden, self.weight_2[0]).relu_()
        return torch.addmm(self.bias_3[0], hidden, self.weight_3[0]).squeeze(1)

    def textbook(self) -> tuple[nn.Sequential, nn.Sequential]:
        """Both critics as networks of their own, with copies of the parameters. For reading and for tests."""

        def critic(number: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            weights = (self.weight_1, self.bias_1), (self.weight_2, self.bias_2), (self.weight_3, self.bias_3)
            for weight, bias in weights:
                layer = nn.Linear(weight.shape[1], weight.shape[2])
                with torch.no_grad():
                    layer.weight.copy_(weight[number].t())
                    layer.bias.copy_(bias[number, 0])
                layers += [layer, nn.ReLU()]
            return nn.Sequential(*layers[:-1], nn.Flatten(0))

        return critic(0), critic(1)


def twin_layer(inputs: int, outputs: int, count: int = 2) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight and bias of a layer for all critics, drawn as `nn.Linear` draws them."""
    bound = 1 / math.sqrt(inputs)
    shapes = (count, inputs, outputs), (count, 1, outputs)
    weight, bias = (nn.Parameter(torch.empty(shape).uniform_(-bound, bound)) for shape in shapes)
    return weight, bias
