"""Datasets that tests learn from, played by small hands, and runs of scripts on them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_protocol.datasets import References
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.tests.offline.made_sets import flat_set

SHORT = ("--hidden-dim", "16", "--batch-size", "16", "--eval-freq", "20", "--n-episodes", "1")
"""What makes a run of some dozen updates quick."""


def told(space: Any) -> str:
    """A space as manifests write it."""
    if isinstance(space, gym.spaces.Discrete):
        return json.dumps({"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)})
    ends = {"low": space.low.tolist(), "high": space.high.tolist()}
    return json.dumps({"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **ends})


def hand(env_id: str, observation: Any, draw: np.random.Generator) -> Any:
    """How the demonstrator acts: CartPole is balanced, Pendulum is pushed about."""
    if env_id == "CartPole-v1":
        position, speed, angle, turning = observation
        return int(0.02 * position + 0.1 * speed + angle + turning > 0)
    push = np.clip(2 * np.sign(observation[2]) * (1 - observation[0]) + draw.normal(), -2, 2)
    return np.array([push], np.float32)


def play_set(paths: MosaicPaths, name: str, played: str, episodes: int = 3, longest: int = 60, **more: Any) -> Path:
    """A dataset of an environment, the same for the same arguments."""
    env, draw = gym.make(played, max_episode_steps=longest), np.random.default_rng(0)
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    found: dict[str, list[Any]] = {one: [] for one in names}
    for number in range(episodes):
        observation, _ = env.reset(seed=number)
        over = False
        while not over:
            action = hand(played, observation, draw)
            following, reward, terminated, truncated, _ = env.step(action)
            row = (observation, action, reward, following, terminated, truncated and not terminated)
            for one, value in zip(names, row, strict=True):
                found[one].append(value)
            observation, over = following, terminated or truncated
    columns = {one: np.array(values, bool if one in names[4:] else None) for one, values in found.items()}
    about = {"env_id": played, "references": References(random=-1200.0, expert=-150.0, whose="mosaic")}
    spaces = {"observation_space": told(env.observation_space), "action_space": told(env.action_space)}
    env.close()
    return flat_set(paths, name, columns, **about | spaces | more)


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, *flags: str) -> int:
    """A script's main in a folder, made if it is missing."""
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", [f"{script.__name__}.py", *flags])
    found: int = script.main()
    return found
