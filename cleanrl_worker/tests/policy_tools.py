"""Checkpoints for tests of what is done with them, made without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from cleanrl_worker.config import PACKAGE
from cleanrl_worker.import_checkpoint import blueprint
from mosaic_worker.policies.acting import LoadedPolicy, load_acting, script_for
from mosaic_worker.state import checkpoints

ENVIRONMENTS = {
    "ppo": "CartPole-v1",
    "dqn": "CartPole-v1",
    "c51": "CartPole-v1",
    "sac_continuous_action": "Pendulum-v1",
    "td3_continuous_action": "Pendulum-v1",
    "ppo_continuous_action": "Pendulum-v1",
}


def new_checkpoint(directory: Path, algo: str, step: int = 1000, seed: int = 3, **changes: Any) -> Path:
    """The checkpoint of a run that has not learned anything yet, with parameters that distinguish its actions."""
    plan = blueprint(script_for(algo, PACKAGE), {"env_id": ENVIRONMENTS[algo], "seed": seed})
    torch.manual_seed(seed)
    wilder = {name: _varied(name, tensor) for name, tensor in plan.tensors.items()}
    fields = {"algo": algo, "env_id": ENVIRONMENTS[algo], "tensors": wilder, "args": plan.args, "spaces": plan.spaces}
    return checkpoints.save(directory, step=step, **(fields | changes))


def loaded_from(path: Path) -> LoadedPolicy:
    return load_acting(path, PACKAGE)


def _varied(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Output layers begin near zero in some algorithms, where every action would be the same."""
    ranges = name.endswith(("action_scale", "action_bias", "variance", "count"))
    return tensor if ranges or not tensor.is_floating_point() else tensor + 0.1 * torch.randn_like(tensor)
