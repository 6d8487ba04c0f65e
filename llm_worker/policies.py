"""A model put to use again: ``mosaic eval``, ``mosaic watch`` and ``mosaic policy`` find these here.

A checkpoint of this worker holds no weights: it holds how the model was asked. The policy asks the same model again, so
its server has to be there, and its key. Observations come as arrays; those of MiniGrid, which are none, are carried in
one.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from llm_worker.client.connecting import open_caller
from llm_worker.client.errors import AbandonedError, CallError
from llm_worker.describing.choice import describer_for
from llm_worker.environments import make_env
from llm_worker.playing.player import Attend, Player
from llm_worker.settings import read_params
from mosaic_protocol.dialogue import Exchange
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.policy import GivenUpError
from mosaic_worker.state.checkpoints import Checkpoint

_MISSION = 100
"""Bytes of a mission that are carried."""


class LLMPolicy:
    """Asks about one observation after the other, and remembers the episode as a run does."""

    def __init__(self, player: Player, is_carried: bool, image_shape: tuple[int, ...], first_action: int) -> None:
        self._player, self._is_carried, self._shape = player, is_carried, image_shape
        self._first, self._step, self._episode = first_action, 0, -1
        self._last: tuple[int, Any, int, Any] | None = None
        self._reward = 0.0
        self._asked: list[Exchange] = []
        """In this episode."""
        self._goes_on: Attend | None = None

    def attend(self, stop: Callable[[], bool]) -> None:
        """A server may take minutes: who ends an evaluation does not wait for it."""
        self._goes_on = lambda: not stop()

    def begin_episode(self) -> None:
        self._player.begin_episode()
        self._step, self._episode, self._last = 0, self._episode + 1, None
        self._asked = []

    def spent(self) -> Mapping[str, float]:
        """What the episode takes of a server that knows none of its answers, so that a second one costs as much."""
        money = [self._player.price_of(one) for one in self._asked]
        found = {
            "tokens": float(sum(one.tokens_in + one.tokens_out for one in self._asked)),
            "seconds": sum(one.seconds for one in self._asked),
        }
        return found if None in money else {**found, "money": sum(one or 0.0 for one in money)}

    def rewarded(self, reward: float) -> None:
        self._reward = reward

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        """The seed of an answer is drawn where answers are drawn at all. Raises UsageError."""
        return np.array([self._act(one, 0 if deterministic else int(random.integers(2**31))) for one in observations])

    def _act(self, observation: Any, seed: int) -> int:
        shown = carried_back(observation, self._shape) if self._is_carried else observation
        if self._last is not None:
            step, before, action, told = self._last
            self._player.made(step, before, action, told, shown, self._reward)
        try:
            place = f"e{self._episode}.s{self._step}"
            decision = self._player.decide(place, shown, self._step, seed, self._goes_on)
        except AbandonedError as error:
            raise GivenUpError from error
        except CallError as error:
            raise UsageError(str(error)) from error
        self._asked.append(decision.exchange)
        self._last = (self._step, shown, decision.action, decision.exchange)
        self._step += 1
        return decision.action + self._first


class CarriedGrid(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """MiniGrid's picture, direction and mission in one array of bytes."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        shape = _image_shape(env.observation_space)
        self.observation_space = spaces.Box(0, 255, (int(np.prod(shape)) + 1 + _MISSION,), np.uint8)

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        mission = str(observation["mission"]).encode()[:_MISSION].ljust(_MISSION)
        image = np.asarray(observation["image"], np.uint8).reshape(-1)
        words = np.frombuffer(mission, np.uint8)
        return np.concatenate([image, np.array([observation["direction"]], np.uint8), words])


def carried_back(array: NDArray[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    size = int(np.prod(shape))
    values = np.asarray(array).astype(np.uint8)
    mission = values[size + 1 :].tobytes().decode("utf-8", "ignore").rstrip()
    return {"image": values[:size].reshape(shape), "direction": int(values[size]), "mission": mission}


def _image_shape(space: gym.Space[Any]) -> tuple[int, ...]:
    """() for what is no world of MiniGrid."""
    if isinstance(space, spaces.Dict) and {"image", "direction", "mission"} <= set(space.spaces):
        return tuple(space.spaces["image"].shape or ())
    return ()


def load_policy(checkpoint: Checkpoint, args: Any) -> LLMPolicy:
    """`args`: what the run was started with, by name. Raises UsageError."""
    state = (checkpoint.manifest.state or {}).get("player", {})
    # The checkpoint has the text of its template, whatever became of the file.
    params = vars(args) | ({"prompt": "default"} if isinstance(state.get("prompts"), str) else {})
    told = read_params(checkpoint.manifest.algo, params, int(params.get("seed") or 1))
    with make_env(args.env_id, params) as env:
        describer = describer_for(env)
        shape = _image_shape(env.observation_space)
        first = int(getattr(env.action_space, "start", 0))
    living = ExitStack()
    atexit.register(living.close)
    player = Player(told, describer, open_caller(told, None, None, living), args.env_id)
    for name in ("prompts", "examples"):
        if isinstance(kept := state.get(name), str):
            setattr(player, name, kept)
    player.rung = state.get("rung", "") if isinstance(state.get("rung"), str) else ""
    player.lessons = [one for one in state.get("lessons") or () if isinstance(one, str)]
    try:
        player.find_form()
    except CallError as error:
        raise UsageError(str(error)) from error
    return LLMPolicy(player, bool(shape), shape, first)


def make_evaluation_env(args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    env = make_env(args.env_id, vars(args), render_mode)
    return CarriedGrid(env) if _image_shape(env.observation_space) else env
