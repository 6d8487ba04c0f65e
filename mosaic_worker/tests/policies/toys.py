"""The toy worker of these tests: where it is, and checkpoints of it that nobody had to train."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from mosaic_protocol.worker_packages import PACKAGE_VARIABLE
from mosaic_worker.state import checkpoints

TOY_WORKER = Path(__file__).resolve().parents[1] / "toy_worker"
ENVIRONMENTS = {"toy_discrete": "CartPole-v1", "toy_continuous": "Pendulum-v1"}
ON_THE_PATH = {"PYTHONPATH": os.pathsep.join([str(TOY_WORKER.parent), str(TOY_WORKER.parents[2])])}


def new_checkpoint(directory: Path, algo: str = "toy_discrete", step: int = 1000, **changes: Any) -> Path:
    """The checkpoint of a policy that has not learned anything yet."""
    env_id = ENVIRONMENTS[algo]
    with gym.make(env_id) as env:
        size, space = int(env.observation_space.shape[0]), env.action_space  # type: ignore[index]
        spaces = {"observation": checkpoints.describe_space(env.observation_space)}
        spaces["action"] = checkpoints.describe_space(space)
    generator = torch.Generator().manual_seed(3)
    outputs = int(getattr(space, "n", 1))
    tensors = {"layer.weight": torch.randn(outputs, size, generator=generator), "layer.bias": torch.zeros(outputs)}
    fields = {"algo": algo, "env_id": env_id, "tensors": tensors, "args": {"env_id": env_id}, "spaces": spaces}
    return checkpoints.save(directory, step=step, **(fields | changes))


def command(module: str, path: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", f"mosaic_worker.policies.{module}", "--checkpoint", str(path), *words]


def environment() -> dict[str, str]:
    """As the process of a worker's program has it."""
    return {**os.environ, **ON_THE_PATH, PACKAGE_VARIABLE: str(TOY_WORKER)}


def start(module: str, path: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(module, path, *words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
