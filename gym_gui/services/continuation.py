"""A run that goes on from another one's newest checkpoint: its config, with its lineage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_words import called
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.states import Outcome

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


class CannotContinueError(Exception):
    """A run cannot go on; ``str()`` is a sentence that says why."""


def continued(run: pb.Run) -> dict[str, Any]:
    """The config of the run that goes on from a run that is over. Raises :class:`CannotContinueError` when none can.

    Reads the run's manifest and the workers' ones: not for a thread that must not wait.
    """
    if run.outcome == Outcome.COMPLETED:
        raise _refusal(run, f"it completed: {_instead(run)}")
    _require_capability(run)
    checkpoint = _newest_checkpoint(run)
    config: dict[str, Any] = json.loads(run.config_json)
    worker = config["metadata"]["worker"]["config"]
    params = worker.setdefault("extras", {}).setdefault("algo_params", {})
    params["resume"] = str(Path(run.run_dir) / checkpoint)
    config["metadata"]["parent"] = {"run_id": run.run_id, "checkpoint": checkpoint}
    return config


def _instead(run: pb.Run) -> str:
    return "start a new run" + (", or give this one's checkpoint to --warm-start" if _checkpoints(run) else "")


def _checkpoints(run: pb.Run) -> list[Any]:
    """As the run's manifest names them; the names sort by step."""
    return read_manifest(RunPaths(Path(run.run_dir))).get("checkpoints") or []


def _newest_checkpoint(run: pb.Run) -> str:
    found = _checkpoints(run)
    if not found:
        raise _refusal(run, "it left no checkpoint: start it anew")
    return str(found[-1])


def _require_capability(run: pb.Run) -> None:
    from mosaic_protocol.worker_manifest import discover

    manifest = discover().workers.get(run.worker_type)
    if manifest is None or not manifest.capabilities.resume:
        raise _refusal(run, f"its worker {run.worker_type!r} does not offer it")


def _refusal(run: pb.Run, why: str) -> CannotContinueError:
    return CannotContinueError(f"{called(run)} cannot go on: {why}")


def anew(run: pb.Run) -> dict[str, Any]:
    """The config of a run like this one that begins from the beginning: without its lineage."""
    config: dict[str, Any] = json.loads(run.config_json)
    metadata = config.get("metadata", {})
    metadata.pop("parent", None)
    extras = metadata.get("worker", {}).get("config", {}).get("extras")
    params = extras.get("algo_params") if isinstance(extras, dict) else None
    if isinstance(params, dict):
        params.pop("resume", None)
    return config
