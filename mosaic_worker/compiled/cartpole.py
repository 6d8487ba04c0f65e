"""CartPole-v1: a pole on a cart, to be kept upright by pushing the cart (Barto, Sutton and Anderson, 1983)."""

from __future__ import annotations

import math

from mosaic_worker.compiled.environment import Column, State
from mosaic_worker.compiled.xla import jax, jnp

CHANCES = 4
GRAVITY, FORCE, SECONDS = 9.8, 10.0, 0.02
MASS_POLE, MASS_TOTAL, HALF_LENGTH = 0.1, 1.1, 0.5
FARTHEST, STEEPEST = 2.4, math.radians(12)


def begin(chances: jax.Array) -> State:
    values = chances * 0.1 - 0.05
    return tuple(values[:, part] for part in range(CHANCES))


def advance(state: State, actions: jax.Array) -> tuple[State, Column, Column]:
    x, x_speed, angle, angle_speed = state
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    pushed = jnp.where(actions == 1, FORCE, -FORCE)
    share = (pushed + MASS_POLE * HALF_LENGTH * angle_speed**2 * sine) / MASS_TOTAL
    turning = (GRAVITY * sine - cosine * share) / (HALF_LENGTH * (4 / 3 - MASS_POLE * cosine**2 / MASS_TOTAL))
    pulling = share - MASS_POLE * HALF_LENGTH * turning * cosine / MASS_TOTAL
    x, x_speed = x + SECONDS * x_speed, x_speed + SECONDS * pulling
    angle, angle_speed = angle + SECONDS * angle_speed, angle_speed + SECONDS * turning
    fallen = (jnp.abs(x) > FARTHEST) | (jnp.abs(angle) > STEEPEST)
    return (x, x_speed, angle, angle_speed), jnp.ones_like(x), fallen


def observe(state: State) -> jax.Array:
    return jnp.stack(state, axis=1)
