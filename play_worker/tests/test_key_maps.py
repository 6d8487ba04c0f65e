"""Each family has its keys, and any other environment has some."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from mosaic_protocol.live.key_map import KeyMapError
from play_worker.actions import fitted
from play_worker.games import family_of, make_game
from play_worker.key_maps import DISCRETE, key_map_for, with_changes

STEERING = set("prnq.+-=") | {"tab"}
"""Keys that steer a session in a terminal."""


class Anything(gym.Env[Any, Any]):
    """An environment that nobody knows."""

    def __init__(self, space: gym.Space[Any], called: str = "") -> None:
        self.action_space, self.observation_space = space, gym.spaces.Discrete(2)
        self.spec = EnvSpec(called) if called else None


@pytest.mark.parametrize(
    ("env_id", "held", "action", "word"),
    [
        ("FrozenLake-v1", ["right"], 2, "right"),
        ("CliffWalking-v1", ["up"], 0, "up"),
        ("Taxi-v4", ["space"], 4, "pick up"),
        ("Blackjack-v1", ["h"], 1, "hit"),
        ("CartPole-v1", ["left", "right"], 1, "push right"),
        ("MountainCar-v0", ["left"], 0, "push left"),
        ("Acrobot-v1", ["right"], 2, "turn right"),
        ("Pendulum-v1", ["left"], [2.0], ""),
        ("MountainCarContinuous-v0", ["left", "right"], [0.0], ""),
    ],
)
def test_a_known_game_has_its_keys(env_id: str, held: list[str], action: Any, word: str) -> None:
    with make_game(env_id, {}) as env:
        found = key_map_for(env, family_of(env))
        assert found.action_for(held) == action
        assert found.label_of(action) == word
        assert not STEERING & {key for one in found.bindings for key in one.keys}
        for one in found.bindings:
            fitted(env.action_space, one.action)


@pytest.mark.parametrize(
    ("called", "space", "held", "action"),
    [
        ("LunarLander-v3", gym.spaces.Discrete(4), ["up"], 2),
        ("LunarLander-v3", gym.spaces.Box(-1, 1, (2,)), ["up", "left"], [1.0, -1.0]),
        ("LunarLanderContinuous-v3", gym.spaces.Box(-1, 1, (2,)), ["right"], [0.0, 1.0]),
        ("CarRacing-v3", gym.spaces.Discrete(5), ["down"], 4),
        ("CarRacing-v3", gym.spaces.Box(-1, 1, (3,)), ["left", "up"], [-1.0, 0.6, 0.0]),
        ("MiniGrid-Empty-5x5-v0", gym.spaces.Discrete(7), ["space"], 5),
        ("BabyAI-GoToLocal-v0", gym.spaces.Discrete(7), ["up"], 2),
        ("HalfCheetah-v5", gym.spaces.Box(-1, 1, (6,)), ["right", "t"], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    ],
)
def test_keys_go_by_the_name_and_the_actions(called: str, space: gym.Space[Any], held: list[str], action: Any) -> None:
    assert key_map_for(Anything(space, called), "other").action_for(held) == action


def test_every_table_leaves_the_steering_keys_alone() -> None:
    for table, _ in DISCRETE.values():
        assert not STEERING & table.keys()


def test_atari_keys_come_from_the_names_of_the_actions() -> None:
    pytest.importorskip("ale_py")
    with make_game("ALE/Breakout-v5", {}) as env:
        assert family_of(env) == "atari"
        found = key_map_for(env, "atari")
        meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        assert meanings[found.action_for(["space"])] == "FIRE"
        assert meanings[found.action_for(["left"])] == "LEFT"
        assert meanings[found.idle] == "NOOP"


def test_held_keys_combine_in_a_game_with_all_directions() -> None:
    pytest.importorskip("ale_py")
    with make_game("ALE/Seaquest-v5", {}) as env:
        found, meanings = key_map_for(env, "atari"), env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        assert meanings[found.action_for(["up", "right", "space"])] == "UPRIGHTFIRE"
        assert meanings[found.action_for(["down", "left"])] == "DOWNLEFT"


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(5, start=3),
        gym.spaces.Discrete(1000),
        gym.spaces.Box(-2, 3, (6,), np.float32),
        gym.spaces.Box(-np.inf, np.inf, (20,), np.float64),
        gym.spaces.Box(1, 2, (2,), np.float32),
        gym.spaces.MultiDiscrete([3, 1, 4]),
        gym.spaces.MultiBinary(4),
    ],
    ids=str,
)
def test_an_unknown_environment_has_keys_that_it_takes(space: gym.Space[Any]) -> None:
    found = key_map_for(Anything(space), "other")
    assert found.bindings
    assert not STEERING & {key for one in found.bindings for key in one.keys}
    for one in found.bindings:
        fitted(space, found.action_for(one.keys))
    if found.idle is not None:
        fitted(space, found.idle)


def test_actions_that_no_key_can_mean_leave_the_map_empty() -> None:
    space = gym.spaces.Dict({"a": gym.spaces.Discrete(2)})
    assert key_map_for(Anything(space), "other").bindings == ()


@pytest.mark.parametrize(
    ("space", "action", "why"),
    [
        (gym.spaces.Discrete(4), 7, "7 is no action of Discrete(4)"),
        (gym.spaces.Discrete(4), "left", "'left' is no action of Discrete(4)"),
        (gym.spaces.Box(-2, 2, (1,)), 3, "an action has the shape (1,), this one has ()"),
        (gym.spaces.Box(-1, 1, (2,)), [1.0], "an action has the shape (2,), this one has (1,)"),
        (gym.spaces.MultiBinary(2), [0, 1, 1], "[0, 1, 1] is no action of MultiBinary(2)"),
        (gym.spaces.MultiBinary(2), {}, "{} is no action of MultiBinary(2)"),
    ],
    ids=str,
)
def test_a_key_that_means_no_action_is_refused_before_it_is_pressed(
    space: gym.Space[Any], action: Any, why: str
) -> None:
    key_map = key_map_for(Anything(space), "other")
    with pytest.raises(KeyMapError) as caught:
        with_changes(key_map, {"x": action}, space)
    assert str(caught.value) == f"the key 'x' cannot be used: {why}"


def test_a_key_of_ones_own_and_one_let_go() -> None:
    space = gym.spaces.Discrete(4)
    changed = with_changes(key_map_for(Anything(space), "other"), {"x": 2, "1": None}, space)
    assert changed.action_for(["x"]) == 2
    assert changed.action_for(["1"]) is None
