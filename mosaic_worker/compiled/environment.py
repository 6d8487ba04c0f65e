"""Environments inside a compiled program: many of one kind, stepped together.

A :class:`World` is the physics of one environment of Gymnasium's, written for columns: each part of its state is an
array with one number per environment, and every function takes and gives such columns. It has neither a time limit nor
an end of its own; :func:`step` adds both, as Gymnasium's ``TimeLimit`` and a vector environment do.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, Protocol, TypeAlias

import gymnasium as gym

from mosaic_worker.compiled.names import MODULES
from mosaic_worker.compiled.xla import jax, jnp

Column: TypeAlias = jax.Array
State: TypeAlias = tuple[Column, ...]


class World(Protocol):
    """A module of this package: one kind of environment. Pure functions; float32 throughout, where Gymnasium's may
    calculate in float64."""

    CHANCES: int
    """Numbers that the beginning of an episode is drawn from."""

    def begin(self, chances: jax.Array) -> State:
        """The first state of episodes, from numbers in [0, 1) shaped (environments, CHANCES)."""

    def advance(self, state: State, actions: jax.Array) -> tuple[State, Column, Column]:
        """(state, rewards, whether the episode terminated) after actions that are counted from 0."""

    def observe(self, state: State) -> jax.Array:
        """What an agent sees, shaped (environments, numbers)."""


class Rows(NamedTuple):
    """Where environments stand: one row each."""

    state: State
    observation: jax.Array
    returns: Column
    lengths: Column


class Seen(NamedTuple):
    """What one step of all environments brought; `following` is the observation that it truly led to."""

    rewards: Column
    terminated: Column
    truncated: Column
    following: jax.Array
    returns: Column
    """Of the episode so far; where one ended, of all of it."""
    lengths: Column


class CompiledEnvs:
    """Environments of one kind for a script, with the spaces and the time limit of Gymnasium's."""

    def __init__(self, env_id: str, num_envs: int) -> None:
        self.env_id, self.num_envs = env_id, num_envs
        self.world: Any = importlib.import_module(f"mosaic_worker.compiled.{MODULES[env_id]}")
        made = gym.make(env_id)
        self.single_observation_space: Any = made.observation_space
        self.single_action_space: Any = made.action_space
        made.close()
        self.time_limit = int(getattr(made.spec, "max_episode_steps", 0) or 0)

    def close(self) -> None:
        """There is nothing to release."""


def begin(world: World, chances: jax.Array) -> Rows:
    """All environments at the start of an episode."""
    state = world.begin(chances)
    zeros = jnp.zeros(len(chances), jnp.float32)
    return Rows(state, world.observe(state), zeros, zeros.astype(jnp.int32))


def step(world: World, time_limit: int, rows: Rows, actions: jax.Array, chances: jax.Array) -> tuple[Rows, Seen]:
    """One step of all environments. Where an episode ends the next one begins within the step, from `chances`."""
    state, rewards, terminated = world.advance(rows.state, actions)
    following = world.observe(state)
    returns, lengths = rows.returns + rewards, rows.lengths + 1
    truncated = (lengths >= time_limit) & ~terminated
    over = terminated | truncated
    fresh = world.begin(chances)
    state = tuple(jnp.where(over, new, old) for new, old in zip(fresh, state, strict=True))
    observation = jnp.where(over[:, None], world.observe(fresh), following)
    rows = Rows(state, observation, jnp.where(over, 0.0, returns), jnp.where(over, 0, lengths))
    return rows, Seen(rewards, terminated, truncated, following, returns, lengths)
