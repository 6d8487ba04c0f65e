"""A resumed run goes on in the very episode where it can, and begins a new one honestly where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import pytest
import torch

from cleanrl_worker.cleanrl import (
    c51,
    dqn,
    ppo,
    ppo_continuous_action,
    sac_continuous_action,
    td3_continuous_action,
)
from mosaic_worker.state import checkpoints, env_state
from mosaic_worker.state.plain_state import decode
from mosaic_worker.tests.script_tools import checkpoints_of, differing, newest_tensors, run_main, run_until

gym.register_envs(ale_py)

ON_POLICY = ["--num-envs", "2", "--num-steps", "16", "--num-minibatches", "2"]
OFF_POLICY = ["--learning-starts", "40", "--buffer-size", "200", "--batch-size", "8"]


class Opaque(gym.Env[Any, Any]):
    """Keeps its state where nobody looks. Observes the number of steps since the reset."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.world = iter(range(1, 10**9))
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.full(1, next(self.world), dtype=np.float32), 1.0, False, False, {}


@pytest.fixture(autouse=True)
def opaque_worlds() -> Iterator[None]:
    spaces = {"OpaqueDiscrete-v0": gym.spaces.Discrete(2), "OpaqueBox-v0": gym.spaces.Box(-1.0, 1.0, (1,), np.float32)}
    for name, space in spaces.items():
        gym.register(name, partial(Opaque, space))
    yield
    for name in spaces:
        del gym.registry[name]


@pytest.mark.parametrize("env_id", ["InvertedPendulum-v5", "HalfCheetah-v5", "ALE/Pong-v5", "Pendulum-v1"])
def test_an_episode_goes_on_to_the_bit(env_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log where it is

    def play(envs: Any, actions: list[Any]) -> list[tuple[bytes, float]]:
        results = [envs.envs[0].step(action) for action in actions]
        return [(np.asarray(result[0]).tobytes(), float(result[1])) for result in results]

    def made(seed: int) -> Any:
        env = gym.make(env_id)
        env.reset(seed=seed)
        return SimpleNamespace(envs=[env])

    one, other = made(1), made(2)
    one.envs[0].action_space.seed(3)
    actions = [one.envs[0].action_space.sample() for _ in range(30)]
    play(one, actions[:5])
    tensors: dict[str, torch.Tensor] = {}
    kept = env_state.capture(one, tensors)
    assert kept["complete"], kept["missing"]
    env_state.restore(other, kept, tensors)
    assert play(one, actions[5:]) == play(other, actions[5:])
    one.envs[0].close()
    other.envs[0].close()


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        (ppo_continuous_action, [*ON_POLICY, "--total-timesteps", "200"]),
        (sac_continuous_action, [*OFF_POLICY, "--total-timesteps", "120"]),
    ],
)
def test_a_resumed_run_on_mujoco_is_the_same_to_the_bit(
    script: ModuleType, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--env-id", "InvertedPendulum-v5", *flags]
    assert run_main(script, monkeypatch, tmp_path / "whole", *flags) == 0
    half = run_until(70, script, monkeypatch, tmp_path / "half", *flags)
    assert run_main(script, monkeypatch, tmp_path / "rest", "--resume", str(half)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        (ppo, ["--env-id", "OpaqueDiscrete-v0", *ON_POLICY]),
        (ppo_continuous_action, ["--env-id", "OpaqueBox-v0", *ON_POLICY]),
        (dqn, ["--env-id", "OpaqueDiscrete-v0", *OFF_POLICY]),
        (c51, ["--env-id", "OpaqueDiscrete-v0", *OFF_POLICY]),
        (sac_continuous_action, ["--env-id", "OpaqueBox-v0", *OFF_POLICY]),
        (td3_continuous_action, ["--env-id", "OpaqueBox-v0", *OFF_POLICY]),
    ],
)
@pytest.mark.parametrize("stop_at", [64, 70])  # at the end of a rollout, and in the middle of one
def test_an_episode_that_cannot_be_kept_starts_from_the_beginning(
    script: ModuleType,
    flags: list[str],
    stop_at: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped = run_until(stop_at, script, monkeypatch, tmp_path / "half", *flags, "--total-timesteps", "300")
    capsys.readouterr()
    envs = 2 if "--num-envs" in flags else 1
    run_until(stop_at + envs, script, monkeypatch, tmp_path / "rest", "--resume", str(stopped))
    assert "Episodes start from the beginning: a checkpoint cannot hold Opaque.world." in capsys.readouterr().out
    found = checkpoints.load(checkpoints_of(tmp_path / "rest")[-1])
    played = found.manifest.state.get("collector") or found.manifest.state["player"]
    assert list(decode(played["lengths"], found.tensors)) == [1] * envs
    if "rollout" in found.manifest.state and stop_at == 70:
        rows = decode(found.manifest.state["rollout"]["filled"], found.tensors)
        assert found.tensors["rollout.truncated"][rows - 2].all(), "the episodes that were left behind are cut off"
    if script in (dqn, c51, sac_continuous_action, td3_continuous_action):
        assert decode(played["observation"], found.tensors).tolist() == [[1.0]], "the agent sees the new episode"
