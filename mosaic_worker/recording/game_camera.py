"""Clips of one of several games that are played together and have no environment each to be rendered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]


class Screen(gym.Env[Any, Any]):
    """What the first of several games shows, as an environment that only clips are made of."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - gymnasium's own form
    render_mode = "rgb_array"

    def __init__(self, picture: Callable[[], Frame]) -> None:
        self._picture = picture

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return None, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return None, 0.0, False, False, {}

    def render(self) -> Any:
        return self._picture()


class Camera:
    """Follows the first of several games for `TrainingSession.record`, which looks for `envs`."""

    def __init__(self, picture: Callable[[], Frame]) -> None:
        from mosaic_worker.recording.video import clips

        self.envs = [clips(Screen(picture))]
        self.envs[0].reset()

    def follow(self, *, game_over: bool) -> None:
        """Call after each step of the game."""
        (screen,) = self.envs
        screen.reset() if game_over else screen.step(None)

    def close(self) -> None:
        self.envs[0].close()
