"""Worlds go exactly as their environments do, whichever way they are had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_worker.errors import UsageError
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.tests.recording.step_journals import steps_in
from spade_bdi_rl_worker.learning.environments import make_env
from spade_bdi_rl_worker.learning.worlds import SteppedWorld, TableWorld, open_world
from spade_bdi_rl_worker.tests.alone import make_runtime


@pytest.mark.parametrize(
    ("env_id", "params", "kind"),
    [
        ("FrozenLake-v1", {}, TableWorld),
        ("FrozenLake-v1", {"is_slippery": False, "map_name": "8x8"}, TableWorld),
        ("CliffWalking-v1", {}, TableWorld),
        ("CliffWalking-v1", {"env_kwargs": {"is_slippery": True}}, TableWorld),
        ("Taxi-v4", {}, TableWorld),
        ("Taxi-v4", {"env_kwargs": {"is_rainy": True}}, TableWorld),
        ("Taxi-v4", {"env_kwargs": {"fickle_passenger": True}}, SteppedWorld),
        ("Blackjack-v1", {}, SteppedWorld),
        ("MiniGrid-Empty-5x5-v0", {}, SteppedWorld),
    ],
)
def test_a_world_goes_as_its_environment_does(env_id: str, params: dict[str, Any], kind: type) -> None:
    if env_id.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    world, chance = open_world(make_env(env_id, params)), np.random.default_rng(3)
    assert isinstance(world, kind)
    env = make_env(env_id, params)
    numbers: dict[int, Any] = {}
    for seed in range(30):
        shown, state = env.reset(seed=seed)[0], world.begin(seed)
        for _ in range(60):
            assert np.array_equal(numbers.setdefault(state, shown), shown), "one number for each state"
            action = int(chance.integers(world.actions))
            shown, reward, terminated, truncated, _ = env.step(action)
            state, gained, over = world.step(state, action)
            assert (gained, over, world.truncated) == (reward, terminated, truncated and kind is SteppedWorld)
            if terminated or truncated:
                break
    env.close()


@pytest.mark.parametrize(
    ("env_id", "params", "said"),
    [
        ("CartPole-v1", {}, "states that can be counted"),
        ("Pendulum-v1", {}, "actions that can be counted"),
        ("FrozenLake-v2", {}, "FrozenLake"),
        ("FrozenLake-v1", {"map_name": "9x9"}, "^FrozenLake-v1 has no map '9x9': its maps are 4x4, 8x8$"),
        ("Taxi-v4", {"map_name": "8x8"}, "^Taxi-v4 has no setting 'map_name'; .*is_rainy"),
        ("FrozenLake-v1", {"env_kwargs": {"is_slipery": True}}, "has no setting 'is_slipery'; did you mean 'is_slip"),
        ("FrozenLake-v1", {"env_kwargs": {"desc": 3}}, "cannot be made"),
    ],
)
def test_what_no_table_fits_is_refused(env_id: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_env(env_id, params)


class Shifted(gym.Env[int, int]):
    """Four states in a row, from 10 on, and three actions from 5 on, of which the last leads on."""

    action_space: Any = gym.spaces.Discrete(3, start=5)
    observation_space: Any = gym.spaces.Discrete(4, start=10)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.place = render_mode, 10

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 10
        return self.place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.place += action == 7
        return self.place, float(self.place == 13), self.place == 13, False, {}


class Wide(Shifted):
    """Shows numbers that two bytes do not hold."""

    observation_space: Any = gym.spaces.MultiDiscrete([100_000, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array([1, 0]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([65_537, 0]), 0.0, False, False, {}


@pytest.fixture
def own_environments() -> Iterator[None]:
    for made in (Shifted, Wide):
        gym.register(f"{made.__name__}-v0", f"{__name__}:{made.__name__}", max_episode_steps=50)
    yield
    for made in (Shifted, Wide):
        del gym.registry[f"{made.__name__}-v0"]


@pytest.mark.usefixtures("own_environments")
def test_states_and_actions_are_counted_from_zero_wherever_they_begin(tmp_path: Path) -> None:
    with closing(StepRecorder(tmp_path)) as recorder:
        runtime = make_runtime("Shifted-v0", {}, lane=recorder.lane("learner", "agent"))
        for _ in range(40):
            runtime.run_episode("explore")
    assert runtime.world.states == 4 and runtime.greedy_policy()[:3] == [2, 2, 2]
    again, episode = make_env("Shifted-v0", {}), -1
    for step in steps_in(tmp_path):  # what was recorded can be played again
        if step.episode != episode:
            episode, shown = step.episode, again.reset(seed=0)[0]
        assert step.observation == shown and again.action_space.contains(int(step.action))
        shown = again.step(int(step.action))[0]


@pytest.mark.usefixtures("own_environments")
def test_states_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(UsageError, match="shows the numbers 0 to 65537"):
        make_runtime("Wide-v0", {}).run_episode("explore")


def test_states_that_were_seen_keep_their_numbers() -> None:
    world = open_world(make_env("Blackjack-v1", {}))
    assert isinstance(world, SteppedWorld)
    for seed in range(50):
        world.begin(seed)
    again = open_world(make_env("Blackjack-v1", {}))
    assert isinstance(again, SteppedWorld)
    again.seen = world.seen
    assert again.states == world.states
    assert [again.begin(seed) for seed in range(50)] == [world.begin(seed) for seed in range(50)]
