"""Environments with the old interface: ``seed``, a ``reset`` that returns the observation alone, a step of four."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mosaic_worker.harness import row_tap

TRUNCATED = "TimeLimit.truncated"


class Env:
    """One of gymnasium's environments. Its actions lie between -1 and 1, whatever the bounds inside: scripts clip
    theirs there, and so are those of the dataset."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = _between_ones(env.action_space)
        self._seed: int | None = None
        self._return, self._length = 0.0, 0

    @property
    def _max_episode_steps(self) -> int | None:
        return getattr(self.env.spec, "max_episode_steps", None)

    @property
    def unwrapped(self) -> Env:
        return self

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Takes effect with the next reset, as gymnasium has it."""
        self._seed = seed
        return [seed]

    def reset(self, **options: Any) -> Any:
        if self._seed is not None:
            options.setdefault("seed", self._seed)
            self._seed = None
        self._return, self._length = 0.0, 0
        return self.env.reset(**options)[0]

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(inside(self.env.action_space, action))
        reward = float(reward)
        self._return += reward
        self._length += 1
        if truncated and not terminated:
            info = {**info, TRUNCATED: True}
        if terminated or truncated:
            row_tap.listener.episode(self._return, self._length)
        return seen, reward, bool(terminated or truncated), info

    def render(self, *_: Any, **__: Any) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env.unwrapped, name)


class Wrapper(Env):
    """Around another one of these."""

    def __init__(self, env: Env) -> None:
        self.env = env

    @property
    def unwrapped(self) -> Env:
        return self.env.unwrapped

    def seed(self, seed: int | None = None) -> list[int | None]:
        return self.env.seed(seed)

    def reset(self, **options: Any) -> Any:
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        return self.env.step(action)

    def render(self, *_: Any, **__: Any) -> Any:
        return self.env.render()

    # Not __getattr__ alone: what Env defines as a property would hide the inner one's.
    @property
    def _max_episode_steps(self) -> int | None:
        return self.env._max_episode_steps

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def _between_ones(space: Any) -> Any:
    if not _is_scaled(space):
        return space
    return spaces.Box(-1.0, 1.0, space.shape, np.float32)


def _is_scaled(space: Any) -> bool:
    return isinstance(space, gymnasium.spaces.Box) and space.is_bounded()


def inside(space: Any, action: Any) -> Any:
    """An action between -1 and 1 as the environment's own space has it. An array of one more dimension than the space
    has, as old environments took it, is the action in it."""
    if not _is_scaled(space):
        return action
    values = np.asarray(action, np.float32).reshape(space.shape)
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return np.clip(low + (values + 1.0) * 0.5 * (high - low), low, high).astype(space.dtype)


def outside(space: Any, actions: Any) -> Any:
    """Actions of a dataset, between -1 and 1; see :func:`inside`."""
    if not _is_scaled(space):
        return actions
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return (2.0 * (actions - low) / (high - low) - 1.0).astype(np.float32)
