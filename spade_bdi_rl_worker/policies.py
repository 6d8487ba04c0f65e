"""What was learned, put to use again: ``mosaic eval``, ``mosaic watch`` and ``mosaic policy`` find these here.

Where a run had several agents the first one acts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_worker.state.checkpoints import Checkpoint, CheckpointError
from spade_bdi_rl_worker.learning.environments import make_env

_TABLE = ".q"


class TablePolicy:
    """Acts as the agent would have: by the policy that it had cached, else by the action of highest value.

    The two differ: while an agent relies on a cached policy it learns of its actions alone, and an action that
    it no longer takes may keep a value from its first luck. In states that the agent never saw each action is as good.
    """

    def __init__(self, table: NDArray[Any], seen: NDArray[Any], epsilon: float, cached: Sequence[int] = ()) -> None:
        unknown = np.zeros((1, table.shape[1]), table.dtype)  # the last row, which -1 finds
        self._table, self._epsilon = np.concatenate([table, unknown]), epsilon
        self._chosen = self._table.argmax(axis=1)
        self._chosen[: len(cached)] = cached
        self._number_of = {observation.tobytes(): number for number, observation in enumerate(seen.astype(np.int16))}

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        chosen = self._chosen[self._numbers(observations)]
        if deterministic:
            return chosen
        drawn = random.integers(self._table.shape[1], size=len(chosen))
        return np.where(random.random(len(chosen)) < self._epsilon, drawn, chosen)

    def appraise(self, observations: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        rows = self._table[self._numbers(observations)]
        return {"value": rows.max(axis=1), "action_values": rows}

    def _numbers(self, observations: NDArray[Any]) -> NDArray[Any]:
        if not self._number_of:
            return np.asarray(observations, np.int64).reshape(-1)
        return np.array(
            [self._number_of.get(np.asarray(one, np.int16).tobytes(), -1) for one in observations], np.int64
        )


def load_policy(checkpoint: Checkpoint, args: Any) -> TablePolicy:
    """`args`: what the run was started with, by name."""
    first = str(getattr(args, "agents", "learner")).split(",")[0].partition("=")[0].strip()
    table = checkpoint.tensors.get(first + _TABLE)
    if table is None:
        raise CheckpointError(f"{checkpoint.path} has no table of the agent {first}.")
    seen = checkpoint.tensors.get(f"{first}.runtime.seen", np.zeros((0, 0)))
    epsilon = float(getattr(args, "epsilon_end", 0.05))
    return TablePolicy(np.asarray(table), np.asarray(seen), epsilon, _cached(checkpoint, first, np.shape(table)))


def _cached(checkpoint: Checkpoint, name: str, shape: tuple[int, ...]) -> Sequence[int]:
    """The action for each state that the agent had cached; empty where it relied on none. A file may say anything."""
    runtime = checkpoint.manifest.state.get(f"{name}.runtime")
    counted = runtime.get("counted") if isinstance(runtime, dict) else None
    policy = counted.get("policy") if isinstance(counted, dict) else None
    if policy is None:
        return ()
    states, actions = shape
    if (
        not isinstance(policy, list)
        or len(policy) > states
        or not all(type(action) is int and 0 <= action < actions for action in policy)
    ):
        raise CheckpointError(f"{checkpoint.path} has a cached policy of {name} that does not fit its table.")
    return policy


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    return make_env(args.env_id, vars(args), render_mode)
