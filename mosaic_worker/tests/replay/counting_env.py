"""What the games of these tests have in common: two numbers that the seed decides, and a count of steps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class Counting(gym.Env[Any, Any]):
    """A subclass says what a step does."""

    steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(2), {}

    def stepped(self) -> Any:
        """Count a step; what is seen after it."""
        self.steps += 1
        return self.np_random.random(2)
