"""An environment that counts its steps, and breaks where it is asked to."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np


class FaultyGame(gym.Env[Any, Any]):
    """``fault`` is raise, hang, exit, segfault or fork (a child that leaves in good order), ``place`` the method,
    ``at`` the step at which it happens. How many steps were finished stands in the file ``counter``."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(
        self,
        render_mode: str | None = None,
        fault: str = "",
        place: str = "step",
        at: int = 5,
        length: int = 10,
        counter: str = "",
        step_seconds: float = 0.0,
    ) -> None:
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(0, np.inf, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)
        self._fault, self._place, self._at, self._length, self._seconds = fault, place, at, length, step_seconds
        self._count = self._in_episode = 0
        self._finished: memoryview | None = None
        if counter:
            Path(counter).write_bytes(bytes(8))
            with Path(counter).open("r+b") as file:
                self._finished = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._in_episode = 0
        return self._observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._break("step")
        if self._seconds:
            time.sleep(self._seconds)
        self._count += 1
        self._in_episode += 1
        if self._finished is not None:
            self._finished[0] = self._count
        return self._observed(), 1.0, self._in_episode >= self._length, False, {}

    def render(self) -> Any:
        self._break("render")
        return np.full((20, 30, 3), self._count % 256, np.uint8)

    def _observed(self) -> Any:
        return np.array([self._count, self._in_episode], np.float64)

    def _break(self, place: str) -> None:
        if place != self._place or self._count != self._at:
            return
        if self._fault == "raise":
            raise RuntimeError("the game broke\nin two lines")
        if self._fault == "hang":
            while True:
                time.sleep(0.1)
        if self._fault == "exit":
            os._exit(3)
        if self._fault == "fork":
            if not (child := os.fork()):
                sys.exit(0)
            os.waitpid(child, 0)
        if self._fault == "segfault":
            signal.raise_signal(signal.SIGSEGV)


if "Faulty-v0" not in gym.registry:
    gym.register("Faulty-v0", f"{__name__}:FaultyGame")
