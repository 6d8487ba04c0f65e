"""The table, the environment it is learned in, and what of both a checkpoint holds."""

from __future__ import annotations

import random
from types import SimpleNamespace

import gymnasium as gym
import numpy as np

from mosaic_worker.settings import Settings
from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.training_state import TrainingState

DISCOUNT = 0.95


class Learning:
    """One run: :meth:`turn` makes one step and learns from it."""

    def __init__(self, settings: Settings) -> None:
        self._rate, self._epsilon = float(settings.params["learning_rate"]), float(settings.params["epsilon"])
        self._env = gym.make(settings.env_id, map_name=settings.params["map_name"])
        states, actions = self._env.observation_space, self._env.action_space
        assert isinstance(states, gym.spaces.Discrete) and isinstance(actions, gym.spaces.Discrete)
        random.seed(settings.seed)
        np.random.seed(settings.seed)
        self.q = np.ones((int(states.n), int(actions.n)))  # hopeful: what turns out worse is learned at once
        self.visits = np.zeros(int(states.n), dtype=np.int64)
        self.step = 0
        self._return, self._random = 0.0, np.random.default_rng(settings.seed)
        self._observation = int(self._env.reset(seed=settings.seed)[0])
        self.spaces = {"observation": describe_space(states), "action": describe_space(actions)}
        self.state = TrainingState()
        self.state.table("q", self, "q")
        self.state.attributes("learning", self, "step", "visits", "_return", "_random", "_observation")
        self.state.envs("envs", SimpleNamespace(envs=[self._env]))

    def turn(self) -> dict[str, float]:
        """One step; the scalars of an episode that ended with it."""
        before = self._observation
        explores = self._random.random() < self._epsilon
        action = int(self._random.integers(self.q.shape[1]) if explores else self.q[before].argmax())
        observation, reward, terminated, truncated, _ = self._env.step(action)
        target = float(reward) + (0.0 if terminated else DISCOUNT * self.q[observation].max())
        self.q[before, action] += self._rate * (target - self.q[before, action])
        self.visits[before] += 1
        self.step, self._return, self._observation = self.step + 1, self._return + float(reward), int(observation)
        if not (terminated or truncated):
            return {}
        row = {"charts/episodic_return": self._return}
        self._return, self._observation = 0.0, int(self._env.reset()[0])
        return row
