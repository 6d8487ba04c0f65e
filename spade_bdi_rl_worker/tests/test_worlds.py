"""Worlds go exactly as their environments do, whichever way they are had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.learning.environments import make_env
from spade_bdi_rl_worker.learning.worlds import SteppedWorld, TableWorld, open_world


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
