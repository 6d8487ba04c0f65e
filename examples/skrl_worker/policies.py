"""What was learned, put to use again: ``mosaic eval`` and ``mosaic policy`` find these two functions here."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from mosaic_worker.policies.policy import fill, flat_rows
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.training.environments import make_env
from skrl_worker.agents import Policy


class NetworkPolicy:
    def __init__(self, network: Policy) -> None:
        self._network = network

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        with torch.no_grad():
            logits = self._network.compute({"observations": torch.from_numpy(flat_rows(observations))})[0].numpy()
        if not deterministic:
            logits = logits + random.gumbel(size=logits.shape)  # the largest is then a draw from the distribution
        return logits.argmax(axis=1)


def load_policy(checkpoint: Checkpoint, args: Any) -> NetworkPolicy:
    """`args`: what the run was started with, by name."""
    with make_env(args.env_id) as env:
        network = Policy(env.observation_space, env.action_space, args.hidden)
    fill(network, "policy", checkpoint)
    return NetworkPolicy(network)


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    return make_env(args.env_id, render_mode=render_mode)
