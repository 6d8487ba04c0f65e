"""What a run is to begin from, put in its place: checkpoints and recorded steps, found by the names people use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from gym_gui.services import kept_steps
from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import UnusableCheckpointError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import require_start
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.settings_spelling import respelt, start_of
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_protocol.worker_presets import with_preset


def placed(config: Mapping[str, Any], manifest: WorkerManifest, paths: MosaicPaths) -> dict[str, Any]:
    """A run config as it is submitted: with paths where it names checkpoints or recorded steps (the one that it begins
    from, and those that parameters of its algorithm name), and with the preset whose settings it has. Blocking. Raises
    CheckpointsError for a name that means no checkpoint, or one that the run cannot begin from, and ToolError for
    recorded steps that cannot be had."""
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
    resumes = start is not None and start[0] == "resume"  # such a run read its steps when it began
    for name in algorithm.recording_params if algorithm and not resumes else ():
        if isinstance(named := params.get(name), str) and named:
            params[name] = kept_steps.placed(f"--{name.replace('_', '-')}", named, paths)
    if params:
        settings["params"] = params
    return with_preset({**config, "metadata": {**metadata, "worker": {**worker, "config": settings}}}, manifest)


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
