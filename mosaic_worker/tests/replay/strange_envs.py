"""Environments that nobody would write on purpose."""

from __future__ import annotations

import random
import threading
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_worker.tests.replay.counting_env import Counting

_CHANCE = random.Random()


class Shaky(Counting):
    """Asks chance at its seventh step, whatever the seed."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen = self.stepped()
        if self.steps == 7:
            seen[1] += _CHANCE.random() + 1e-9
        return seen, 1.0, self.steps >= 12, False, {}


class Sealed(Shaky):
    """Deterministic, and its state cannot be kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.np_random.random(2), float(action), self.steps >= 40, False, {}


class Broken(Sealed):
    """Begins as that one does."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.steps == 2:
            raise ArithmeticError("it broke")
        return super().step(action)


_counts: dict[int, int] = {}


class Forgetful(Shaky):
    """Keeps half of its state where nobody finds it, so that a kept state is not the whole one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        found = super().reset(seed=seed)
        _counts[id(self)] = 0
        return found

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _counts[id(self)] += 1
        count = _counts[id(self)]
        return np.full(2, count / 100), 1.0, count >= 40, False, {}


class Vast(gym.Env[Any, Any]):
    """Gives two rewards at once; from its first step on it sees more than is recorded."""

    observation_space = gym.spaces.Box(0, 255, (2,), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, reward: float = 1.0) -> None:
        self.reward = reward

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.full(2_000_000, self.steps, np.uint8), (self.reward, 2.0), self.steps >= 4, False, {}


class Nested(gym.Env[Any, Any]):
    """Sees a dictionary of everything, NaN included."""

    observation_space = gym.spaces.Dict(
        {
            "where": gym.spaces.Tuple((gym.spaces.Discrete(9), gym.spaces.Box(-np.inf, np.inf, (2,), np.float32))),
            "said": gym.spaces.Text(20),
        }
    )
    action_space = gym.spaces.Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._seen(), float(action), False, self.steps >= 8, {}

    def _seen(self) -> dict[str, Any]:
        place = np.array([np.nan, self.np_random.normal()], np.float32)
        return {"where": (self.steps, place), "said": f"step {self.steps}"}


gym.register("Shaky-v0", f"{__name__}:Shaky")
gym.register("Nested-v0", f"{__name__}:Nested", disable_env_checker=True)
