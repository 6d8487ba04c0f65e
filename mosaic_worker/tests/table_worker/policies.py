"""The table that acts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_worker.state.checkpoints import Checkpoint


class TablePolicy:
    def __init__(self, table: NDArray[np.float64]) -> None:
        self._table = table

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        values = self._table[observations]
        if not deterministic:
            values = values + random.gumbel(size=values.shape)
        return values.argmax(axis=1)

    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
        values = self._table[observations]
        return {"value": values.max(axis=1), "action_values": values}


def load_policy(checkpoint: Checkpoint, args: Any) -> TablePolicy:
    return TablePolicy(checkpoint.array("q"))


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    return gym.make(args.env_id, map_name=args.map_name, render_mode=render_mode)
