"""The checkpoint that a run is to begin from, put in its place: found by the name people use, and known to fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import UnusableCheckpointError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import require_start
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.settings_spelling import respelt, start_of
from mosaic_protocol.worker_manifest import WorkerManifest


def placed(config: Mapping[str, Any], manifest: WorkerManifest, paths: MosaicPaths) -> dict[str, Any]:
    """A run config with paths where it names checkpoints: that which it begins from, and those that parameters of its
    algorithm name. Raises CheckpointsError for a name that means none, or one that the run cannot begin from."""
    worker = config["metadata"]["worker"]
    settings = respelt(worker["config"])
    algorithm = manifest.algorithms.get(str(settings.get("algo") or ""))
    metadata = dict(config["metadata"])
    if (start := start_of(settings)) is not None:
        entry = _begun_from(start, settings, manifest, paths)
        settings["start"] = {"mode": start[0], "checkpoint": str(entry.path)}
        if start[0] == "resume" and entry.origin == "run":
            metadata.setdefault("parent", {"run_id": entry.run_id, "checkpoint": f"checkpoints/{entry.path.name}"})
    params = dict(settings.get("params") or {})
    for name in algorithm.checkpoint_params if algorithm else ():
        if isinstance(named := params.get(name), str) and named:
            params[name] = _file_or_checkpoint(named, paths)
    if params:
        settings["params"] = params
    return {**config, "metadata": {**metadata, "worker": {**worker, "config": settings}}}


def _begun_from(
    start: tuple[str, str], settings: Mapping[str, Any], manifest: WorkerManifest, paths: MosaicPaths
) -> CheckpointEntry:
    mode, named = start
    entry = TrainingRegistry(paths).find(named)
    env_id = str(settings.get("env_id") or entry.env_id)
    require_start(cast(Any, mode), entry, manifest.algorithm_of(settings), env_id, manifest.type)
    total = settings.get("total_timesteps")
    if mode == "resume" and isinstance(total, int) and total <= entry.step:
        raise UnusableCheckpointError(
            f"{entry.id} stands at step {entry.step:,} already: give more than that to --total-timesteps, which counts "
            "from the beginning"
        )
    return entry


def _file_or_checkpoint(named: str, paths: MosaicPaths) -> str:
    """A file that somebody else wrote will do as well as a checkpoint of a run."""
    path = Path(named).expanduser()
    return str(path.absolute() if path.exists() else TrainingRegistry(paths).find(named).path)
