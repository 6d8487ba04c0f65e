"""A run that goes on from another one's newest checkpoint: its config, with its lineage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_words import called
from mosaic_protocol.imported_runs import IMPORTED
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.settings_spelling import respelt
from mosaic_protocol.states import Outcome

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


class CannotContinueError(Exception):
    """A run cannot go on; ``str()`` is a sentence that says why, ``why`` its last part alone."""

    def __init__(self, run: pb.Run, why: str) -> None:
        super().__init__(f"{called(run)} cannot go on: {why}")
        self.why = why


def continued(run: pb.Run) -> dict[str, Any]:
    """The config of the run that goes on from a run that is over. Raises :class:`CannotContinueError` when none can.

    Reads the run's manifest and the workers' ones: not for a thread that must not wait.
    """
    if run.worker_type == IMPORTED:
        raise CannotContinueError(run, "it was imported: its numbers are here, and neither its script nor a checkpoint")
    if run.outcome == Outcome.COMPLETED:
        raise CannotContinueError(run, f"it completed: {_instead(run)}")
    _require_capability(run)
    checkpoint = _newest_checkpoint(run)
    config = todays_config(run)
    worker = config["metadata"]["worker"]
    worker["config"]["start"] = {"mode": "resume", "checkpoint": str(Path(run.run_dir) / checkpoint)}
    config["metadata"]["parent"] = {"run_id": run.run_id, "checkpoint": checkpoint}
    return config


def todays_config(run: pb.Run) -> dict[str, Any]:
    """The run's config, its worker's settings in today's words: it may have been stored when there were others."""
    config: dict[str, Any] = json.loads(run.config_json)
    worker = config.get("metadata", {}).get("worker")
    if isinstance(worker, dict) and isinstance(worker.get("config"), dict):
        worker["config"] = respelt(worker["config"])
    config.get("metadata", {}).pop("reproduces", None)  # what comes of a repetition is none
    return config


def why_not_continued(run: pb.Run) -> str:
    """Why a run that is over cannot go on, "" when it can. Reads files, like :func:`continued`."""
    try:
        continued(run)
    except CannotContinueError as error:
        return error.why
    except (OSError, ValueError, KeyError, TypeError):
        return "its settings cannot be read"
    return ""


def _instead(run: pb.Run) -> str:
    """What a person can do, as far as the worker offers it."""
    from mosaic_protocol.worker_manifest import discover

    manifest = discover().workers.get(run.worker_type)
    offered = manifest.capabilities if manifest is not None and _checkpoints(run) else None
    ways = ["start a new run"]
    if offered is not None and offered.resume:
        ways.append("give its checkpoint to --resume with a higher --total-timesteps")
    if offered is not None and offered.warm_start:
        ways.append("give it to --warm-start" if offered.resume else "give its checkpoint to --warm-start")
    return ", or ".join(ways)


def _checkpoints(run: pb.Run) -> list[Any]:
    """As the run's manifest names them; the names sort by step."""
    return read_manifest(RunPaths(Path(run.run_dir))).get("checkpoints") or []


def _newest_checkpoint(run: pb.Run) -> str:
    found = [name for name in _checkpoints(run) if (Path(run.run_dir) / str(name)).is_dir()]
    if not found:
        raise CannotContinueError(run, "it left no checkpoint: start it again from the beginning")
    return str(found[-1])


def _require_capability(run: pb.Run) -> None:
    from mosaic_protocol.worker_manifest import discover

    found = discover()
    manifest = found.workers.get(run.worker_type)
    if manifest is None:
        why = f" ({found.problems[0]})" if found.problems else ""
        raise CannotContinueError(run, f"its worker {run.worker_type!r} was not found here{why}: see `mosaic workers`")
    if not manifest.capabilities.resume:
        raise CannotContinueError(run, f"its worker {run.worker_type!r} does not offer it")
    told = json.loads(run.capabilities_json or "{}")
    if isinstance(told, dict) and told.get("resume") is False:
        raise CannotContinueError(run, "its script cannot be resumed; its checkpoints can be given to --warm-start")


def duplicated(run: pb.Run) -> dict[str, Any]:
    """The config of a run like this one that begins from the beginning: without its lineage."""
    config = todays_config(run)
    metadata = config.get("metadata", {})
    metadata.pop("parent", None)
    metadata.pop("sweep", None)  # it is not one of those that the sweep made
    settings = metadata.get("worker", {}).get("config", {})
    if (settings.get("start") or {}).get("mode") == "resume":
        del settings["start"]
    return config


_WHAT_IS_TRAINED = ("algo", "env_id", "dataset", "seed")


def with_settings_of(run: pb.Run, other: pb.Run) -> dict[str, Any]:
    """The config of a run that trains what ``run`` does, with its seed, and has every other setting of ``other``. Both
    are of one worker."""
    config, settings = duplicated(run), duplicated(other)["metadata"]["worker"]["config"]
    own = config["metadata"]["worker"]["config"]
    kept = {name: own[name] for name in _WHAT_IS_TRAINED if name in own}
    lent = {name: value for name, value in settings.items() if name not in (*_WHAT_IS_TRAINED, "start")}
    config["metadata"]["worker"]["config"] = {**lent, **kept, **({"start": own["start"]} if "start" in own else {})}
    return config
