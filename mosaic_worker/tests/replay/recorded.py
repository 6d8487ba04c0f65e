"""Episodes played by a seeded hand and recorded as a worker records them."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import RUN, Recording
from mosaic_protocol.worker_packages import PACKAGE_VARIABLE
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.tests.policies.toys import ON_THE_PATH, TOY_WORKER

Change = Callable[[dict[str, Any]], None]
"""Changes a step before it is recorded."""


def made(env_id: str, **arguments: Any) -> gym.Env[Any, Any]:
    if env_id.startswith("ALE/"):
        import ale_py

        gym.register_envs(ale_py)
    return gym.make(env_id, **arguments)


def record(
    folder: Path,
    env: gym.Env[Any, Any] | str,
    *,
    seeds: Sequence[int | None] = (3,),
    most_steps: int = 120,
    changes: Mapping[int, Change] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Recording:
    """One episode for each seed; ``changes`` by the number of the step in the recording."""
    env_id = env if isinstance(env, str) else "Handed-v0"
    recording = Recording.new(folder, {"kind": RUN, "worker": "toy", "env_id": env_id, "settings": settings or {}})
    numbers = iter(range(10**9))
    with closing(StepRecorder(folder)) as recorder:
        lane, playing = recorder.lane(actor="policy"), made(env) if isinstance(env, str) else env
        for seed in seeds:
            observation, _ = playing.reset(seed=seed)
            hand = np.random.default_rng(seed)
            lane.begin_episode(seed)
            for _ in range(most_steps):
                before, action = copy.deepcopy(observation), _drawn(playing.action_space, hand)
                observation, reward, terminated, truncated, _ = playing.step(action)
                step = {"observation": before, "action": action, "reward": reward}
                step |= {"terminated": bool(terminated), "truncated": bool(truncated)}
                if terminated or truncated:
                    step["final_observation"] = observation
                if (change := (changes or {}).get(next(numbers))) is not None:
                    change(step)
                lane.append(**step)
                if terminated or truncated:
                    break
        if isinstance(env, str):
            playing.close()
    return recording


def _drawn(space: gym.Space[Any], hand: np.random.Generator) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        return int(hand.integers(space.n)) + int(space.start)
    assert isinstance(space, gym.spaces.Box)
    return hand.uniform(space.low, space.high).astype(space.dtype)


def episode(recording: Recording, number: int = 0) -> RecordedEpisode:
    (found,) = read_episodes(recording.chunks(number), number)
    return found


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The process that replays, for the toy worker."""
    command = [sys.executable, "-m", "mosaic_worker.replay", "--recording", str(folder), *words]
    variables = {**os.environ, **ON_THE_PATH, PACKAGE_VARIABLE: str(TOY_WORKER)}
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
