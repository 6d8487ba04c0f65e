"""Networks as mappings of arrays, under the names and in the shapes that PyTorch gives their twins.

A weight is (outputs, inputs), as ``nn.Linear`` keeps it, so a checkpoint of either twin fits the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.compiled.xla import jax, jnp

Arrays: TypeAlias = dict[str, jax.Array]


def linear(arrays: Mapping[str, jax.Array], name: str, rows: jax.Array) -> jax.Array:
    """One layer."""
    return rows @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"]


def tanh_network(arrays: Mapping[str, jax.Array], name: str, rows: jax.Array) -> jax.Array:
    """``nn.Sequential(Linear, Tanh, Linear, Tanh, Linear)``."""
    hidden = jnp.tanh(linear(arrays, f"{name}.0", rows))
    hidden = jnp.tanh(linear(arrays, f"{name}.2", hidden))
    return linear(arrays, f"{name}.4", hidden)


def orthogonal_layers(
    random: np.random.Generator, name: str, sizes: Sequence[int], gains: Sequence[float]
) -> dict[str, NDArray[np.float32]]:
    """The layers of such a network, weights orthogonal and biases 0. Drawn in numpy: compiling the drawing would take
    longer than all else before the first step."""
    found = {}
    for number, (shape, gain) in enumerate(zip(pairwise(sizes), gains, strict=True)):
        inputs, outputs = shape
        found[f"{name}.{2 * number}.weight"] = gain * _orthogonal(random, outputs, inputs)
        found[f"{name}.{2 * number}.bias"] = np.zeros(outputs, np.float32)
    return found


def _orthogonal(random: np.random.Generator, rows: int, columns: int) -> NDArray[np.float32]:
    drawn = random.standard_normal((max(rows, columns), min(rows, columns)))
    found, upper = np.linalg.qr(drawn)
    found *= np.sign(np.diag(upper))  # else the decomposition's convention would show
    return (found if rows >= columns else found.T).astype(np.float32)
