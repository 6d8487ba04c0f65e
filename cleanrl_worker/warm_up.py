"""What the fork server does once, so that no run has to: import everything and touch each part for the first time."""

from __future__ import annotations

import os


def warm_up() -> None:
    """Imports, then one throw-away model, optimiser step and environment: their first use is slow."""
    import gymnasium
    import torch
    import tyro  # noqa: F401
    from torch.utils.tensorboard import SummaryWriter  # noqa: F401

    # Not cleanrl_worker.cli itself: the worker runs it as __main__, and a module must not exist twice.
    import mosaic_protocol.worker_client  # noqa: F401

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
