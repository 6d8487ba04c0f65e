"""Atari games for scripts that were written for gym 0.23: today's ``ale_py`` knows gymnasium only.

Imported only where both libraries are.
"""

from __future__ import annotations

import importlib
from typing import Any

gym: Any = importlib.import_module("gym")
gymnasium: Any = importlib.import_module("gymnasium")


class OldGymAtari(gym.Env):
    """One game with gym's interface of that time: four values from a step, one from a reset."""

    def __init__(self, game: str, **options: Any) -> None:
        self._game = gymnasium.make(game, **options).unwrapped
        seen, chosen = self._game.observation_space, self._game.action_space
        self.metadata = {**self._game.metadata, "render.modes": self._game.metadata.get("render_modes", [])}
        self.observation_space = gym.spaces.Box(seen.low, seen.high, seen.shape, seen.dtype)
        self.action_space = gym.spaces.Discrete(int(chosen.n))
        self.render_mode = self._game.render_mode
        self._next_seed: int | None = None

    @property
    def ale(self) -> Any:
        return self._game.ale

    def get_action_meanings(self) -> list[str]:
        return list(self._game.get_action_meanings())

    def seed(self, seed: int | None = None) -> list[int | None]:
        self._next_seed = seed
        super().reset(seed=seed)
        return [seed]

    def reset(self, *, seed: int | None = None, return_info: bool = False, options: Any = None) -> Any:
        super().reset(seed=seed)
        chosen, self._next_seed = seed if seed is not None else self._next_seed, None
        observation, info = self._game.reset(seed=chosen, options=options)
        return (observation, info) if return_info else observation

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._game.step(action)
        return observation, float(reward), bool(terminated or truncated), info

    def render(self, mode: str = "rgb_array") -> Any:
        return self._game.ale.getScreenRGB()

    def close(self) -> None:
        self._game.close()


def register() -> None:
    """Make every game of ``ale_py`` known to gym under the name that gymnasium has for it."""
    known = gym.envs.registry.env_specs if hasattr(gym.envs.registry, "env_specs") else gym.envs.registry
    for name, spec in gymnasium.envs.registry.items():
        if str(spec.entry_point).startswith("ale_py") and name not in known:
            steps = spec.max_episode_steps
            gym.register(id=name, entry_point=OldGymAtari, max_episode_steps=steps, kwargs={"game": name})
