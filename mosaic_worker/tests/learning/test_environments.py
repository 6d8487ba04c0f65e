"""Environments as networks read them."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mosaic_worker.learning.environments import make_env
from mosaic_worker.policies.rules import rules_of
from mosaic_worker.training import environments


@pytest.mark.parametrize(
    ("env_id", "size", "ones"), [("FrozenLake-v1", 16, 1), ("Taxi-v4", 500, 1), ("Blackjack-v1", 45, 3)]
)
def test_what_can_be_counted_comes_as_numbers_and_is_the_same_game(env_id: str, size: int, ones: int) -> None:
    with make_env(env_id) as env, environments.make_env(env_id) as plain:
        observation, _ = env.reset(seed=3)
        assert isinstance(env.observation_space, gym.spaces.Box) and env.observation_space.shape == (size,)
        assert observation.sum() == ones and set(observation.tolist()) == {0, 1}
        assert rules_of(env) == rules_of(plain), "an arena lets it meet those that count"


def test_what_is_numbers_already_stays_as_it_is() -> None:
    with make_env("CartPole-v1") as env:
        assert not isinstance(env, gym.wrappers.FlattenObservation)
