"""How fast a replay reaches any step of a long episode, and how fast it checks one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.report import Line, Section, Target
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import RUN, Recording
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.replay.simulation import Replay
from mosaic_worker.replay.snapshots import Snapshots

NAME = "replay_seek"
TITLE = "Replay"
METHOD = """\
One episode of 10,000 steps with drawn actions, recorded, then simulated again with a kept state every 100 steps.
Checking is the time of that first pass, comparison of every step included, by steps. A seek goes to a random step of
the episode; the slowest of 50 counts, in each round."""

ENVIRONMENTS = ("Pendulum-v1", "Swimmer-v5")
STEPS = 10_000


def run(*, quick: bool = False) -> Section:
    rounds = 1 if quick else 5
    lines = []
    for env_id in ENVIRONMENTS:
        measured = [_measured(env_id, seed) for seed in range(rounds)]
        seeks = [1e3 * slowest for _, slowest in measured]
        checks = [1e6 * seconds / STEPS for seconds, _ in measured]
        lines.append(Line(f"{env_id}: slowest seek in {STEPS:,} steps", seeks, "ms", Target("≤", 200.0)))
        lines.append(Line(f"{env_id}: simulating and checking a step", checks, "µs"))
    return Section(NAME, TITLE, METHOD, lines)


def _measured(env_id: str, seed: int) -> tuple[float, float]:
    """(seconds to check the episode, seconds of the slowest seek)"""

    def make() -> gym.Env[Any, Any]:
        return gym.make(env_id, max_episode_steps=STEPS)

    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        episode = _recorded(Path(folder), make, seed)
    with closing(Replay(episode, make, Snapshots())) as replay:
        began = time.perf_counter()
        for _ in replay.run():
            pass
        checked = time.perf_counter() - began
        assert replay.verified == len(episode) == STEPS, replay.difference
        seeks = []
        for place in np.random.default_rng(seed).integers(STEPS, size=50).tolist():
            began = time.perf_counter()
            replay.seek(place)
            seeks.append(time.perf_counter() - began)
        assert replay.difference is None and not replay.snapshots.why_not
    return checked, max(seeks)


def _recorded(folder: Path, make: Callable[[], gym.Env[Any, Any]], seed: int) -> RecordedEpisode:
    recording = Recording.new(folder, {"kind": RUN, "worker": "", "env_id": ""})
    hand = np.random.default_rng(seed)
    with closing(make()) as env, closing(StepRecorder(folder)) as recorder:
        lane = recorder.lane(actor="policy")
        observation, _ = env.reset(seed=seed)
        lane.begin_episode(seed)
        over = False
        while not over:
            action = hand.uniform(-1, 1, env.action_space.shape).astype(np.float32)
            before = observation
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            lane.append(before, action, reward, terminated, truncated, final_observation=observation if over else None)
    return next(iter(read_episodes(recording.chunks())))
