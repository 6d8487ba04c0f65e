"""Networks evaluated in numpy, on the memory that their parameters lie in.

For one row or a few, calling PyTorch takes several times as long as the arithmetic. The textbook form is the network's
own call; :func:`numpy_form` falls back to it for a network that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic_worker.policies.policy import flat_rows

Rows = NDArray[np.float32]
Layers = list[tuple[Rows, Rows]]
NumpyForm = Callable[[Rows], Rows]


def layers_of(module: nn.Module) -> Layers:
    """(transposed weight, bias) of each linear layer: views, where the parameters are in main memory."""
    arrays = [parameter.detach().cpu().numpy() for parameter in module.parameters()]
    return [(weight.T, bias) for weight, bias in zip(arrays[::2], arrays[1::2], strict=True)]


def numpy_form(network: nn.Module) -> NumpyForm:
    """A function of rows that gives what the network gives.

    It follows the parameters as they change in main memory; of a network on a GPU it is a copy, to be made again after
    each update.
    """
    kinds = [type(layer) for layer in network] if isinstance(network, nn.Sequential) else []
    if kinds == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]:
        return _two_hidden_tanh(layers_of(network))
    if kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]:
        return two_hidden_relu(layers_of(network))
    return textbook_form(network)


def textbook_form(network: nn.Module) -> NumpyForm:
    """The network's own call on rows of numpy."""
    device = next(network.parameters()).device

    @torch.no_grad()
    def call(rows: Rows) -> Rows:
        found: Rows = network(torch.from_numpy(rows).to(device)).cpu().numpy()
        return found

    return call


def _two_hidden_tanh(layers: Layers) -> NumpyForm:
    (weight_1, bias_1), (weight_2, bias_2), (weight_3, bias_3) = layers

    def call(rows: Rows) -> Rows:
        hidden = np.tanh(rows @ weight_1 + bias_1)
        hidden = np.tanh(hidden @ weight_2 + bias_2)
        return hidden @ weight_3 + bias_3

    return call


def two_hidden_relu(layers: Layers) -> NumpyForm:
    """``nn.Sequential(Linear, ReLU, Linear, ReLU, Linear)`` of these layers."""
    (weight_1, bias_1), (weight_2, bias_2), (weight_3, bias_3) = layers

    def call(rows: Rows) -> Rows:
        hidden = np.maximum(rows @ weight_1 + bias_1, 0)
        hidden = np.maximum(hidden @ weight_2 + bias_2, 0)
        return hidden @ weight_3 + bias_3

    return call


def relu_hidden(layers: Layers, rows: Rows) -> Rows:
    """What the first two layers make of rows, with rectified units."""
    (weight_1, bias_1), (weight_2, bias_2) = layers[0], layers[1]
    hidden = np.maximum(rows @ weight_1 + bias_1, 0)
    return np.maximum(hidden @ weight_2 + bias_2, 0)


class SoftmaxActor:
    """Draws discrete actions from the softmax of a network's outputs, and acts for a checkpoint.

    The textbook form is ``Categorical(logits=network(observations)).sample()``. Adding Gumbel noise and taking the
    largest logit samples from the same distribution, and the noise of many steps is drawn at once.
    """

    def __init__(
        self, network: nn.Module, action_count: int, first_action: int, critic: nn.Module | None = None
    ) -> None:
        """`critic` is asked for the value of states, for recordings and for those who watch."""
        self.network, self.action_count, self.first_action = network, action_count, first_action
        self.critic = critic
        self.follow()

    def follow(self) -> None:
        """Take up the parameters as they are now."""
        self.logits = numpy_form(self.network)

    def noise(self, random: np.random.Generator, steps: int, envs: int) -> Rows:
        """The noise of a whole rollout."""
        return random.gumbel(size=(steps, envs, self.action_count)).astype(np.float32)

    def choose(self, observations: Rows, noise: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(actions counted from 0, actions as the environment counts them)"""
        actions = (self.logits(observations) + noise).argmax(axis=1)
        return actions, actions + self.first_action

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        logits: NDArray[Any] = self.logits(flat_rows(observations))
        if not deterministic:
            logits = logits + random.gumbel(size=logits.shape)
        return logits.argmax(axis=1) + self.first_action

    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
        """How likely each action is, and what is expected of the state."""
        rows = flat_rows(observations)
        opinion = {"probabilities": softmax(self.logits(rows))}
        if self.critic is not None:
            opinion["value"] = numpy_form(self.critic)(rows).reshape(len(rows))
        return opinion


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: NDArray[Any] = weights / weights.sum(axis=1, keepdims=True)
    return shares


class GaussianActor:
    """Draws continuous actions around a network's outputs, with a deviation that is the same in every state.

    The textbook form is ``Normal(mean(observations), log_std.exp()).sample()``; here the noise of many steps is
    drawn at once.
    """

    def __init__(self, mean: nn.Module, log_std: Tensor, low: Any, high: Any, played_shape: tuple[int, ...]) -> None:
        """`low` and `high` are what actions are clipped to before they are played; None leaves them as they are."""
        self.network, self.log_std = mean, log_std
        self.low, self.high, self.played_shape = low, high, played_shape
        self.follow()

    def follow(self) -> None:
        """Take up the parameters as they are now."""
        self.mean = numpy_form(self.network)
        self.deviation = np.exp(self.log_std.detach().cpu().numpy())

    def noise(self, random: np.random.Generator, steps: int, envs: int) -> Rows:
        """The noise of a whole rollout."""
        return random.standard_normal((steps, envs, self.deviation.shape[-1]), dtype=np.float32)

    def choose(self, observations: Rows, noise: Rows) -> tuple[Rows, Rows]:
        """(actions as they were drawn, actions within their range and shaped as the environments take them)"""
        actions = self.mean(observations) + self.deviation * noise
        return actions, self.clipped(actions).reshape(self.played_shape)

    def clipped(self, actions: Rows) -> Rows:
        return actions if self.low is None else actions.clip(self.low, self.high)
