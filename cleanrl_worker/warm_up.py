"""What the fork server does once, so that no run has to: import everything and touch each part for the first time."""

from __future__ import annotations

import importlib
import os
import pkgutil
from dataclasses import dataclass

import cleanrl_worker

_FOREIGN = (
    "gymnasium.vector",
    "mosaic_protocol.flag_words",
    "mosaic_protocol.worker_client",
    "safetensors.torch",
    "tensorboard.compat.proto.summary_pb2",
    "torch.utils.tensorboard",
)
_LEFT_OUT = ("cli", "warm_up")
"""The worker runs ``cleanrl_worker.cli`` as its main module, and a module must not exist twice."""


def warm_up() -> None:
    """Imports, then one throw-away command line, model, optimiser step and environment: their first use is slow."""
    import gymnasium
    import torch
    import tyro

    for name in (*_FOREIGN, *_our_modules()):
        importlib.import_module(name)
    tyro.cli(_ThrowAway, args=["--number", "2"])
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model(torch.zeros(1, 4)).sum().backward()
    optimizer.step()
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    env.close()


@dataclass
class _ThrowAway:
    number: int = 1
    perhaps: float | None = None


def _our_modules() -> list[str]:
    """What the worker and its scripts share: every module beside this one, so that none is forgotten."""
    found = (module for module in pkgutil.iter_modules(cleanrl_worker.__path__) if not module.ispkg)
    return [f"cleanrl_worker.{module.name}" for module in found if module.name not in _LEFT_OUT]


def after_fork() -> None:
    """Each worker gets random state of its own; scripts then seed themselves."""
    import numpy
    import torch

    numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    torch.seed()
