"""Adam and its kin on mappings of arrays, against the definition."""

from __future__ import annotations

import numpy as np
import torch

from mosaic_worker.compiled.adam import clipped, descended, no_moments
from mosaic_worker.compiled.networks import orthogonal_layers, tanh_network
from mosaic_worker.compiled.xla import jax, jnp


def test_adam_descends_as_pytorchs_does() -> None:
    random = np.random.default_rng(1)
    first = {"a": random.normal(size=(4, 3)).astype(np.float32), "b": random.normal(size=5).astype(np.float32)}
    theirs = [torch.nn.Parameter(torch.from_numpy(one.copy())) for one in first.values()]
    adam = torch.optim.Adam(theirs, lr=0.01, eps=1e-5)
    ours = {name: jnp.array(one) for name, one in first.items()}
    moments = no_moments(ours)
    step = jax.jit(lambda at, gradients, moments: descended(at, gradients, moments, jnp.float32(0.01), epsilon=1e-5))
    for _ in range(30):
        gradients = {name: random.normal(size=one.shape).astype(np.float32) for name, one in first.items()}
        for parameter, gradient in zip(theirs, gradients.values(), strict=True):
            parameter.grad = torch.from_numpy(gradient)
        adam.step()
        ours, moments = step(ours, gradients, moments)
    for mine, other in zip(ours.values(), theirs, strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_long_gradient_is_scaled_and_a_short_one_is_not() -> None:
    gradients = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
    found = clipped(gradients, jnp.float32(0.5))
    np.testing.assert_allclose([found["a"][0], found["b"][0]], [0.3, 0.4], rtol=1e-5)
    assert clipped(gradients, jnp.float32(6))["b"] == 4


def test_layers_begin_orthogonal_and_are_named_and_shaped_as_pytorchs() -> None:
    layers = orthogonal_layers(np.random.default_rng(1), "net", (4, 64, 64, 2), (2.0, 2.0, 0.5))
    network = torch.nn.Sequential(
        *(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    )
    network.load_state_dict({name.removeprefix("net."): torch.from_numpy(one) for name, one in layers.items()})
    np.testing.assert_allclose(layers["net.2.weight"] @ layers["net.2.weight"].T, 4 * np.eye(64), atol=1e-4)
    np.testing.assert_allclose(layers["net.0.weight"].T @ layers["net.0.weight"], 4 * np.eye(4), atol=1e-4)
    np.testing.assert_allclose(layers["net.4.weight"] @ layers["net.4.weight"].T, 0.25 * np.eye(2), atol=1e-5)
    rows = np.random.default_rng(2).normal(size=(7, 4)).astype(np.float32)
    found = tanh_network({name: jnp.array(one) for name, one in layers.items()}, "net", jnp.array(rows))
    np.testing.assert_allclose(found, network(torch.from_numpy(rows)).detach().numpy(), atol=1e-5)
