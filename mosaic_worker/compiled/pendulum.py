"""Pendulum-v1: a pendulum to be swung up with a weak motor and kept there; its actions are continuous."""

from __future__ import annotations

import math

from mosaic_worker.compiled.environment import Column, State
from mosaic_worker.compiled.xla import jax, jnp

CHANCES = 2
GRAVITY, SECONDS, FASTEST, STRONGEST = 10.0, 0.05, 8.0, 2.0


def begin(chances: jax.Array) -> State:
    values = chances * 2 - 1
    return values[:, 0] * math.pi, values[:, 1]


def advance(state: State, actions: jax.Array) -> tuple[State, Column, Column]:
    """Actions are torques, shaped (environments, 1)."""
    angle, speed = state
    torque = jnp.clip(actions[:, 0], -STRONGEST, STRONGEST)
    upright = angle - 2 * math.pi * jnp.floor((angle + math.pi) / (2 * math.pi))
    cost = upright**2 + 0.1 * speed**2 + 0.001 * torque**2
    speed = jnp.clip(speed + (1.5 * GRAVITY * jnp.sin(angle) + 3 * torque) * SECONDS, -FASTEST, FASTEST)
    return (angle + speed * SECONDS, speed), -cost, jnp.zeros_like(speed, bool)


def observe(state: State) -> jax.Array:
    angle, speed = state
    return jnp.stack((jnp.cos(angle), jnp.sin(angle), speed), axis=1)
