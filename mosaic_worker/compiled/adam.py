"""Adam, and the length of a gradient, on mappings of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mosaic_worker.compiled.networks import Arrays
from mosaic_worker.compiled.xla import jax, jnp


class Moments(NamedTuple):
    """What Adam remembers."""

    steps: jax.Array
    mean: Arrays
    mean_square: Arrays


def no_moments(arrays: Mapping[str, Any]) -> Moments:
    mean, mean_square = ({name: np.zeros(one.shape, np.float32) for name, one in arrays.items()} for _ in range(2))
    return Moments(*jax.device_put((np.zeros((), np.int32), mean, mean_square)))


def clipped(gradients: Arrays, longest: jax.Array) -> Arrays:
    """Scaled as ``clip_grad_norm_`` does."""
    length = jnp.sqrt(sum(jnp.sum(one * one) for one in gradients.values()))
    scale = jnp.minimum(1.0, longest / (length + 1e-6))
    return {name: one * scale for name, one in gradients.items()}


def descended(
    arrays: Arrays, gradients: Arrays, moments: Moments, learning_rate: jax.Array, epsilon: float = 1e-8
) -> tuple[Arrays, Moments]:
    """One step of Adam with its usual rates of decay, as ``torch.optim.Adam`` makes it."""
    steps = moments.steps + 1
    count = steps.astype(jnp.float32)
    mean = {name: old + 0.1 * (gradients[name] - old) for name, old in moments.mean.items()}
    squares = {name: 0.999 * old + 0.001 * gradients[name] ** 2 for name, old in moments.mean_square.items()}
    # exp(n log b) in place of b**n: XLA's power is not exact enough for 0.999 to a small n.
    correction = jnp.sqrt(-jnp.expm1(count * jnp.log(0.999)))
    rate = learning_rate * correction / -jnp.expm1(count * jnp.log(0.9))
    fresh = {
        name: one - rate * mean[name] / (jnp.sqrt(squares[name]) + epsilon * correction) for name, one in arrays.items()
    }
    return fresh, Moments(steps, mean, squares)
