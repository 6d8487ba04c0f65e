"""Networks as mappings of arrays, under the names and in the shapes that PyTorch gives their twins.

A weight is (outputs, inputs), as ``nn.Linear`` keeps it, so a checkpoint of either twin fits the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

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


def relu_hidden(arrays: Mapping[str, jax.Array], rows: jax.Array) -> jax.Array:
    """The layers ``fc1`` and ``fc2``, with rectified units."""
    return jax.nn.relu(linear(arrays, "fc2", jax.nn.relu(linear(arrays, "fc1", rows))))


def twin_values(arrays: Mapping[str, jax.Array], rows: jax.Array) -> jax.Array:
    """What both critics make of observations and actions side by side, shaped (2, rows): ``TwinCritics``."""
    hidden = jax.nn.relu(rows @ arrays["weight_1"] + arrays["bias_1"])
    hidden = jax.nn.relu(hidden @ arrays["weight_2"] + arrays["bias_2"])
    return (hidden @ arrays["weight_3"] + arrays["bias_3"])[..., 0]


def first_value(arrays: Mapping[str, jax.Array], rows: jax.Array) -> jax.Array:
    """The first critic's values alone, shaped (rows,)."""
    return twin_values({name: one[:1] for name, one in arrays.items()}, rows)[0]


def part(arrays: Mapping[str, jax.Array], name: str, *left_out: str) -> Arrays:
    """The arrays whose names begin with `name`, by what follows."""
    start = f"{name}."
    found = {key.removeprefix(start): one for key, one in arrays.items() if key.startswith(start)}
    return {key: one for key, one in found.items() if key not in left_out}


def named(name: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The other way."""
    return {f"{name}.{key}": one for key, one in arrays.items()}


def uniform_layers(random: np.random.Generator, **shapes: tuple[int, int]) -> dict[str, NDArray[np.float32]]:
    """Layers by name, each (inputs, outputs), drawn as ``nn.Linear`` draws them."""
    found = {}
    for name, (inputs, outputs) in shapes.items():
        bound = 1 / math.sqrt(inputs)
        found[f"{name}.weight"] = random.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
        found[f"{name}.bias"] = random.uniform(-bound, bound, outputs).astype(np.float32)
    return found


def twin_critics(random: np.random.Generator, inputs: int, hidden: int) -> dict[str, NDArray[np.float32]]:
    """Both critics, in the shapes of ``TwinCritics``."""
    found = {}
    for number, (before, after) in enumerate(pairwise((inputs, hidden, hidden, 1)), start=1):
        bound = 1 / math.sqrt(before)
        found[f"weight_{number}"] = random.uniform(-bound, bound, (2, before, after)).astype(np.float32)
        found[f"bias_{number}"] = random.uniform(-bound, bound, (2, 1, after)).astype(np.float32)
    return found


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
