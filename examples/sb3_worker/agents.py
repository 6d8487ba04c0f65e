"""Models of Stable-Baselines3: made from a run's settings, and what of them a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger

from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env

_COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "_episode_num", "exploration_rate")
_WHERE_IT_IS = ("_last_obs", "_last_episode_starts", "_last_original_obs")
_REPLAY = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts", "pos", "full")


def make_model(algo: str, env_id: str, seed: int, params: Mapping[str, Any]) -> BaseAlgorithm:
    """``sb3_ppo`` → PPO, and so on. Raises UsageError for an environment that cannot be made."""
    kind: type[BaseAlgorithm] = getattr(stable_baselines3, algo.removeprefix("sb3_").upper())
    model = kind("MlpPolicy", make_env(env_id), seed=seed, device="cpu", **params)
    model.set_logger(Logger(None, []))  # its own leaves a folder of each run in the temporary directory
    return model


def training_state(model: BaseAlgorithm) -> TrainingState:
    """Everything that a run needs to go on as if it had never stopped, at the beginning of a rollout."""
    state = TrainingState()
    state.module("policy", model.policy)
    state.optimizer("optimizer", model.policy.optimizer)
    state.attributes("model", model, *(name for name in (*_COUNTERS, *_WHERE_IT_IS) if hasattr(model, name)))
    if (replay := getattr(model, "replay_buffer", None)) is not None:
        state.attributes("replay", replay, *_REPLAY)
    state.envs("envs", model.env, restart=lambda: _begin_new_episodes(model))
    return state


def _begin_new_episodes(model: BaseAlgorithm) -> None:
    """For environments whose inner state cannot be kept."""
    model._last_obs = None  # learn() then resets them


def description_of_spaces(model: BaseAlgorithm) -> dict[str, Any]:
    return {"observation": describe_space(model.observation_space), "action": describe_space(model.action_space)}
