"""What was learned, put to use again: ``mosaic eval`` and ``mosaic policy`` find these two functions here."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from mosaic_worker.policies.policy import fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.training.environments import make_env
from sb3_worker.agents import make_model


class ModelPolicy:
    def __init__(self, model: BaseAlgorithm) -> None:
        self._model = model

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        if not deterministic:
            torch.manual_seed(int(random.integers(2**31)))  # the model draws from torch's generator
        actions, _ = self._model.policy.predict(observations, deterministic=deterministic)
        return np.asarray(actions)


def load_policy(checkpoint: Checkpoint, args: Any) -> ModelPolicy:
    """`args`: what the run was started with, by name."""
    small = {"buffer_size": 1} if "replay" in checkpoint.manifest.state else {}  # it replays nothing any more
    model = make_model(checkpoint.manifest.algo, args.env_id, args.seed, small)
    fill(model.policy, "policy", checkpoint)
    return ModelPolicy(model)


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    return make_env(args.env_id, render_mode=render_mode)
