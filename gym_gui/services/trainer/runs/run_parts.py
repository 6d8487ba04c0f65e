"""Removing parts of a run that is over: videos, logs, event files, recorded steps, checkpoints between the others."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from gym_gui.services.trainer.errors import RefusedError, WorldError, WrongStateError
from gym_gui.services.trainer.runs.deletion import RunDeletion, size_of
from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.mounts import mounts_within
from mosaic_protocol.checkpoint_manifest import best_of, list_checkpoints
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import refresh_manifest
from mosaic_protocol.suggest import did_you_mean

STEPS = "steps"
FILES = ("logs", "videos", "events")
_FEWEST_STEPS = 1
"""The steps that share a chunk with the last one stay: the store has to know where the run ended."""
_GONE = ".gone"


class RunParts:
    """What a run keeps is as it was, and the run stays what it is: listed, compared, resumed from its newest
    checkpoint. Belongs to one event loop; files are removed in a thread."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion) -> None:
        self._orchestrator, self._deletion = orchestrator, deletion
        self._paths, self._registry = orchestrator.paths, orchestrator.registry

    async def remove(self, run: RunRecord, parts: Sequence[str], checkpoints: Sequence[str]) -> int:
        """How many bytes of files that freed. Refused whole for the first thing that may not go; a crash in the middle
        leaves some of what was named, and the same call removes that."""
        for part in parts:
            if part not in (STEPS, *FILES):
                raise RefusedError(f"runs have no part {part[:60]!r}{did_you_mean(part, (STEPS, *FILES))}")
        removing = partial(self._remove, parts=sorted(set(parts)), checkpoints=sorted(set(checkpoints)))
        return await self._deletion.alone(run, "made smaller", removing)

    async def _remove(self, run: RunRecord, parts: Sequence[str], checkpoints: Sequence[str]) -> int:
        if not run.is_over or run.deleted_at or run.journal_unread:
            why = "in the trash" if run.deleted_at else "not over" if not run.is_over else "not read to its end"
            raise WrongStateError(f"run {run.short} is {why}: nothing of it can be removed now")
        try:
            freed = await asyncio.to_thread(self._remove_files, run, parts, checkpoints)
        except OSError as error:
            raise WorldError(
                f"not everything of run {run.short} could be removed: {error.strerror} ({error.filename})"
            ) from error
        if STEPS in parts:
            await self._orchestrator.upkeep.trim(run.run_id, _FEWEST_STEPS)
            self._deletion.give_space_back()
        note = Transition(run.state, run.state, "Made smaller", ", ".join([*parts, *checkpoints])[:500])
        await asyncio.wrap_future(self._registry.save(run, [note]))
        return freed

    def _remove_files(self, run: RunRecord, parts: Sequence[str], checkpoints: Sequence[str]) -> int:
        """Links are removed, never followed."""
        its = self._paths.run(run.run_id)
        spare = self._spare(run, its, checkpoints) if checkpoints else []
        places = {"logs": self._paths.run_logs(run.run_id), "videos": its.videos, "events": its.tensorboard}
        folders = [places[part] for part in parts if part in places]
        for folder in (*folders, *spare):
            if points := mounts_within(folder):
                raise WrongStateError(f"something is mounted at {points[0]}, which is not the run's: unmount it first")
        freed = sum(size_of(folder) for folder in (*folders, *spare))
        for folder in folders:
            _remove_tree(folder)
        for checkpoint in spare:  # whole or absent: renamed to what no reader takes for a checkpoint, then emptied
            checkpoint.rename(checkpoint.with_name(f".{checkpoint.name}{_GONE}"))
        for left in its.checkpoints.glob(f".step-*{_GONE}"):
            _remove_tree(left)
        if its.directory.is_dir():
            with suppress(OSError):  # it lists what is there, and is written again with the next change
                refresh_manifest(its)
        return freed

    def _spare(self, run: RunRecord, its: RunPaths, names: Sequence[str]) -> list[Path]:
        """Checkpoints that are there and may go; raises for one that has to stay."""
        there = list_checkpoints(its.checkpoints)
        kept = {path for path in (*there[-1:], best_of(there)) if path is not None}
        unfinished = [one.config_json for one in self._registry.unfinished()]
        chosen = [path for path in there if path.name in names]
        for path in chosen:
            if path in kept:
                raise RefusedError(f"{path.name} is the newest or the best checkpoint of run {run.short}: it stays")
            if any(f"{run.run_id}/{its.checkpoints.name}/{path.name}" in config for config in unfinished):
                raise RefusedError(f"a run that is not over begins from {path.name} of run {run.short}: it stays")
        return chosen


def _remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
