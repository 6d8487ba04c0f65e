"""What the fork server of this worker does once: import what every run needs. There is no PyTorch among it."""

from __future__ import annotations

import importlib
import os

__all__ = ["after_fork", "warm_up"]

_MODULES = (
    "gymnasium.envs.toy_text",
    "mosaic_protocol.worker_client",
    "mosaic_worker.recording.step_recorder",
    "mosaic_worker.state.checkpoint_writer",
    "mosaic_worker.supervision.analytics",
    "mosaic_worker.supervision.launcher",
    "mosaic_worker.training.daemon_link",
    "mosaic_worker.training.session",
    "mosaic_worker.training.watching",
    "spade_bdi_rl_worker.checks",
    "spade_bdi_rl_worker.runner",
)


def warm_up() -> None:
    from spade_bdi_rl_worker.learning.environments import make_env

    for name in _MODULES:
        importlib.import_module(name)
    make_env("FrozenLake-v1", {}).close()


def after_fork() -> None:
    """Each run gets random state of its own; then it seeds itself."""
    import numpy

    numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
