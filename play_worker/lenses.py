"""How a policy sees a game that it was trained on behind wrappers, while the person sees the game itself.

Atari policies are trained on 84x84 grey pictures in stacks of 4, each the brighter of the last two frames, and their
actions are held for 4 frames. The pictures are made here, out of what the game shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

_STACK, _SIDE = 4, 84
_FRAMES_AN_ACTION = 4
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


class AtariLens:
    """Belongs to the session's thread."""

    def __init__(self, frame_skip: int) -> None:
        self._hold = max(1, _FRAMES_AN_ACTION // frame_skip)
        """Steps of the game that an action is held for."""
        self.begin()

    def begin(self) -> None:
        """What comes next follows nothing that was seen."""
        self._seen = 0
        self._before: NDArray[np.uint8] | None = None
        self._stack: NDArray[np.uint8] | None = None

    def look(self, observation: Any) -> NDArray[np.uint8] | None:
        """What the policy sees; None while its last action is held."""
        import cv2

        grey = (np.asarray(observation) @ _LUMINANCE).round().astype(np.uint8)
        # A game that skips frames by itself shows no frame between: the last one has to do.
        brighter = grey if self._before is None or self._hold == 1 else np.maximum(grey, self._before)
        self._before, self._seen = grey, self._seen + 1
        if (self._seen - 1) % self._hold:
            return None
        picture = np.asarray(cv2.resize(brighter, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.uint8)
        if self._stack is None:
            self._stack = np.repeat(picture[None], _STACK, axis=0)
        else:
            self._stack = np.concatenate([self._stack[1:], picture[None]])
        return self._stack


def lens_for(needed: Mapping[str, Any], env: gym.Env[Any, Any]) -> AtariLens | None:
    """For a policy that needs such observations and a game that has others; None where none fits."""
    space = env.observation_space
    is_screen = isinstance(space, gym.spaces.Box) and len(space.shape) == 3 and space.shape[2] == 3
    wants_stack = needed.get("shape") == [_STACK, _SIDE, _SIDE] and needed.get("dtype", "uint8") == "uint8"
    if not (is_screen and wants_stack and type(env.unwrapped).__module__.startswith("ale_py")):
        return None
    skip = getattr(env.unwrapped, "_frameskip", 1)
    return AtariLens(skip if isinstance(skip, int) else _FRAMES_AN_ACTION)
