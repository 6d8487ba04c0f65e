"""Environments whose every step can be foreseen, and a session that keeps what is reported to it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Metronome(gym.Env[Any, Any]):
    """Observes [number of the episode, steps in it]; ends at `end_at` for good, is cut off after `cut_at`.

    Its two actions are 5 and 6, the reward of each is the action's place: 0 or 1. A subclass has others by its own
    `action_space` and `reward_of`.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2, start=5)

    def __init__(self, end_at: int = 10**9, cut_at: int = 10**9) -> None:
        self.end_at, self.cut_at = end_at, cut_at
        self.episode, self.steps = -1, 0

    def reward_of(self, action: Any) -> float:
        return float(action - 5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        self.steps += 1
        return self._observe(), self.reward_of(action), self.steps == self.end_at, self.steps == self.cut_at, {}

    def _observe(self) -> Any:
        return np.array([self.episode, self.steps], dtype=np.float32)


class Echo(gym.Env[Any, Any]):
    """Wants the number it shows to be played back: an untrained policy loses more than one a step, a random player 33
    in twenty steps, a perfect one nothing."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = -float(((action - self.shown) ** 2).sum())
        return self._show(), reward, False, False, {}

    def _show(self) -> Any:
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.shown


class RecordingSession:
    """Stands for a session that nobody asks for anything."""

    stop_requested = False

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def safe_point(self, step: int) -> None:
        """Nobody asks for anything."""

    def scalars(self, step: int, values: dict[str, float]) -> None:
        self.rows.append((step, dict(values)))
