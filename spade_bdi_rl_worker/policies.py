"""What was learned, put to use again: ``mosaic eval``, ``mosaic watch`` and ``mosaic policy`` find these here.

Where a run had several agents the first one acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_worker.state.checkpoints import Checkpoint, CheckpointError
from spade_bdi_rl_worker.learning.environments import make_env

_TABLE = ".q"


class TablePolicy:
    """Takes the action of highest value. States that it never saw have no values: there each action is as good."""

    def __init__(self, table: NDArray[Any], seen: NDArray[Any], epsilon: float) -> None:
        self._table, self._epsilon = table, epsilon
        self._number_of = {observation.tobytes(): number for number, observation in enumerate(seen.astype(np.int16))}

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        best = self._rows(observations).argmax(axis=1)
        if deterministic:
            return best
        drawn = random.integers(self._table.shape[1], size=len(best))
        return np.where(random.random(len(best)) < self._epsilon, drawn, best)

    def appraise(self, observations: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        rows = self._rows(observations)
        return {"value": rows.max(axis=1), "action_values": rows}

    def _rows(self, observations: NDArray[Any]) -> NDArray[Any]:
        if not self._number_of:
            return self._table[np.asarray(observations, np.int64).reshape(-1)]
        unknown = np.zeros(self._table.shape[1])
        numbers = [self._number_of.get(np.asarray(one, np.int16).tobytes(), -1) for one in observations]
        return np.stack([unknown if number < 0 else self._table[number] for number in numbers])


def load_policy(checkpoint: Checkpoint, args: Any) -> TablePolicy:
    """`args`: what the run was started with, by name."""
    first = str(getattr(args, "agents", "learner")).split(",")[0].partition("=")[0].strip()
    table = checkpoint.tensors.get(first + _TABLE)
    if table is None:
        raise CheckpointError(f"{checkpoint.path} has no table of the agent {first}.")
    seen = checkpoint.tensors.get(f"{first}.runtime.seen", np.zeros((0, 0)))
    return TablePolicy(np.asarray(table), np.asarray(seen), float(getattr(args, "epsilon_end", 0.05)))


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    return make_env(args.env_id, vars(args), render_mode)
