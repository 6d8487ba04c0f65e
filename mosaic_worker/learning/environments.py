"""The environments of a script, and why an algorithm cannot use some."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mosaic_worker.learning.argument_checks import require
from mosaic_worker.training import environments

Actions = Literal["discrete", "continuous", "bounded"]
CONTINUOUS_SCRIPTS = "sac_continuous_action, td3_continuous_action or ppo_continuous_action"
DISCRETE_SCRIPTS = "ppo, dqn or c51"


def make_env(env_id: str, *, record: bool = False, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """An environment as networks can read it: an observation that is one of n comes as n numbers, of which one is 1,
    and named rows of numbers come as one row. Raises UsageError."""
    env = environments.make_env(env_id, record=record, render_mode=render_mode)
    space = env.observation_space
    return gym.wrappers.FlattenObservation(env) if _is_counted(space) or _is_named_rows(space) else env


def _is_named_rows(space: gym.Space[Any]) -> bool:
    """As dm_control's observations are. Pictures among them would make rows that no network here could learn from."""
    rows = space.spaces.values() if isinstance(space, gym.spaces.Dict) else ()
    return bool(rows) and all(isinstance(row, gym.spaces.Box) and len(row.shape) < 2 for row in rows)


def _is_counted(space: gym.Space[Any]) -> bool:
    if isinstance(space, gym.spaces.Tuple):
        return all(map(_is_counted, space.spaces))
    return isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete)


class Environments:
    """Environments of one kind, stepped one by one: for a few, a vector environment costs more than it saves.

    Nothing is reset unasked, so the observation that an episode ended in cannot be mistaken for the first one
    of the next.
    """

    def __init__(self, envs: list[gym.Env[Any, Any]]) -> None:
        self.envs = envs
        self.single_action_space, self.single_observation_space = envs[0].action_space, envs[0].observation_space

    def close(self) -> None:
        for env in self.envs:
            env.close()


def make_single_envs(name: str, args: Any) -> Environments:
    """Environments with discrete actions for the script of this name. Raises UsageError."""
    envs = Environments([make_env(args.env_id, record=args.capture_video and n == 0) for n in range(args.num_envs)])
    require_fitting(name, args.env_id, envs, "discrete", CONTINUOUS_SCRIPTS)
    return envs


def make_vector_envs(name: str, args: Any, actions: Actions, others: str) -> SyncVectorEnv:
    """One vector environment for the script of this name; `others` serve other actions. Raises UsageError.

    SAME_STEP: a finished environment is reset within the step that finished it, so every step is a real
    transition, and the observation the episode ended in arrives as `final_obs`. CartPole's own vector environment
    only knows NEXT_STEP, whose reset rows would have to be masked, and with four is no faster.
    """
    envs = SyncVectorEnv(
        [partial(make_env, args.env_id, record=args.capture_video and n == 0) for n in range(args.num_envs)],
        copy=False,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    require_fitting(name, args.env_id, envs, actions, others)
    return envs


def require_fitting(name: str, env_id: str, envs: Any, actions: Actions, others: str) -> None:
    """Raise UsageError for environments that the script of this name cannot use."""
    space, observations = envs.single_action_space, envs.single_observation_space
    kind, needed = (gym.spaces.Discrete, "discrete") if actions == "discrete" else (gym.spaces.Box, "continuous")
    require(
        isinstance(space, kind),
        f"{name} needs a {needed} action space; {env_id} has {brief(space)}. Try {others}.",
    )
    require(
        actions != "bounded" or space.is_bounded(),
        f"{name} needs bounded actions; those of {env_id} are not. Try ppo_continuous_action.",
    )
    require(
        isinstance(observations, gym.spaces.Box),
        f"{name} needs a Box observation space; {env_id} has {brief(observations)}.",
    )


def brief(space: gym.Space[Any]) -> str:
    if isinstance(space, gym.spaces.Dict):
        return f"a Dict of {', '.join(map(str, space.spaces))}"
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


def observation_size(envs: Any) -> int:
    """Numbers in one observation."""
    return math.prod(envs.single_observation_space.shape)
