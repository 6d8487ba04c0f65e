"""Datasets of Pendulum-v1 for the benchmark of offline learning: a policy of SAC's, the half-trained one, chance, their
mixture, and what SAC saw while it learned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
from numpy.typing import NDArray

from cleanrl_worker.config import PACKAGE
from mosaic_protocol.datasets import DATA, DatasetManifest, References, file_sha256
from mosaic_protocol.datasets.manifest import MANIFEST_VERSION, write_manifest
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.policies.acting import load_acting
from mosaic_worker.state.checkpoints import list_checkpoints, load

ENV_ID = "Pendulum-v1"
ROWS, STEPS, EPISODE = 20_000, 8_000, 200
Columns = dict[str, NDArray[Any]]
Choose = Callable[[NDArray[Any], np.random.Generator], NDArray[Any]]


def make_sets(home: Path) -> None:
    """Write the sets ``pendulum-{expert,medium,random,mix,replay}`` below a data root; those that are there stay."""
    paths = MosaicPaths(home)
    if paths.dataset("pendulum-replay").exists():
        return
    half, last = sac_trained(home / "sac", ENV_ID, STEPS)
    random = np.random.default_rng(0)
    space: Any = gym.make(ENV_ID).action_space
    players: dict[str, Choose] = {
        "expert": _sampled(last),
        "medium": _sampled(half),
        "random": lambda _, draw: draw.uniform(space.low, space.high).astype(np.float32),
    }
    played = {name: _played(choose, ROWS, random) for name, choose in players.items()}
    scores = {name: float(_returns(columns).mean()) for name, columns in played.items()}
    references = References(random=scores["random"], expert=_score_of(last), whose="mosaic", env_id=ENV_ID)
    parts = _first(played["random"], int(0.8 * ROWS)), _first(played["expert"], int(0.2 * ROWS))
    played["mix"] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for name, columns in played.items():
        _write(paths, f"pendulum-{name}", columns, references)
    _write(paths, "pendulum-replay", _replayed(last), references)


def sac_trained(folder: Path, env_id: str, steps: int) -> tuple[Path, Path]:
    """SAC's checkpoints in the middle and at the end of its training."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["--env-id", env_id, "--total-timesteps", str(steps), "--learning-starts", "1000"]
    words += ["--checkpoint-every", str(steps // 2), "--buffer-size", str(steps), "--seed", "1"]
    script = PACKAGE / "cleanrl" / "sac_continuous_action.py"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    subprocess.run([sys.executable, str(script), *words], cwd=folder, env=environment, check=True, capture_output=True)
    (run,) = (folder / "runs").iterdir()
    half, last = list_checkpoints(run / "checkpoints")[-2:]
    return half, last


def _sampled(checkpoint: Path) -> Choose:
    policy = load_acting(checkpoint, PACKAGE).policy
    return lambda observation, draw: policy.act(observation[None], deterministic=False, random=draw)[0]


def _score_of(checkpoint: Path, episodes: int = 50) -> float:
    policy = load_acting(checkpoint, PACKAGE).policy
    best: Choose = lambda observation, draw: policy.act(observation[None], deterministic=True, random=draw)[0]  # noqa: E731
    return float(_returns(_played(best, episodes * EPISODE, np.random.default_rng(1))).mean())


def _played(choose: Choose, rows: int, draw: np.random.Generator) -> Columns:
    env = gym.make(ENV_ID)
    found: dict[str, list[Any]] = {name: [] for name in ("observations", "actions", "rewards", "next_observations")}
    ends: list[bool] = []
    while len(ends) < rows:
        observation, _ = env.reset(seed=int(draw.integers(2**31)))
        over = False
        while not over:
            action = choose(observation, draw)
            following, reward, _, over, _ = env.step(action)
            for name, value in zip(found, (observation, action, reward, following), strict=True):
                found[name].append(np.array(value, np.float32))
            ends.append(over)
            observation = following
    columns: Columns = {name: np.stack(values) for name, values in found.items()}
    return columns | {"terminals": np.zeros(len(ends), bool), "timeouts": np.array(ends)}


def _replayed(checkpoint: Path) -> Columns:
    """The replay buffer of SAC's last checkpoint."""
    rows = load(checkpoint).array("replay.kept")
    ends = np.arange(1, len(rows) + 1) % EPISODE == 0
    return {
        "observations": rows[:, :3],
        "actions": rows[:, 3:4],
        "next_observations": rows[:, 4:7],
        "rewards": rows[:, 7],
        "terminals": np.zeros(len(rows), bool),
        "timeouts": ends,
    }


def _returns(columns: Columns) -> NDArray[Any]:
    return columns["rewards"].reshape(-1, EPISODE).sum(axis=1)


def _first(columns: Columns, rows: int) -> Columns:
    return {name: values[:rows] for name, values in columns.items()}


def _write(paths: MosaicPaths, name: str, columns: Columns, references: References) -> None:
    folder = paths.dataset(name)
    folder.mkdir(parents=True)
    with h5py.File(folder / DATA, "w") as data:
        for column, values in columns.items():
            data.create_dataset(column, data=values)
    env = gym.make(ENV_ID)
    spaces = (_told(space) for space in (env.observation_space, env.action_space))
    observation, action = spaces
    steps = len(columns["rewards"])
    manifest = DatasetManifest(
        v=MANIFEST_VERSION,
        name=name,
        layout="d4rl",
        created_at=time.time(),
        sha256=file_sha256(folder / DATA),
        bytes=(folder / DATA).stat().st_size,
        episodes=steps // EPISODE,
        steps=steps,
        returns={"mean": float(_returns(columns).mean())},
        actors={},
        left_out={},
        source={"kind": "benchmark"},
        env_id=ENV_ID,
        observation_space=observation,
        action_space=action,
        references=references,
    )
    write_manifest(folder, manifest)


def _told(space: Any) -> str:
    ends = {"low": space.low.tolist(), "high": space.high.tolist()}
    return json.dumps({"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **ends})


if __name__ == "__main__":
    make_sets(Path(sys.argv[1]))
