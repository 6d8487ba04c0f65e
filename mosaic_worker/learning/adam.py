"""Adam for small networks, in three forms that give the numbers of ``torch.optim.Adam`` sooner.

The first use of ``torch.optim`` imports the compiler, which takes seconds, and its bookkeeping takes longer than the
arithmetic for networks this small. Here all parameters of a network lie in one vector, so clipping and stepping are a
few operations, not dozens; the parameters are views of that vector and need not be written back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

MOMENTS = ("steps", "mean", "mean_square")
"""What a checkpoint keeps of an optimiser, of each kind here."""


def as_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Lay parameters out as one vector, of which they are views from here on."""
    found = list(parameters)
    vector = nn.utils.parameters_to_vector(found).detach()
    nn.utils.vector_to_parameters(vector, found)
    return vector


def views_in(vector: Tensor, parameters: Iterable[Tensor]) -> list[Tensor]:
    """Views of a vector, one shaped like each parameter."""
    shapes = list(parameters)
    pieces = vector.split([shape.numel() for shape in shapes])
    return [piece.view_as(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def textbook_adam(
    vector: Tensor,
    gradient: Tensor,
    mean: Tensor,
    mean_square: Tensor,
    *,
    step: int,
    learning_rate: float,
    epsilon: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of Adam as Kingma and Ba write it: (parameters, mean, mean square). For reading and for tests."""
    mean = beta_1 * mean + (1 - beta_1) * gradient
    mean_square = beta_2 * mean_square + (1 - beta_2) * gradient**2
    unbiased_mean = mean / (1 - beta_1**step)
    unbiased_mean_square = mean_square / (1 - beta_2**step)
    return vector - learning_rate * unbiased_mean / (unbiased_mean_square.sqrt() + epsilon), mean, mean_square


class FlatAdam:
    """Adam on parameters whose gradients autograd adds up in one vector, too."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, epsilon: float = 1e-8) -> None:
        self.learning_rate, self.epsilon = learning_rate, epsilon
        self.parameters = list(parameters)
        self.vector = as_vector(self.parameters)
        self.gradient = torch.zeros_like(self.vector)
        for parameter, view in zip(self.parameters, views_in(self.gradient, self.parameters), strict=True):
            if parameter.requires_grad:
                parameter.grad = view
        self.steps = 0
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)

    def minimise(self, loss: Tensor, longest: float | None = None) -> None:
        """One step down the gradient of a loss, scaled to the longest one that is allowed."""
        self.gradient.zero_()
        loss.backward()
        if longest is not None:
            self.clip(longest)
        self.descend()

    def clip(self, longest: float) -> None:
        """Scale the gradient that is there, as ``clip_grad_norm_`` does."""
        self.gradient.mul_((longest / (self.gradient.norm() + 1e-6)).clamp(max=1))

    @torch.no_grad()
    def descend(self, beta_1: float = 0.9, beta_2: float = 0.999) -> None:
        """One step along the gradient that is there."""
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        root = self.mean_square.sqrt().div_(math.sqrt(1 - beta_2**self.steps)).add_(self.epsilon)
        self.vector.addcdiv_(self.mean, root, value=-self.learning_rate / (1 - beta_1**self.steps))

    def remember(self) -> tuple[int, Tensor, list[Tensor]]:
        """All that an update changes, with the generator that it draws from, for :meth:`put_back`."""
        return self.steps, torch.get_rng_state(), [one.clone() for one in (self.vector, self.mean, self.mean_square)]

    def put_back(self, remembered: tuple[int, Tensor, list[Tensor]]) -> None:
        self.steps, random_state, tensors = remembered
        torch.set_rng_state(random_state)
        for current, before in zip((self.vector, self.mean, self.mean_square), tensors, strict=True):
            current.copy_(before)


class LeanAdam(FlatAdam):
    """The same with both corrections for the moments' start at zero in two scalars: one pass over the vector less.

    It differs from :class:`FlatAdam` in the last bits. For gradients that are written out, so it asks nothing of
    autograd.
    """

    def descend(self, beta_1: float = 0.9, beta_2: float = 0.999) -> None:
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        correction = math.sqrt(1 - beta_2**self.steps)
        rate = self.learning_rate * correction / (1 - beta_1**self.steps)
        self.vector.addcdiv_(self.mean, self.mean_square.sqrt().add_(self.epsilon * correction), value=-rate)


class FusedAdam:
    """The kernel of ``torch.optim.Adam(fused=True)``, called directly, on the parameters of a module.

    One pass over memory: the fastest form for networks of some hundred thousand parameters.
    """

    def __init__(self, module: nn.Module, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self.vector = as_vector(module.parameters())
        self.parameters = list(module.parameters())
        self.views = views_in(self.vector, self.parameters)
        self.steps = torch.zeros((), device=self.vector.device)
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.means = views_in(self.mean, self.parameters)
        self.mean_squares = views_in(self.mean_square, self.parameters)
        self.kernel_steps = [self.steps] * len(self.parameters)

    def minimise(self, loss: Tensor) -> None:
        """One step down the gradient of a loss, of which only this module's part is computed."""
        self.descend(list(torch.autograd.grad(loss, self.parameters)))

    @torch.no_grad()
    def descend(self, gradients: list[Tensor]) -> None:
        self.steps += 1
        torch._fused_adam_(
            self.views,
            gradients,
            self.means,
            self.mean_squares,
            [],
            self.kernel_steps,
            lr=self.learning_rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


class TargetNetwork:
    """A copy of a network that follows it: all parameters in one operation."""

    def __init__(self, copy: nn.Module, followed: Tensor) -> None:
        """`followed`: the vector that the parameters of the trained network are views of."""
        self.followed = followed
        self.vector = as_vector(copy.parameters()).copy_(followed)

    @torch.no_grad()
    def follow(self, tau: float) -> None:
        """Go a share of the way; 1 copies."""
        self.vector.lerp_(self.followed, tau)


def require_finite(*vectors: Tensor, what: str = "loss is", advice: str = "--learning-rate") -> None:
    """Raise FloatingPointError when parameters are lost: no checkpoint is written of that."""
    if not math.isfinite(sum(vector.sum().item() for vector in vectors)):
        raise FloatingPointError(f"The {what} no longer finite; a lower {advice} may help.")
