"""Acrobot-v1: two links, of which only the lower joint is driven, to be swung above a line (Sutton, 1996)."""

from __future__ import annotations

import math

from mosaic_worker.compiled.environment import Column, State
from mosaic_worker.compiled.xla import jax, jnp

CHANCES = 4
SECONDS, GRAVITY = 0.2, 9.8
CENTRE = 0.5  # of each link's mass; length, mass and moment of inertia of both links are 1
FASTEST_1, FASTEST_2 = 4 * math.pi, 9 * math.pi


def begin(chances: jax.Array) -> State:
    values = chances * 0.2 - 0.1
    return tuple(values[:, part] for part in range(CHANCES))


def advance(state: State, actions: jax.Array) -> tuple[State, Column, Column]:
    torque = actions.astype(jnp.float32) - 1
    slope_1 = _slope(state, torque)
    slope_2 = _slope(_along(state, slope_1, SECONDS / 2), torque)
    slope_3 = _slope(_along(state, slope_2, SECONDS / 2), torque)
    slope_4 = _slope(_along(state, slope_3, SECONDS), torque)
    slopes = zip(state, slope_1, slope_2, slope_3, slope_4, strict=True)
    angle_1, angle_2, speed_1, speed_2 = (
        part + SECONDS / 6 * (one + 2 * two + 2 * three + four) for part, one, two, three, four in slopes
    )
    angle_1, angle_2 = _wrapped(angle_1), _wrapped(angle_2)
    speed_1 = jnp.clip(speed_1, -FASTEST_1, FASTEST_1)
    speed_2 = jnp.clip(speed_2, -FASTEST_2, FASTEST_2)
    above = -jnp.cos(angle_1) - jnp.cos(angle_1 + angle_2) > 1
    return (angle_1, angle_2, speed_1, speed_2), jnp.where(above, 0.0, -1.0), above


def observe(state: State) -> jax.Array:
    angle_1, angle_2, speed_1, speed_2 = state
    parts = (jnp.cos(angle_1), jnp.sin(angle_1), jnp.cos(angle_2), jnp.sin(angle_2), speed_1, speed_2)
    return jnp.stack(parts, axis=1)


def _along(state: State, slope: State, seconds: float) -> State:
    return tuple(part + seconds * by for part, by in zip(state, slope, strict=True))


def _slope(state: State, torque: Column) -> State:
    """How fast each part of the state changes: the equations of Sutton and Barto's book."""
    angle_1, angle_2, speed_1, speed_2 = state
    cosine, sine = jnp.cos(angle_2), jnp.sin(angle_2)
    inertia_1 = CENTRE**2 + (1 + CENTRE**2 + 2 * CENTRE * cosine) + 2
    inertia_2 = CENTRE**2 + CENTRE * cosine + 1
    pull_2 = CENTRE * GRAVITY * jnp.sin(angle_1 + angle_2)
    pull_1 = (
        -CENTRE * speed_2**2 * sine
        - 2 * CENTRE * speed_2 * speed_1 * sine
        + (CENTRE + 1) * GRAVITY * jnp.sin(angle_1)
        + pull_2
    )
    driven = torque + inertia_2 / inertia_1 * pull_1 - CENTRE * speed_1**2 * sine - pull_2
    turning_2 = driven / (CENTRE**2 + 1 - inertia_2**2 / inertia_1)
    turning_1 = -(inertia_2 * turning_2 + pull_1) / inertia_1
    return speed_1, speed_2, turning_1, turning_2


def _wrapped(angle: Column) -> Column:
    """Into the half-open turn around 0; one step turns a link by less than two turns."""
    return angle - 2 * math.pi * jnp.round(angle / (2 * math.pi))
