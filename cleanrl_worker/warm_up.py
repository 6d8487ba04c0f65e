"""What the fork server does once, so that no run has to: import everything and touch each part for the first time."""

from __future__ import annotations

import importlib
import os

# Imported by name: an import statement that nothing uses is one that tidying tools take away.
_MODULES = (
    "tyro",
    "safetensors.torch",
    "tensorboard.compat.proto.summary_pb2",
    "torch.utils.tensorboard",
    "mosaic_protocol.worker_client",
    # Not cleanrl_worker.cli itself: the worker runs it as __main__, and a module must not exist twice.
    "cleanrl_worker.launcher",
    "cleanrl_worker.preflight",
    "cleanrl_worker.runtime",
    "cleanrl_worker.script_flags",
    "cleanrl_worker.session",
)


def warm_up() -> None:
    """Imports, then one throw-away model, optimiser step and environment: their first use is slow."""
    import gymnasium
    import torch

    for name in _MODULES:
        importlib.import_module(name)
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
