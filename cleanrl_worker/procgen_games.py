"""Procgen's games, played by EnvPool.

Tried with EnvPool 1.2.5: the step that ends an episode returns the episode's true last observation; the step after it
ignores its action, gives reward 0 and returns the first observation of a new level.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cleanrl_worker.atari import UnknownGameError
from cleanrl_worker.envpool_games import procgen_name
from mosaic_worker.recording.game_camera import Camera
from mosaic_worker.training.session import UsageError

INSTALL = "python -m cleanrl_worker.tools.install_extras --set procgen"


def procgen_id(name: str) -> str:
    """EnvPool's id of `starpilot`, `starpilot-hard` or `StarpilotHard-v0`. Raises UsageError."""
    try:
        return procgen_name(name)
    except UnknownGameError as error:
        sentence = str(error)
        raise UsageError(sentence[:1].upper() + sentence[1:]) from error
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"ppg_procgen needs the procgen extra ({reason}). Install it with: {INSTALL}") from error


class ProcgenGames:
    """Procgen's games in EnvPool's threads. The state of a running game cannot be read out of them."""

    keeps_state = False

    def __init__(self, env_id: str, num_envs: int, seed: int, *, record: bool = False) -> None:
        name = procgen_id(env_id)
        import envpool

        self.num_envs = num_envs
        self._pool = envpool.make_gymnasium(name, num_envs=num_envs, seed=seed % 2**31)
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observations = self.reset()
        self.camera = Camera(self.picture) if record else None

    def picture(self) -> NDArray[np.uint8]:
        """What the first game shows."""
        return enlarged(self.observations[0])

    def reset(self) -> NDArray[np.uint8]:
        self.observations = np.asarray(self._pool.reset()[0])
        return self.observations

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        self.observations, rewards, terminated, truncated, _ = self._pool.step(actions.astype(np.int32))
        if self.camera is not None:
            self.camera.follow(game_over=bool(terminated[0] | truncated[0]))
        return self.observations, rewards, terminated, truncated

    def close(self) -> None:
        if self.camera is not None:
            self.camera.close()
        self._pool.close()


class ProcgenEnv(gym.Env[NDArray[np.uint8], np.int64]):
    """One game that waits to be reset, with its true rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, env_id: str, render_mode: str | None = None) -> None:
        self.env_id, self.render_mode = env_id, render_mode
        self._games = ProcgenGames(env_id, 1, seed=0)
        self.observation_space = self._games.single_observation_space
        self.action_space = self._games.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:  # EnvPool only takes one when it makes a game
            self._games.close()
            self._games = ProcgenGames(self.env_id, 1, seed)
        else:
            self._games.reset()
        return self._games.observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated = self._games.step(np.array([action]))
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        return enlarged(self._games.observations[0])

    def close(self) -> None:
        self._games.close()


def enlarged(picture: NDArray[np.uint8], times: int = 6) -> NDArray[np.uint8]:
    """A (channels, height, width) picture as one that a person can look at."""
    return np.ascontiguousarray(picture.transpose(1, 2, 0).repeat(times, axis=0).repeat(times, axis=1))
