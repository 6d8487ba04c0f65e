"""What a fork server does once, so that no run has to: import everything and use each part for the first time.

A worker's module for ``[warm]`` calls :func:`import_modules` and :func:`use_for_the_first_time`, does the same to what
is its own, and offers :func:`after_fork` under that name.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Collection

import mosaic_worker

_SHARED = (
    "gymnasium.vector",
    "mosaic_protocol.flag_words",
    "mosaic_protocol.worker_client",
    "safetensors.torch",
    "tensorboard.compat.proto.summary_pb2",
    "torch.utils.tensorboard",
)
_NOT_SHARED = tuple(f"mosaic_worker.{one}" for one in ("harness", "tracking", "tests", "extras", "offline", "compiled"))
"""Processes of their own, in environments where other versions of gym and wandb are; tests; tools; what needs h5py,
which not every worker has: the modules of one that learns from datasets bring it along. What needs JAX is imported by a
compiled script after the fork: JAX has threads from its first computation on, and none of them may be forked."""


def import_modules(package: str, left_out: Collection[str]) -> None:
    """Import what runs share: the kit, what it stands on, and every module of a worker's package, so that none is
    forgotten.

    `left_out`: modules of the package that a run executes itself. The worker's command line is one of them: a fork
    runs it as its main module, and a module must not exist twice.
    """
    kit = pkgutil.walk_packages(mosaic_worker.__path__, "mosaic_worker.")
    own = pkgutil.iter_modules(importlib.import_module(package).__path__)
    names = [
        *_SHARED,
        *(module.name for module in kit if not module.name.startswith(_NOT_SHARED)),
        *(f"{package}.{module.name}" for module in own if not module.ispkg and module.name not in left_out),
    ]
    for name in names:
        importlib.import_module(name)


def use_for_the_first_time() -> None:
    """One throw-away model, optimiser step and environment: their first use is slow."""
    import gymnasium
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model(torch.zeros(1, 4)).sum().backward()
    optimizer.step()
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    env.close()


def after_fork() -> None:
    """Each worker gets random state of its own; scripts then seed themselves."""
    import numpy
    import torch

    numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    torch.seed()
