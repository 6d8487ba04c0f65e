"""What can be compiled, told without JAX: before a run starts, and where it is not installed."""

from __future__ import annotations

import importlib.util

from mosaic_worker.errors import UsageError

INSTALL = "python -m mosaic_worker.extras --set jax"
NO_JAX = f"JAX is not installed here. Install it with: {INSTALL}"
DISCRETE = {"CartPole-v1": "cartpole", "Acrobot-v1": "acrobot", "MountainCar-v0": "mountain_car"}
CONTINUOUS = {"Pendulum-v1": "pendulum"}
MODULES = {**DISCRETE, **CONTINUOUS}
"""Gymnasium's name of an environment → the module of this package that is its twin in JAX."""


def require_jax(script: str) -> None:
    """Raise UsageError with the command that installs JAX where it is missing. Imports nothing."""
    if importlib.util.find_spec("jax") is None:
        raise UsageError(f"{script} needs JAX: {NO_JAX}")


def require_compiled(script: str, env_id: str, *, twin: str) -> None:
    """Raise UsageError for an environment that a script for discrete actions has no compiled form of; `twin` is the
    script that takes any."""
    if env_id in CONTINUOUS:
        raise UsageError(f"{script} needs a discrete action space; {env_id} has continuous actions.")
    if env_id not in DISCRETE:
        offered = ", ".join(DISCRETE)
        raise UsageError(f"{script} runs environments that are compiled: {offered}. For {env_id} use {twin}.")
