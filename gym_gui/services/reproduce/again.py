"""The config of a run that repeats another one: the same settings, seed and script, and a label that says of which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gym_gui.services.continuation import todays_config
from gym_gui.services.run_labels import config_of
from gym_gui.services.run_request import LONGEST_STEM
from gym_gui.services.run_words import PLAY, called, is_over
from mosaic_protocol.imported_runs import IMPORTED

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.worker_manifest import WorkerManifest

REPRODUCED = "reproduced"
"""What the name of such a run ends with."""


class CannotReproduceError(Exception):
    """A run cannot be started again as it was; ``str()`` is a sentence that says why, and what to do instead."""

    def __init__(self, run: pb.Run, why: str) -> None:
        super().__init__(f"{called(run)} cannot be reproduced: {why}")


def reproduced_run(run: pb.Run) -> str:
    """The id of the run that this one repeats, "" when it repeats none."""
    metadata = config_of(run.config_json).get("metadata")
    found = metadata.get("reproduces") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def again(run: pb.Run, manifest: WorkerManifest | None) -> dict[str, Any]:
    """The config of the run that repeats one that is over. Raises :class:`CannotReproduceError`.

    Tags, group and sweep are not taken over: a comparison by them must not count one seed twice. What the run began
    from (a checkpoint to resume, or weights) stays: where it is gone, the check of the settings says so.
    """
    _require_repeatable(run, manifest)
    config = todays_config(run)
    metadata = config["metadata"]
    for label in ("sweep", "group", "tags"):
        metadata.pop(label, None)
    metadata["reproduces"] = run.run_id
    stem = run.name.removesuffix(f"-{REPRODUCED}")[: LONGEST_STEM - len(REPRODUCED)]
    return {**config, "run_name": f"{stem}-{REPRODUCED}"}


def _require_repeatable(run: pb.Run, manifest: WorkerManifest | None) -> None:
    if run.worker_type == IMPORTED:
        raise CannotReproduceError(run, "it was imported: its numbers are here, its script and settings are not")
    if run.algo == PLAY or (manifest is not None and manifest.capabilities.interactive):
        sentence = "it is a session that a person took part in; `mosaic replay` simulates its episodes again"
        raise CannotReproduceError(run, sentence)
    if not is_over(run):
        raise CannotReproduceError(run, "it is not over yet: wait for its end with `mosaic follow`")
    if not run.started_at:
        raise CannotReproduceError(run, "it never started: `mosaic show RUN --config | mosaic submit -` starts it")
    if manifest is None:
        raise CannotReproduceError(run, f"its worker {run.worker_type!r} was not found here: see `mosaic workers`")
