"""Deleting runs: to the trash first, from where they come back; for good when purged or when their time there is
over."""

from __future__ import annotations

import asyncio
import logging
import shlex
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services import beginnings
from gym_gui.services.trainer.errors import LeavingError, RefusedError, WorldError, WrongStateError
from gym_gui.services.trainer.runs.background import BackgroundWork
from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.mounts import mounts_within
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from mosaic_protocol.paths import MosaicPaths

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PURGE_BEGUN = 1.0
"""When a run was deleted whose purge has begun: longer ago than any trash keeps, so that housekeeping ends what a crash
or an error cut short."""


def restorable_until(deleted_at: float, trash_hours: float) -> float:
    """Until when a run that was deleted then can be restored; 0 where it cannot, or was not deleted."""
    return deleted_at + trash_hours * 3600 if deleted_at > _PURGE_BEGUN else 0.0


class MountedError(WrongStateError):
    """Something is mounted inside a run that is to be removed."""


class RunDeletion:
    """Only runs that are over can be deleted. Files stay where they are while a run is in the trash.

    Belongs to one event loop. One thing at a time is done with a run, on what the registry holds at that moment, and it
    goes to its end also when the client who asked for it hangs up. After :meth:`close` nothing new is begun.
    """

    def __init__(self, paths: MosaicPaths, registry: RunRegistry, stores: Sequence[TelemetryStore | StepStore]) -> None:
        self._paths, self._registry, self._stores = paths, registry, stores
        self._work = BackgroundWork()
        self._in_hand: dict[str, str] = {}
        """Runs with which something is being done, and what."""
        self.purged: list[str] = []
        """Runs that were removed since the daemon started, in their order. The registry has no row any more that could
        tell those who watch."""

    async def trash(self, run: RunRecord) -> RunRecord:
        return await self.alone(run, "deleted", self._trash)

    async def restore(self, run: RunRecord) -> RunRecord:
        return await self.alone(run, "restored", self._restore)

    async def purge(self, run: RunRecord, *, only_from_trash: bool = False) -> int:
        """Remove everything a run owns; how many bytes of files that freed.

        The run is marked first and the registry forgets it last, so that a crash in between leaves a run in the trash
        that housekeeping purges again."""
        return await self.alone(run, "removed for good", self._purge_from_trash if only_from_trash else self._purge)

    async def purge_old(self, hours: float) -> None:
        """Empty the trash of what has been there for so long. A run that somebody restores meanwhile stays."""
        before = max(time.time() - hours * 3600, 2 * _PURGE_BEGUN)
        for run in self._registry.deleted_before(before):
            if self._work.closing:
                return
            try:
                await self.alone(run, "removed for good", lambda now: self._purge_if_old(now, before))
            except (MountedError, WorldError) as error:
                log_event(
                    logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, run_id=run.run_id, reason=str(error)
                )
            except RefusedError:
                continue  # somebody else has it in hand, or was faster

    @contextmanager
    def held(self, run: RunRecord, doing: str) -> Iterator[None]:
        """Keep a run from being deleted, restored or purged meanwhile. Raises like they do when one of them has it."""
        self._require_free(run)
        self._in_hand[run.run_id] = doing
        try:
            yield
        finally:
            del self._in_hand[run.run_id]

    async def close(self) -> None:
        """Let what was begun come to a point from which it can go on later."""
        await self._work.close()

    async def alone(self, run: RunRecord, doing: str, action: Callable[[RunRecord], Coroutine[Any, Any, T]]) -> T:
        """Do something with a run as it is now, while nobody does anything else with it."""
        self._require_free(run)
        self._in_hand[run.run_id] = doing
        return await self._work.to_the_end(self._to_its_end(run.run_id, action))

    def _require_free(self, run: RunRecord) -> None:
        self._require_staying(run)
        if other := self._in_hand.get(run.run_id):
            raise WrongStateError(
                f"run {run.short} is being {other} at this moment: `mosaic runs` tells when it is done"
            )

    def _require_staying(self, run: RunRecord) -> None:
        if self._work.closing:
            raise LeavingError(f"run {run.short} is left as it is: the daemon is leaving")

    async def _to_its_end(self, run_id: str, action: Callable[[RunRecord], Coroutine[Any, Any, T]]) -> T:
        try:
            return await action(self._registry.get(run_id))
        finally:
            del self._in_hand[run_id]

    async def _trash(self, run: RunRecord) -> RunRecord:
        _require_over(run)
        _require_whole(run)
        return await self._mark(run, time.time(), "Deleted")

    async def _restore(self, run: RunRecord) -> RunRecord:
        if not run.deleted_at:
            raise WrongStateError(f"run {run.short} is not in the trash")
        _require_whole(run)
        return await self._mark(run, 0.0, "Restored")

    async def _purge_if_old(self, run: RunRecord, before: float) -> None:
        if 0 < run.deleted_at < before:
            await self._purge(run)

    async def _purge_from_trash(self, run: RunRecord) -> int:
        if not run.deleted_at:
            raise WrongStateError(f"run {run.short} is not in the trash: somebody restored it")
        return await self._purge(run)

    async def _purge(self, run: RunRecord) -> int:
        _require_over(run)
        await asyncio.to_thread(self._require_nothing_mounted, run)
        if run.deleted_at != _PURGE_BEGUN:
            await self._mark(run, _PURGE_BEGUN, "Purging")
        try:
            freed = await asyncio.to_thread(self._remove_files, run)
        except OSError as error:
            raise WorldError(
                f"run {run.short} cannot be deleted: {error.strerror} ({error.filename}). "
                "It stays in the trash and is tried again; mend what is wrong, or purge it again."
            ) from error
        for store in self._stores:
            while await asyncio.wrap_future(store.forget(run.run_id)):
                self._require_staying(run)
        await asyncio.wrap_future(self._registry.remove(run.run_id))
        self.purged.append(run.run_id)
        log_event(logger, codes.LOG_RUN_DELETED, run_id=run.run_id, bytes_freed=freed)
        self.give_space_back()
        return freed

    def give_space_back(self) -> None:
        """Have the databases shrink after something was removed from them, in the background."""
        self._work.spawn(self._shrink_store())

    async def _shrink_store(self) -> None:
        """Nobody waits for it, and what is not done is done after the next purge."""
        try:
            for store in self._stores:
                while not self._work.closing and await asyncio.wrap_future(store.give_back()):
                    pass
        except WorldError as error:
            log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, reason=str(error))

    async def _mark(self, run: RunRecord, when: float, cause: str) -> RunRecord:
        note = Transition(run.state, run.state, cause)
        return await asyncio.wrap_future(self._registry.save(replace(run, deleted_at=when), [note]))

    def _require_nothing_mounted(self, run: RunRecord) -> None:
        """What is mounted inside a run is somebody's disk, not the run's: it is not emptied with it."""
        for path in self._owned(run):
            if points := mounts_within(path):
                raise MountedError(
                    f"run {run.short} cannot be removed for good: something is mounted at {points[0]}, and its files "
                    f"are not the run's. Unmount it (umount {shlex.quote(str(points[0]))}), then purge the run again."
                )

    def _owned(self, run: RunRecord) -> list[Path]:
        run_id = run.run_id
        unfinished = [one.config_json for one in self._registry.unfinished()]
        return [
            self._paths.run(run_id).directory,
            self._paths.run_logs(run_id),
            self._paths.run_config(run_id),
            self._paths.worker_config(run_id),
            *beginnings.removed_with(self._paths, run_id, run.config_json, unfinished),
        ]

    def _remove_files(self, run: RunRecord) -> int:
        """Links are removed, never followed."""
        owned = self._owned(run)
        freed = sum(size_of(path) for path in owned)
        for path in owned:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return freed


def _require_over(run: RunRecord) -> None:
    if not run.is_over:
        raise WrongStateError(f"run {run.short} is not over ({run.state}): cancel it first with `mosaic cancel`")


def _require_whole(run: RunRecord) -> None:
    if run.deleted_at == _PURGE_BEGUN:
        raise WrongStateError(
            f"run {run.short} was being removed for good and parts of it are gone: it cannot come back, "
            "and what is left of it goes when the trash is emptied next"
        )


def size_of(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(entry.lstat().st_size for entry in path.rglob("*") if entry.is_file())
    return path.lstat().st_size if path.exists() else 0
