"""The environments of this worker, made the same way for training, evaluation and replay.

A table needs states that can be counted. Where an environment shows a number, that is the state; where it shows a few
whole numbers (a hand of cards, the cells of a grid), they become one flat array and each array that is seen gets a
number.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError
from mosaic_worker.training.environments import wrong_setting

NO_LIMIT_OF_ITS_OWN = 1000
"""Steps of an episode where neither the environment nor the run says when it is too long."""
_MOST_NUMBERS = 4096
"""That an observation may consist of."""
_LEAST, _MOST = int(np.iinfo(np.int16).min), int(np.iinfo(np.int16).max)
"""What each of them may be: two bytes, in memory and in checkpoints."""
_GRID_SETTINGS = ("map_name", "is_slippery")


def make_env(env_id: str, params: Mapping[str, Any], render_mode: str | None = None) -> gym.Env[Any, Any]:
    """Make it as the run's parameters say. Raises UsageError in one sentence."""
    _register(env_id)
    arguments = dict(params.get("env_kwargs") or {})
    arguments |= {name: params[name] for name in _GRID_SETTINGS if params.get(name) not in (None, "")}
    spec = None
    try:
        spec = gym.spec(env_id)
        limit = params.get("max_episode_steps") or spec.max_episode_steps or NO_LIMIT_OF_ITS_OWN
        env = gym.make(env_id, max_episode_steps=int(limit), render_mode=render_mode, **arguments)
    except gym.error.UnregisteredEnv as error:
        raise UsageError(f"there is no environment {env_id!r} here{did_you_mean(env_id, gym.registry)}") from error
    except Exception as error:  # an environment's constructor is foreign code
        if spec is not None and (why := wrong_setting(spec, arguments)):
            raise UsageError(why) from error
        raise UsageError(f"{env_id} cannot be made: {type(error).__name__}: {one_line(str(error))}") from error
    try:
        return _counted(env, env_id)
    except UsageError:
        env.close()
        raise


def time_limit(env: gym.Env[Any, Any]) -> int:
    """Steps after which an episode is truncated."""
    return int((env.spec.max_episode_steps if env.spec is not None else None) or NO_LIMIT_OF_ITS_OWN)


def _register(env_id: str) -> None:
    if env_id.startswith("MiniGrid-") and importlib.util.find_spec("minigrid") is not None:
        gym.register_envs(importlib.import_module("minigrid"))


def _counted(env: gym.Env[Any, Any], env_id: str) -> gym.Env[Any, Any]:
    if not isinstance(env.action_space, spaces.Discrete):
        raise UsageError(f"a table needs actions that can be counted; {env_id} has {env.action_space}")
    if int(env.action_space.start) or int(getattr(env.observation_space, "start", 0)):
        env = FromZero(env)
    if isinstance(env.observation_space, spaces.Discrete):
        return env
    numbers = _numbers_of(env.observation_space)
    if numbers is None or not 0 < numbers <= _MOST_NUMBERS:
        raise UsageError(
            f"a table needs states that can be counted; {env_id} shows {one_line(str(env.observation_space))}. "
            "Choose an environment such as FrozenLake-v1, Taxi-v4, Blackjack-v1 or MiniGrid-Empty-5x5-v0"
        )
    return WholeNumbers(env, numbers)


def _numbers_of(space: gym.Space[Any]) -> int | None:
    """How many whole numbers an observation consists of; None where it has parts that are none. Texts do not count: a
    mission that is the same in every state tells states apart no better."""
    match space:
        case spaces.Discrete():
            return 1
        case spaces.MultiDiscrete() | spaces.MultiBinary():
            return int(np.prod(space.shape))
        case spaces.Box() if np.issubdtype(space.dtype, np.integer):
            return int(np.prod(space.shape))
        case _ if _is_text(space):
            return 0
        case spaces.Tuple():
            parts = [_numbers_of(one) for one in space.spaces]
        case spaces.Dict():
            parts = [_numbers_of(one) for one in space.spaces.values()]
        case _:
            return None
    return None if any(part is None for part in parts) else sum(part or 0 for part in parts)


def _fits(space: gym.Space[Any]) -> bool:
    """Whether nothing that it shows is beyond the numbers that a state is kept by."""
    match space:
        case spaces.Discrete():
            return int(space.start) >= _LEAST and int(space.start) + int(space.n) - 1 <= _MOST
        case spaces.MultiDiscrete():
            return bool((space.start >= _LEAST).all() and (space.start + space.nvec - 1 <= _MOST).all())
        case spaces.Box():
            return bool((space.low >= _LEAST).all() and (space.high <= _MOST).all())
        case spaces.Tuple():
            return all(map(_fits, space.spaces))
        case spaces.Dict():
            return all(map(_fits, space.spaces.values()))
    return True


class FromZero(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Counts actions and states from 0, where the environment begins with another number."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        done: Any = env.action_space
        seen: Any = env.observation_space
        self._first_action = int(done.start)
        self.action_space = spaces.Discrete(int(done.n))
        self._first_state = int(seen.start) if isinstance(seen, spaces.Discrete) else 0
        if self._first_state:
            self.observation_space = spaces.Discrete(int(seen.n))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        shown, about = self.env.reset(seed=seed, options=options)
        return self._from_zero(shown), about

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        shown, *rest = self.env.step(int(action) + self._first_action)
        return (self._from_zero(shown), *rest)

    def _from_zero(self, shown: Any) -> Any:
        return shown - self._first_state if self._first_state else shown


class WholeNumbers(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Shows what it sees as one flat array of whole numbers."""

    def __init__(self, env: gym.Env[Any, Any], numbers: int) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, numbers=numbers)
        gym.ObservationWrapper.__init__(self, env)
        self.observation_space = spaces.Box(_LEAST, _MOST, (numbers,), np.int16)
        self._may_be_too_large = not _fits(env.observation_space)

    def observation(self, observation: Any) -> NDArray[np.int16]:
        """Raises UsageError."""
        found: list[Any] = []
        _gather(self.env.observation_space, observation, found)
        numbers = np.concatenate(found)
        if self._may_be_too_large and (numbers.min() < _LEAST or numbers.max() > _MOST):
            raise UsageError(
                f"the environment shows the numbers {numbers.min()} to {numbers.max()}: states are told apart by "
                f"numbers from {_LEAST:,} to {_MOST:,}; choose another environment"
            )
        return numbers.astype(np.int16)


def _is_text(space: gym.Space[Any]) -> bool:
    """MiniGrid has a space of its own for missions."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and np.dtype(space.dtype).kind == "U")


def _gather(space: gym.Space[Any], value: Any, found: list[Any]) -> None:
    match space:
        case _ if _is_text(space):
            return
        case spaces.Tuple():
            for one, part in zip(space.spaces, value, strict=True):
                _gather(one, part, found)
        case spaces.Dict():
            for name, one in space.spaces.items():
                _gather(one, value[name], found)
        case _:
            found.append(np.asarray(value).reshape(-1))
