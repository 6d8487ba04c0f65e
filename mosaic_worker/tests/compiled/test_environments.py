"""Environments in JAX, step by step against Gymnasium's: the same state and action lead to the same.

Gymnasium calculates in float64, these in float32. From the same state, one step may differ by 1e-5 of a number's size
(1e-4 for Acrobot, which integrates), and a limit that is met within that distance may count on either side.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_worker.compiled import environment
from mosaic_worker.compiled.environment import CompiledEnvs
from mosaic_worker.compiled.names import CONTINUOUS, DISCRETE, MODULES
from mosaic_worker.compiled.xla import jax, jnp

TOLERANCE = dict.fromkeys(MODULES, 1e-5) | {"Acrobot-v1": 1e-4}
# Lowest and highest of each part of a state, beyond what play reaches, so that every limit is met.
EXTENT: dict[str, tuple[list[float], list[float]]] = {
    "CartPole-v1": ([-2.5, -3, -0.22, -3], [2.5, 3, 0.22, 3]),
    "Acrobot-v1": ([-math.pi, -math.pi, -12, -28], [math.pi, math.pi, 12, 28]),
    "MountainCar-v0": ([-1.2, -0.07], [0.55, 0.07]),
    "Pendulum-v1": ([-12, -8], [12, 8]),
}
STEPS = 3000


def played(env: Any, env_id: str, seed: int) -> list[tuple[Any, Any, Any, float, bool]]:
    """(state, action, observation, reward, terminated) of single steps: some from where play leads, some from states
    of any kind."""
    random = np.random.default_rng(seed)
    low, high = EXTENT[env_id]
    env.reset(seed=seed)
    env.action_space.seed(seed)
    found, over = [], False
    for number in range(STEPS):
        if number % 2:
            env.reset()
            env.unwrapped.state = random.uniform(low, high)
        elif over:
            env.reset()
        state = np.array(env.unwrapped.state, np.float32)
        env.unwrapped.state = state.astype(np.float64)  # both begin with the very same numbers
        action = env.action_space.sample()
        observation, reward, over, cut, _ = env.step(action)
        found.append((state, action, observation, float(reward), bool(over)))
        over = over or cut
    return found


@pytest.mark.parametrize("env_id", MODULES)
def test_each_step_leads_where_gymnasiums_does(env_id: str) -> None:
    with gym.make(env_id) as env:
        steps = played(env, env_id, seed=3)
    states, actions, observations, rewards, over = (np.array(column) for column in zip(*steps, strict=True))
    world = CompiledEnvs(env_id, 1).world

    @jax.jit
    def advanced(columns: Any, actions: Any) -> Any:
        state, rewards, terminated = world.advance(columns, actions)
        return world.observe(state), rewards, terminated

    found = advanced(tuple(jnp.array(states[:, part]) for part in range(states.shape[1])), jnp.array(actions))
    near = TOLERANCE[env_id]
    np.testing.assert_allclose(found[0], observations, rtol=near, atol=near)
    np.testing.assert_allclose(found[1], rewards, rtol=near, atol=near)
    np.testing.assert_array_equal(found[2], over)
    assert over.any() or env_id in CONTINUOUS, "an end that is never met tests nothing"


@pytest.mark.parametrize("env_id", MODULES)
def test_episodes_begin_and_are_cut_off_as_gymnasiums_are(env_id: str) -> None:
    envs = CompiledEnvs(env_id, 500)
    chances = np.random.default_rng(1).random((500, envs.world.CHANCES), dtype=np.float32)
    rows = environment.begin(envs.world, jnp.array(chances))
    with gym.make(env_id) as env:
        firsts = np.array([env.reset(seed=seed)[0] for seed in range(500)])
        assert envs.time_limit == env.spec.max_episode_steps  # type: ignore[union-attr]
        assert (envs.single_observation_space, envs.single_action_space) == (env.observation_space, env.action_space)
    np.testing.assert_allclose(rows.observation.mean(0), firsts.mean(0), atol=0.15 * np.ptp(firsts, axis=0).max())
    spread = np.ptp(firsts, axis=0)
    np.testing.assert_allclose(np.ptp(np.asarray(rows.observation), axis=0), spread, atol=0.1 * spread.max())


def test_a_time_limit_cuts_episodes_off_and_the_next_one_begins_within_the_step() -> None:
    envs = CompiledEnvs("MountainCar-v0", 2)
    world, limit = envs.world, envs.time_limit
    chances = np.random.default_rng(2).random((2 * limit, 2, 1), dtype=np.float32)

    @jax.jit
    def play(chances: Any) -> Any:
        still = jnp.ones(2, int)
        first = environment.begin(world, chances[0])
        return jax.lax.scan(lambda rows, drawn: environment.step(world, limit, rows, still, drawn), first, chances)

    rows, seen = play(jnp.array(chances))
    cut = np.flatnonzero(seen.truncated[:, 0])
    assert cut.tolist() == [limit - 1, 2 * limit - 1] and not seen.terminated.any()
    assert seen.lengths[cut].tolist() == [[limit, limit]] * 2 and seen.returns[cut].tolist() == [[-limit, -limit]] * 2
    begun = chances[cut[-1], :, 0] * 0.2 - 0.6
    np.testing.assert_allclose(rows.observation[:, 0], begun, rtol=1e-6)
    assert (np.asarray(seen.following[-1]) != np.asarray(rows.observation)).any(), "what the episode ended in is kept"
    assert rows.lengths.tolist() == [0, 0] and rows.returns.tolist() == [0, 0]


def test_the_names_that_need_no_jax_are_those_of_the_modules() -> None:
    for env_id in MODULES:
        with gym.make(env_id) as env:
            assert isinstance(env.action_space, gym.spaces.Discrete) is (env_id in DISCRETE)
