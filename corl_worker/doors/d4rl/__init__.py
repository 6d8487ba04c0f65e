"""A door: the functions of d4rl that CORL's scripts call, over MOSAIC's datasets and without mujoco_py.

Arrays are those that d4rl itself makes of the same steps, computed at once instead of row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["qlearning_dataset", "sequence_dataset"]


def qlearning_dataset(
    env: Any, dataset: dict[str, Any] | None = None, terminate_on_end: bool = False, **options: Any
) -> dict[str, Any]:
    """Transitions: each step with the observation after it. As in d4rl the last step of all is left out, and so is one
    that a time limit ended, because the next row is the first of another episode."""
    found = env.get_dataset(**options) if dataset is None else dataset
    rewards = np.asarray(found["rewards"], np.float32).reshape(-1)
    last = len(rewards) - 1
    timeouts = _timeouts(env, found, last)
    keep = slice(0, last) if terminate_on_end else np.flatnonzero(~timeouts[:last])
    done = np.asarray(found["terminals"]).reshape(-1)[:last].astype(np.bool_)
    observations = np.asarray(found["observations"], np.float32)
    return {
        "observations": observations[:last][keep].copy(),
        "actions": np.asarray(found["actions"], np.float32)[:last][keep].copy(),
        "next_observations": observations[1 : last + 1][keep].copy(),
        "rewards": rewards[:last][keep].copy(),
        "terminals": done[keep].copy(),
    }


def sequence_dataset(env: Any, dataset: dict[str, Any] | None = None, **options: Any) -> Iterator[dict[str, Any]]:
    """The columns of one episode after another; steps after the last end are left out, as in d4rl."""
    found = env.get_dataset(**options) if dataset is None else dataset
    ends = np.asarray(found["terminals"]).reshape(-1).astype(np.bool_) | _timeouts(env, found, len(found["rewards"]))
    first = 0
    for end in np.flatnonzero(ends):
        yield {name: values[first : end + 1] for name, values in found.items()}
        first = int(end) + 1


def _timeouts(env: Any, found: dict[str, Any], rows: int) -> Any:
    if "timeouts" in found:
        return np.asarray(found["timeouts"]).reshape(-1).astype(np.bool_)
    return _by_length(np.asarray(found["terminals"]).reshape(-1).astype(np.bool_), env._max_episode_steps, rows)


def _by_length(terminals: Any, longest: int, rows: int) -> Any:
    """Old files say of no step that a time limit ended it: then the length of the episode does."""
    timeouts = np.zeros(len(terminals), np.bool_)
    begin = 0
    for end in [*np.flatnonzero(terminals).tolist(), rows]:
        timeouts[begin + longest - 1 : end + 1 : longest] = True
        begin = end + 1
    return timeouts
