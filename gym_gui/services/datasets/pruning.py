"""Removing datasets that nobody needs any more, and keeping those that somebody does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gym_gui.services.checkpoints.registry import TrainingRegistry
from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest
from mosaic_protocol.datasets import DatasetEntry, DatasetsError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.states import RunState
from mosaic_protocol.whole_files import draft_of, remove_left_drafts

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient

_ALIVE = tuple(state.value for state in RunState if state is not RunState.TERM)
_MOST_NAMED = 3


@dataclass(frozen=True)
class Use:
    """Who needs a dataset."""

    runs: tuple[str, ...]
    """Runs that wait or go on."""
    checkpoints: tuple[str, ...]
    """Checkpoints that learned from it, and could not go on without it."""

    def __str__(self) -> str:
        parts = [(self.runs, "run"), (self.checkpoints, "checkpoint")]
        return " and ".join(_listed(names, word) for names, word in parts if names)

    def __bool__(self) -> bool:
        return bool(self.runs or self.checkpoints)


def uses(entry: DatasetEntry, client: TrainerClient | None, paths: MosaicPaths) -> Use:
    """Who uses it. Without a client no run is known. Raises TrainerError."""
    return Use(_runs(entry, client), _checkpoints(entry, paths))


def remove(entry: DatasetEntry) -> None:
    """Take it off the disk: it is gone with the first step, whatever happens to the rest. Raises DatasetsError."""
    aside = draft_of(entry.folder)  # what a killed command leaves of it goes with the next one
    try:
        remove_left_drafts(entry.folder)
        entry.folder.rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        raise DatasetsError(f"{entry.folder} cannot be removed: {error.strerror or error}") from error


def _runs(entry: DatasetEntry, client: TrainerClient | None) -> tuple[str, ...]:
    if client is None:
        return ()
    found = client.runs(size=50, states=_ALIVE, where=f"dataset={entry.name}").runs
    return tuple(run.name or run.run_id for run in found)


def _checkpoints(entry: DatasetEntry, paths: MosaicPaths) -> tuple[str, ...]:
    found = []
    for checkpoint in TrainingRegistry(paths).entries():
        try:
            manifest = read_manifest(checkpoint.path)
        except CheckpointError:
            continue
        told = getattr(manifest, "offline_dataset", None) or manifest.lineage.get("offline_dataset")
        if isinstance(told, dict) and told.get("name") == entry.name:
            found.append(checkpoint.id)
    return tuple(found)


def _listed(names: Sequence[str], word: str) -> str:
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    return f"{len(names)} {word}{'s' if len(names) != 1 else ''} ({shown})"
