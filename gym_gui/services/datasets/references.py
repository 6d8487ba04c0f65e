"""Random and expert scores, measured by playing on the environment of this machine: what normalised scores rest on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.use import tool
from gym_gui.services.worker_tools import ToolFailedError
from mosaic_protocol.datasets import DatasetEntry, DatasetsError, References
from mosaic_protocol.datasets.manifest import write_manifest
from mosaic_protocol.paths import MosaicPaths


def measure(
    entry: DatasetEntry,
    checkpoint: CheckpointEntry,
    paths: MosaicPaths,
    *,
    episodes: int = 100,
    seed: int = 7,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> References:
    """Play both and keep the means with the dataset. Raises DatasetsError, CheckpointsError, ToolError."""
    env_id = entry.manifest.env_id
    if env_id and checkpoint.env_id != env_id:
        raise DatasetsError(f"{checkpoint.id} is of {checkpoint.env_id}, the dataset {entry.name!r} of {env_id}")
    random = _mean(checkpoint, "random", episodes, seed, paths, progress)
    expert = _mean(checkpoint, "deterministic", episodes, seed, paths, progress)
    if expert <= random:
        raise DatasetsError(
            f"{checkpoint.id} is no expert: its mean return is {expert:g}, that of random actions {random:g}"
        )
    found = References(
        random=random,
        expert=expert,
        whose="mosaic",
        episodes=episodes,
        measured_at=time.time(),
        env_id=checkpoint.env_id,
        checkpoint={"id": checkpoint.id, "sha256": checkpoint.sha256, "algo": checkpoint.algo, "seed": seed},
    )
    try:
        write_manifest(entry.folder, msgspec.structs.replace(entry.manifest, references=found))
    except OSError as error:
        raise DatasetsError(f"{entry.folder} cannot be written: {error.strerror or error}") from error
    return found


def _mean(
    checkpoint: CheckpointEntry,
    mode: str,
    episodes: int,
    seed: int,
    paths: MosaicPaths,
    progress: Callable[[str, int, int], None],
) -> float:
    words = ["--episodes", str(episodes), "--seed", str(seed), "--mode", mode, "--parent", str(os.getpid())]
    result: dict[str, Any] = {}
    done = 0
    with tool("evaluate", checkpoint, paths, words) as running:
        for message in running.messages():
            if message.get("at") == "episode":
                done += 1
                progress(mode, done, episodes)
            elif message.get("at") == "result":
                result = message["results"].get(mode, {})
    if result.get("episodes") != episodes or result.get("mean") is None:
        raise ToolFailedError(f"{checkpoint.id} was not played to the end of {episodes} episodes")
    return float(result["mean"])
