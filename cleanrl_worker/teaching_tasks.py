"""Environments for QDagger's student and teacher: an Atari game life by life, or any other with discrete actions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cleanrl_worker.atari import INSTALL, AtariEvaluation, AtariGame, UnknownGameError, is_atari_name
from mosaic_worker.learning.argument_checks import require
from mosaic_worker.learning.environments import CONTINUOUS_SCRIPTS, brief
from mosaic_worker.learning.pictures import SMALLEST_PICTURE, is_picture
from mosaic_worker.recording.game_camera import Camera
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import UsageError


class Step(NamedTuple):
    """What one step brought."""

    observation: NDArray[Any]
    reward: float
    """What is learned from; Atari's rewards are clipped to -1, 0 and 1."""
    terminated: bool
    truncated: bool
    finished: tuple[float, int] | None
    """(return, length) of a whole episode or game that ended with this step."""


class AtariTask:
    """An Atari game in which a lost life ends the episode that is learned from, but not the game."""

    stack = 4

    def __init__(self, env_id: str, seed: int, *, record: bool) -> None:
        self.game = AtariGame(env_id, episodic_life=True)
        self.camera = Camera(self.game.colours) if record else None
        self.envs = self.camera.envs if self.camera is not None else []
        self.game.seed(seed)
        self.action_space = gym.spaces.Discrete(self.game.action_count)
        self.observation_space = gym.spaces.Box(0, 255, self.game.stack.shape, np.uint8)

    def reset(self) -> NDArray[Any]:
        """The first observation of the next life, or of a new game."""
        return self.game.reset().copy()

    def restart(self) -> NDArray[Any]:
        self.game.abandon()
        return self.reset()

    def step(self, action: int) -> Step:
        found = self.game.step(action)
        finished = (self.game.score, self.game.frames) if found.game_over else None
        if self.camera is not None:
            self.camera.follow(game_over=found.game_over)
        reward = float(np.sign(found.reward))
        return Step(self.game.stack.copy(), reward, found.terminated, found.truncated, finished)

    def keep(self, state: TrainingState) -> None:
        state.attributes("game", self.game, "snapshot")

    def close(self) -> None:
        if self.camera is not None:
            self.camera.close()


class GymTask:
    """Any other environment."""

    stack = 1

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        self.envs = [env]
        self.action_space, self.observation_space = env.action_space, env.observation_space
        self.total, self.length = 0.0, 0
        self._seed: int | None = seed

    def reset(self) -> NDArray[Any]:
        observation, _ = self.envs[0].reset(seed=self._seed)
        self._seed, self.total, self.length = None, 0.0, 0
        return np.array(observation)

    restart = reset

    def step(self, action: int) -> Step:
        assert isinstance(self.action_space, gym.spaces.Discrete)
        taken = action + int(self.action_space.start)
        observation, reward, terminated, truncated, _ = self.envs[0].step(taken)
        self.total += float(reward)
        self.length += 1
        finished = (self.total, self.length) if terminated or truncated else None
        return Step(np.array(observation), float(reward), terminated, truncated, finished)

    def keep(self, state: TrainingState) -> None:
        state.envs("envs", self)

    def close(self) -> None:
        self.envs[0].close()


Task = AtariTask | GymTask


@contextmanager
def atari_made_plain(env_id: str) -> Iterator[None]:
    """What keeps an Atari game from being made, as a UsageError."""
    try:
        import cv2  # noqa: F401 - needed with the first picture

        yield
    except ImportError as error:
        raise UsageError(f"{env_id} needs the atari extra ({error}). Install it with: {INSTALL}") from error
    except UnknownGameError as error:
        sentence = str(error)
        raise UsageError(sentence[:1].upper() + sentence[1:]) from error


def make_task(name: str, args: Any) -> Task:
    """The environment, checked for what this algorithm can handle. Raises UsageError."""
    if is_atari_name(args.env_id):
        with atari_made_plain(args.env_id):
            return AtariTask(args.env_id, args.seed, record=args.capture_video)
    env = make_env(args.env_id, record=args.capture_video)
    action_space, space = env.action_space, env.observation_space
    require(
        isinstance(action_space, gym.spaces.Discrete),
        f"{name} needs a discrete action space; {args.env_id} has {brief(action_space)}. Try {CONTINUOUS_SCRIPTS}.",
    )
    fits = isinstance(space, gym.spaces.Box) and (len(space.shape) == 1 or is_picture(space.shape))
    least = f"{SMALLEST_PICTURE}x{SMALLEST_PICTURE}"
    require(fits, f"{name} needs vectors or pictures of at least {least} to look at; {args.env_id} has {brief(space)}.")
    return GymTask(env, args.seed)


def evaluation_env(env_id: str, render_mode: str | None) -> gym.Env[Any, Any]:
    """One environment with what training shows and true rewards; a whole game is one episode. Raises UsageError."""
    if is_atari_name(env_id):
        with atari_made_plain(env_id):
            return AtariEvaluation(env_id, render_mode)
    return make_env(env_id, render_mode=render_mode)
