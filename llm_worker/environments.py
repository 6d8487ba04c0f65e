"""The environments of this worker, made the same way for runs, evaluation and replay."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError
from mosaic_worker.training.environments import wrong_setting

NO_LIMIT_OF_ITS_OWN = 1000
_GRID_SETTINGS = ("map_name", "is_slippery")
_FAMILIES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "ALE/": "ale_py"}


def make_env(env_id: str, params: Mapping[str, Any], render_mode: str | None = None) -> gym.Env[Any, Any]:
    """Make it as the run's parameters say. Raises UsageError in one sentence."""
    for beginning, package in _FAMILIES.items():
        if env_id.startswith(beginning) and importlib.util.find_spec(package) is not None:
            gym.register_envs(importlib.import_module(package))
    arguments = dict(params.get("env_kwargs") or {})
    arguments |= {name: params[name] for name in _GRID_SETTINGS if params.get(name) not in (None, "")}
    spec = None
    try:
        spec = gym.spec(env_id)
        limit = params.get("max_episode_steps") or spec.max_episode_steps or NO_LIMIT_OF_ITS_OWN
        return gym.make(env_id, max_episode_steps=int(limit), render_mode=render_mode, **arguments)
    except gym.error.UnregisteredEnv as error:
        raise UsageError(f"there is no environment {env_id!r} here{did_you_mean(env_id, gym.registry)}") from error
    except Exception as error:  # an environment's constructor is foreign code
        if spec is not None and (why := wrong_setting(spec, arguments)):
            raise UsageError(why) from error
        raise UsageError(f"{env_id} cannot be made: {type(error).__name__}: {one_line(str(error))}") from error
