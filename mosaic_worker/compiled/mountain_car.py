"""MountainCar-v0: a car that is too weak for the hill it has to climb (Moore, 1990)."""

from __future__ import annotations

from mosaic_worker.compiled.environment import Column, State
from mosaic_worker.compiled.xla import jax, jnp

CHANCES = 1
LEFTMOST, RIGHTMOST, GOAL = -1.2, 0.6, 0.5
FORCE, GRAVITY, FASTEST = 0.001, 0.0025, 0.07


def begin(chances: jax.Array) -> State:
    place = chances[:, 0] * 0.2 - 0.6
    return place, jnp.zeros_like(place)


def advance(state: State, actions: jax.Array) -> tuple[State, Column, Column]:
    place, speed = state
    speed = speed + (actions.astype(jnp.float32) - 1) * FORCE - jnp.cos(3 * place) * GRAVITY
    speed = jnp.clip(speed, -FASTEST, FASTEST)
    place = jnp.clip(place + speed, LEFTMOST, RIGHTMOST)
    speed = jnp.where((place <= LEFTMOST) & (speed < 0), 0.0, speed)
    return (place, speed), jnp.full_like(place, -1), (place >= GOAL) & (speed >= 0)


def observe(state: State) -> jax.Array:
    return jnp.stack(state, axis=1)
