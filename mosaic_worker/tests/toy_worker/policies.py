"""One layer that acts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from mosaic_worker.policies.policy import fill, flat_rows
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.training.environments import make_env


class OneLayer:
    def __init__(self, layer: torch.nn.Linear, *, discrete: bool) -> None:
        self._layer, self._discrete = layer, discrete

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        with torch.no_grad():
            values = self._layer(torch.from_numpy(flat_rows(observations))).numpy()
        if not deterministic:
            values = values + random.gumbel(size=values.shape).astype(np.float32)
        return values.argmax(axis=1) if self._discrete else np.clip(values, -2, 2)

    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
        with torch.no_grad():
            values = self._layer(torch.from_numpy(flat_rows(observations))).numpy()
        return {"value": values.max(axis=1), **({"action_values": values} if self._discrete else {})}


def load_policy(checkpoint: Checkpoint, args: Any) -> OneLayer:
    outputs, size = checkpoint.tensors["layer.weight"].shape
    layer = torch.nn.Linear(size, outputs)
    fill(layer, "layer", checkpoint)
    return OneLayer(layer, discrete=checkpoint.manifest.algo == "toy_discrete")


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    return make_env(args.env_id, render_mode=render_mode)
