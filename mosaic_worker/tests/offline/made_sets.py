"""Datasets for tests, written as MOSAIC's own commands write them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.datasets import DATA, DatasetManifest, file_sha256
from mosaic_protocol.datasets.manifest import MANIFEST_VERSION, write_manifest
from mosaic_protocol.paths import MosaicPaths


def box(width: int) -> str:
    ends = {"low": [-1e30] * width, "high": [1e30] * width}
    return json.dumps({"type": "Box", "dtype": "float32", "shape": [width], **ends})


def discrete(count: int) -> str:
    return json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": count})


def columns(rows: int, *, width: int = 3, actions: int = 2, seed: int = 0, last: int = 50) -> dict[str, NDArray[Any]]:
    """Flat columns with terminations and timeouts in them."""
    draw = np.random.default_rng(seed)
    ends = draw.random(rows) < 1 / last
    by_time = draw.random(rows) < 0.5
    return {
        "observations": draw.normal(size=(rows, width)).astype(np.float32),
        "actions": draw.uniform(-1, 1, (rows, actions)).astype(np.float32),
        "rewards": draw.normal(size=rows).astype(np.float32),
        "terminals": ends & ~by_time,
        "timeouts": ends & by_time,
    }


def write_flat(file: Path, found: dict[str, NDArray[Any]], **options: Any) -> None:
    with h5py.File(file, "w") as data:
        for name, values in found.items():
            data.create_dataset(name, data=values, **options)


def write_episodes(file: Path, episodes: list[dict[str, NDArray[Any]]]) -> None:
    with h5py.File(file, "w") as data:
        for number, episode in enumerate(episodes):
            for name, values in episode.items():
                data.create_dataset(f"episode_{number}/{name}", data=values)


def describe(folder: Path, layout: str, episodes: int, steps: int, **more: Any) -> None:
    told: dict[str, Any] = {"observation_space": box(3), "action_space": box(2), "env_id": "Toy-v0"}
    told |= {"returns": {}, "actors": {}, "left_out": {}, "source": {}}
    about: dict[str, Any] = {"v": MANIFEST_VERSION, "created_at": time.time(), "layout": layout}
    about |= {"sha256": file_sha256(folder / DATA), "bytes": (folder / DATA).stat().st_size}
    write_manifest(folder, DatasetManifest(**about, episodes=episodes, steps=steps, name=folder.name, **told | more))


def flat_set(paths: MosaicPaths, name: str, found: dict[str, NDArray[Any]], **more: Any) -> Path:
    folder = paths.dataset(name)
    folder.mkdir(parents=True)
    write_flat(folder / DATA, found)
    ends = found["terminals"] | found["timeouts"]
    ends[-1:] = True
    describe(folder, "d4rl", int(ends.sum()), len(ends), **more)
    return folder


def episode_set(paths: MosaicPaths, name: str, episodes: list[dict[str, NDArray[Any]]], **more: Any) -> Path:
    folder = paths.dataset(name)
    folder.mkdir(parents=True)
    write_episodes(folder / DATA, episodes)
    describe(folder, "episodes", len(episodes), sum(len(one["rewards"]) for one in episodes), **more)
    return folder


def episode(length: int, *, terminated: bool, width: int = 3, seed: int = 0) -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(seed)
    last = np.arange(length) == length - 1
    return {
        "observations": draw.normal(size=(length + 1, width)).astype(np.float32),
        "actions": draw.uniform(-1, 1, (length, 2)).astype(np.float32),
        "rewards": draw.normal(size=length),
        "terminations": last & terminated,
        "truncations": last & (not terminated),
    }
