"""Actions as an environment takes them, out of what actors give; and observations that stay as they were."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class BadActionError(ValueError):
    """An action that the environment does not take; the text is one sentence."""


def fitted(space: gym.Space[Any], raw: Any) -> Any:
    """The action, as plain and as exact as the space has it. A number outside the bounds of a Box is moved inside, as
    training does; anything else that does not fit raises :class:`BadActionError`."""
    try:
        return _fitted(space, raw)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, BadActionError):
            raise
        raise BadActionError(f"{_shown(raw)} is no action of {space}") from None


def _fitted(space: gym.Space[Any], raw: Any) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        array = np.asarray(raw)
        if array.size != 1 or array.dtype.kind not in "iu" or not space.contains(int(array.reshape(()))):
            raise BadActionError(f"{_shown(raw)} is no action of {space}")
        return int(array.reshape(()))
    if isinstance(space, gym.spaces.Box):
        array = np.asarray(raw, dtype=np.float64)
        if array.shape != space.shape:
            raise BadActionError(f"an action has the shape {space.shape}, this one has {array.shape}")
        if not np.isfinite(array).all():
            raise BadActionError(f"{_shown(raw)} holds what is no finite number")
        return np.clip(array, space.low, space.high).astype(space.dtype)
    if isinstance(space, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        array = np.asarray(raw)
        if array.dtype.kind not in "biu" and not np.array_equal(array, np.round(array)):
            raise BadActionError(f"{_shown(raw)} is no action of {space}")
        array = array.astype(space.dtype)
        if not space.contains(array):
            raise BadActionError(f"{_shown(raw)} is no action of {space}")
        return array
    if not space.contains(raw):
        raise BadActionError(f"{_shown(raw)} is no action of {space}")
    return raw


def kept(observation: Any) -> Any:
    """A copy: an environment may write the next observation into the same array."""
    if isinstance(observation, np.ndarray):
        return observation.copy()
    if isinstance(observation, dict):
        return {name: kept(value) for name, value in observation.items()}
    if isinstance(observation, tuple | list):
        return type(observation)(map(kept, observation)) if not hasattr(observation, "_fields") else observation
    return observation


def _shown(raw: Any) -> str:
    text = " ".join(repr(raw).split())
    return text if len(text) <= 80 else f"{text[:77]}…"
