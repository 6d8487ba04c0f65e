"""Where TensorBoard finds the event files of runs. Reads files: not for a thread that must not wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.run_labels import config_of, worker_settings
from gym_gui.services.run_words import is_over, short_id
from mosaic_protocol.imported_runs import source_of
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import has_event_file

if TYPE_CHECKING:
    from gym_gui.services.training_telemetry import TrainingTelemetryService
    from mosaic_protocol.proto import trainer_pb2 as pb


@dataclass
class Found:
    """The folder of each run by its name, and a sentence for each run that has none."""

    folders: dict[str, Path] = field(default_factory=dict)
    runs: dict[str, pb.Run] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def events_folder(run: pb.Run) -> Path | None:
    """Where a run's event files are, or those that it was imported from, if there are any; None without a folder."""
    source = source_of(worker_settings(config_of(run.config_json)))
    if source:
        return Path(source)
    return RunPaths(Path(run.run_dir)).tensorboard if run.run_dir else None


def folder_of(run: pb.Run) -> Path | None:
    """The event files that a run wrote, or that it was imported from; None where there are none."""
    folder = events_folder(run)
    return folder if folder is not None and has_event_file(folder) else None


def folders_of(runs: Iterable[pb.Run], service: TrainingTelemetryService) -> Found:
    """Those of several runs. Of one that wrote no event files and is over, its metrics are written as one: it has
    curves all the same. Raises ClientErrors and OSError."""
    found = Found()
    for run in runs:
        name = run.name if run.name not in found.folders else f"{run.name}-{short_id(run.run_id)}"
        folder = folder_of(run)
        if folder is None and is_over(run) and service.recent_metrics(run.run_id, 1):
            folder = service.export_to_tensorboard(run.run_id)
        if folder is None:
            yet = "" if is_over(run) else " yet"
            found.notes.append(f"{run.name} has written no TensorBoard data{yet}")
        else:
            found.folders[name], found.runs[name] = folder, run
    return found
