"""Games that are recorded in a good mood and replayed in another one, which an environment variable sets."""

from __future__ import annotations

import ctypes
import os
import random
import time
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_worker.tests.replay.counting_env import Counting

MOOD = "MOODY_GAME"
"""``raises``, ``hangs``, ``crashes`` or ``wanders`` from the fifth step on, ``cannot draw``."""
MOODY = f"{__name__}:Moody-v0"
STEPS = 30


class Moody(Counting):
    """Sees two numbers and counts its steps; draws its count."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012 - gymnasium's own form
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen = self.stepped()
        if self.steps == 5:
            match os.environ.get(MOOD, ""):
                case "raises":
                    raise ArithmeticError("it broke")
                case "hangs":
                    time.sleep(3600)
                case "crashes":
                    ctypes.string_at(0)
                case "wanders":
                    seen[1] += random.Random().random() + 1e-9
        return seen, float(action), self.steps >= STEPS, False, {}

    def render(self) -> Any:
        if os.environ.get(MOOD) == "cannot draw":
            raise RuntimeError("no paint")
        return np.full((20, 24, 3), self.steps, np.uint8)


gym.register("Moody-v0", f"{__name__}:Moody", max_episode_steps=10_000)
