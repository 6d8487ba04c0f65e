"""Observations that are several named rows of numbers, as those of dm_control are, come to networks as one row."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_worker.learning.environments import make_env
from mosaic_worker.training import dm_control_worlds, environments

SPACES = gym.spaces.Dict(
    {
        "height": gym.spaces.Box(-np.inf, np.inf, (), np.float64),
        "velocity": gym.spaces.Box(-np.inf, np.inf, (2,), np.float64),
    }
)


class Named(gym.Env[Any, Any]):
    """Three numbers under two names."""

    def __init__(self, picture: bool = False) -> None:
        self.observation_space: Any = SPACES
        if picture:
            self.observation_space = gym.spaces.Dict({**SPACES.spaces, "seen": gym.spaces.Box(0, 255, (8, 8, 3))})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return {"height": np.array(0.5), "velocity": np.array([1.0, 2.0])}, {}


@pytest.fixture
def registered() -> Iterator[None]:
    names: dict[str, dict[str, bool]] = {"dm_control/named-v0": {}, "NamedWithPicture-v0": {"picture": True}}
    for name, settings in names.items():
        gym.register(name, partial(Named, **settings))
    yield
    for name in names:
        del gym.registry[name]


@pytest.mark.usefixtures("registered")
def test_named_rows_of_numbers_come_as_one_row() -> None:
    env = make_env("dm_control/named-v0")
    seen, _ = env.reset()
    assert (env.observation_space.shape, seen.tolist()) == ((3,), [0.5, 1.0, 2.0])


@pytest.mark.usefixtures("registered")
def test_a_picture_among_them_is_left_to_the_refusal() -> None:
    assert isinstance(make_env("NamedWithPicture-v0").observation_space, gym.spaces.Dict)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("script", ["ppo_continuous_action", "sac_continuous_action", "td3_continuous_action"])
def test_the_continuous_scripts_train_and_act_on_them(script: str) -> None:
    module = importlib.import_module(f"cleanrl_worker.cleanrl.{script}")
    envs = module.make_envs(module.Args(env_id="dm_control/named-v0"))
    acting = module.make_evaluation_env(module.Args(env_id="dm_control/named-v0"))
    assert envs.single_observation_space.shape == acting.observation_space.shape == (3,)


def test_the_names_of_dm_control_are_registered_when_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(dm_control_worlds, "register", lambda: asked.append("registered"))
    environments.make_known("CartPole-v1")
    environments.make_known("dm_control/cheetah-run-v0")
    assert asked == ["registered"]


def test_fields_that_this_mujoco_has_not_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ModuleType("sizes")
    sizes.array_sizes = {"mjmodel": {"qpos0": 1, "flex_gone": 2}, "mjdata": {"qpos": 1}}  # type: ignore[attr-defined]
    fake = {
        "mujoco": SimpleNamespace(MjModel=SimpleNamespace(qpos0=0), MjData=SimpleNamespace(qpos=0)),
        "dm_control.mujoco.wrapper.mjbindings.sizes": sizes,
        "shimmy": ModuleType("shimmy"),
    }
    for name, module in fake.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in (
        "dm_control",
        "dm_control.mujoco",
        "dm_control.mujoco.wrapper",
        "dm_control.mujoco.wrapper.mjbindings",
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    dm_control_worlds.register()
    assert sizes.array_sizes == {"mjmodel": {"qpos0": 1}, "mjdata": {"qpos": 1}}
