"""Atari games played by EnvPool, with the face of :class:`cleanrl_worker.atari.AtariGames`.

EnvPool spends a step on every reset: the step after an end ignores its action, pays nothing and shows the first
observation of the next episode. Those are marked as `resets`, since nothing can be learned from them. Its games cannot
be kept: there is no way to read an emulator's state.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleanrl_worker.atari import FRAME_SKIP, SPELLINGS, AtariGames, Step, UnknownGameError, unknown_game
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.recording.game_camera import Camera

INSTALL = "python -m cleanrl_worker.tools.install_extras --set envpool"
_ENLARGED = 4
_PROCGEN = re.compile(r"([a-z]+?)[-_]?(easy|hard|extreme|memory|exploration)?(-v0)?", re.IGNORECASE)


def envpool_is_installed() -> bool:
    return importlib.util.find_spec("envpool") is not None


def known_names(family: str) -> list[str]:
    """EnvPool's environments of one family, such as `atari` or `procgen`. ImportError without EnvPool."""
    from envpool.registration import registry

    return [name for name, (module, *_) in registry.specs.items() if module == f"envpool.{family}"]


def envpool_name(env_id: str) -> str:
    """EnvPool's name of an Atari game in any of its spellings. Raises :class:`UnknownGameError`."""
    known = known_names("atari")
    matches = [pattern.fullmatch(env_id) for pattern, _, _ in SPELLINGS]
    name = next((f"{match[1]}-v5" for match in matches if match), env_id)
    if name not in known:
        raise UnknownGameError(unknown_game(env_id, [one.removesuffix("-v5") for one in known]))
    return name


def procgen_name(env_id: str) -> str:
    """EnvPool's name of `starpilot`, `starpilot-hard` or `StarpilotHard-v0`. Raises :class:`UnknownGameError`, and
    ImportError without EnvPool."""
    known = known_names("procgen")
    match = _PROCGEN.fullmatch(env_id)
    name = f"{match[1].title()}{(match[2] or 'easy').title()}-v0" if match else ""
    if name in known:
        return name
    short = [one.removesuffix("Easy-v0").lower() for one in known if one.endswith("Easy-v0")]
    spelled = known if env_id[:1].isupper() else [*short, *(f"{game}-hard" for game in short)]
    raise UnknownGameError(f"there is no Procgen game {env_id!r}{did_you_mean(env_id, spelled)}")


class EnvPoolGames:
    """Games side by side in EnvPool's threads; a lost life ends an episode, rewards are those of the game."""

    def __init__(self, name: str, count: int, seed: int, *, sticky: float, record: bool = False) -> None:
        import envpool

        self._envs = envpool.make(
            name,
            env_type="gymnasium",
            num_envs=count,
            seed=seed % 2**31,
            episodic_life=True,
            reward_clip=False,
            repeat_action_probability=sticky,
        )
        self.count = count
        self.camera = Camera(self.picture) if record else None
        self.single_action_space = self._envs.action_space
        self.single_observation_space = self._envs.observation_space
        self.observations: NDArray[np.uint8] = self._envs.reset()[0]
        self._ended = np.zeros(count, dtype=bool)
        self._scores = np.zeros(count)
        self._steps = np.zeros(count, dtype=np.int64)

    def step(self, actions: NDArray[Any]) -> Step:
        """Take one action in each game; `observations` then holds what comes next."""
        self.observations, rewards, terminated, truncated, info = self._envs.step(actions.astype(np.int32))
        resets, self._ended = self._ended, terminated | truncated
        self._scores += rewards
        self._steps += ~resets
        over = np.flatnonzero((info["terminated"] != 0) | truncated)
        finished = [(int(one), float(self._scores[one]), int(self._steps[one]) * FRAME_SKIP) for one in over]
        self._scores[over], self._steps[over] = 0, 0
        if self.camera is not None:
            self.camera.follow(game_over=0 in over)
        return Step(rewards.astype(np.float32), terminated, truncated, [], finished, resets)

    def close(self) -> None:
        if self.camera is not None:
            self.camera.close()
        self._envs.close()

    def picture(self) -> NDArray[np.uint8]:
        """What the first game shows."""
        return self.observations[0, -1].repeat(_ENLARGED, axis=0).repeat(_ENLARGED, axis=1)


def make_envpool_games(
    algo: str, env_id: str, count: int, seed: int, *, sticky: float, record: bool = False
) -> EnvPoolGames:
    """The games for a script, or UsageError with the sentence that says why there are none."""
    from mosaic_worker.errors import UsageError

    try:
        return EnvPoolGames(envpool_name(env_id), count, seed, sticky=sticky, record=record)
    except ImportError as error:
        raise UsageError(f"{algo} needs the envpool extra ({error}). Install it with: {INSTALL}") from error
    except UnknownGameError as error:
        raise UsageError(f"{algo} plays Atari games, and {error}") from error


class KeptGames:
    """The games as a part of the checkpoint, as far as they can be."""

    def __init__(self, games: AtariGames | EnvPoolGames) -> None:
        self.games = games

    @property
    def state(self) -> dict[str, Any]:
        snapshot = self.games.snapshot if isinstance(self.games, AtariGames) else None
        return {"count": self.games.count, "snapshot": snapshot}

    @state.setter
    def state(self, kept: dict[str, Any]) -> None:
        if kept["count"] != self.games.count:
            raise ValueError(f"the checkpoint has {kept['count']} games, this run has {self.games.count}")
        if kept["snapshot"] is not None and isinstance(self.games, AtariGames):
            self.games.snapshot = kept["snapshot"]
        else:
            sentence = "EnvPool's games cannot be kept in a checkpoint: new episodes begin, all else goes on as it was."
            print(sentence, flush=True)
