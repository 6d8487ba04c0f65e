"""Deleting runs: to the trash first, from where they come back; for good when purged or when their time there is
over."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from dataclasses import replace
from pathlib import Path

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.errors import WorldError, WrongStateError
from gym_gui.services.trainer.lifecycle import Transition
from gym_gui.services.trainer.run_record import RunRecord
from gym_gui.services.trainer.run_registry import RunRegistry
from gym_gui.services.trainer.store import TelemetryStore
from mosaic_protocol.paths import MosaicPaths

logger = logging.getLogger(__name__)


class RunDeletion:
    """Only runs that are over can be deleted. Files stay where they are while a run is in the trash."""

    def __init__(self, paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore) -> None:
        self._paths, self._registry, self._store = paths, registry, store

    async def trash(self, run: RunRecord) -> RunRecord:
        _require_over(run)
        return await self._mark(run, time.time(), "Deleted")

    async def restore(self, run: RunRecord) -> RunRecord:
        if not run.deleted_at:
            raise WrongStateError(f"run {run.short} is not in the trash")
        return await self._mark(run, 0.0, "Restored")

    async def purge(self, run: RunRecord) -> int:
        """Remove everything a run owns; how many bytes of files that freed. The registry forgets it last, so that a
        crash in between leaves a run that can be purged again."""
        _require_over(run)
        try:
            freed = await asyncio.to_thread(self._remove_files, run.run_id)
        except OSError as error:
            raise WorldError(f"run {run.short} cannot be deleted: {error.strerror} ({error.filename})") from error
        await asyncio.wrap_future(self._store.forget(run.run_id))
        await asyncio.wrap_future(self._registry.remove(run.run_id))
        log_event(logger, codes.LOG_RUN_DELETED, run_id=run.run_id, bytes_freed=freed)
        return freed

    async def purge_old(self, hours: float) -> None:
        for run in self._registry.deleted_before(time.time() - hours * 3600):
            try:
                await self.purge(run)
            except WorldError as error:
                log_event(
                    logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, run_id=run.run_id, reason=str(error)
                )

    async def _mark(self, run: RunRecord, when: float, cause: str) -> RunRecord:
        note = Transition(run.state, run.state, cause)
        return await asyncio.wrap_future(self._registry.save(replace(run, deleted_at=when), [note]))

    def _remove_files(self, run_id: str) -> int:
        owned = [
            self._paths.run(run_id).directory,
            self._paths.run_logs(run_id),
            self._paths.run_config(run_id),
            self._paths.worker_config(run_id),
        ]
        freed = sum(_size_of(path) for path in owned)
        for path in owned:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return freed


def _require_over(run: RunRecord) -> None:
    if not run.is_over:
        raise WrongStateError(f"run {run.short} is not over ({run.state}): cancel it first with `mosaic cancel`")


def _size_of(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(entry.lstat().st_size for entry in path.rglob("*") if entry.is_file())
    return path.lstat().st_size if path.exists() else 0
