"""The wrappers that CORL's scripts use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .core import Env, Wrapper

__all__ = ["TransformObservation", "TransformReward"]


class TransformObservation(Wrapper):
    """Every observation, changed by a function."""

    def __init__(self, env: Env, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def reset(self, **options: Any) -> Any:
        return self.f(self.env.reset(**options))

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        seen, reward, done, info = self.env.step(action)
        return self.f(seen), reward, done, info


class TransformReward(Wrapper):
    """Every reward, changed by a function."""

    def __init__(self, env: Env, f: Callable[[float], float]) -> None:
        super().__init__(env)
        self.f = f

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        seen, reward, done, info = self.env.step(action)
        return seen, self.f(reward), done, info
