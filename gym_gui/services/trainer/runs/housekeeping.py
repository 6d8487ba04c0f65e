"""What has to be done now and then: rotate logs, remove steps that a run does not keep, refresh the registry's copy,
empty the trash, drop idle fork servers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.storage.keep_aside import RecentCopy

logger = logging.getLogger(__name__)

_ROTATE_EVERY = 5.0
_TRIM_EVERY = 2.0
_CLEAN_EVERY = 300.0


class Housekeeping:
    """Runs until cancelled. A chore that fails is logged and tried again next time; it keeps no other chore from being
    done and never takes the daemon down."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion) -> None:
        self._orchestrator, self._deletion, self._executor = orchestrator, deletion, orchestrator.executor
        self._copy = RecentCopy(orchestrator.registry)
        self._told: dict[str, str] = {}
        """What is wrong with which chore, so that a lasting trouble is logged once and not every few seconds."""

    async def run(self) -> None:
        """Logs grow while a large trash is being emptied, so neither waits for the other."""
        await asyncio.gather(
            _for_ever(self._rotate_logs, _ROTATE_EVERY),
            _for_ever(self._trim_steps, _TRIM_EVERY),
            _for_ever(self._clean, _CLEAN_EVERY),
        )

    async def _rotate_logs(self) -> None:
        """Of every run that may have a process, also of one that is on its way out."""
        limit = self._orchestrator.settings.log_bytes
        for run_id in [live.run.run_id for live in self._orchestrator.tracked.values() if not live.run.is_queued]:
            await self._try(f"rotate the logs of run {run_id}", self._executor.rotate_logs(run_id, limit))

    async def _trim_steps(self) -> None:
        """Of every run that goes on; when it is over, its steps are compacted as well."""
        for live in list(self._orchestrator.tracked.values()):
            if not live.run.is_queued and (kept := self._orchestrator.kept_steps(live.run)):
                chore = f"remove old steps of run {live.run.run_id}"
                await self._try(chore, self._orchestrator.upkeep.trim(live.run.run_id, kept))

    async def _clean(self) -> None:
        trash_hours = self._orchestrator.settings.trash_hours
        await self._try("copy the registry", asyncio.to_thread(self._copy.refresh))
        await self._try("empty the trash", self._deletion.purge_old(trash_hours))
        await self._try("end idle fork servers", self._executor.drop_idle())

    async def _try(self, chore: str, work: Awaitable[None]) -> None:
        try:
            await work
        except (OSError, sqlite3.Error, TrainerError) as error:
            self._tell(chore, str(error))
        except Exception as error:  # noqa: BLE001 - a bug in one chore must not end the others
            log_bug(error)
        else:
            self._told.pop(chore, None)

    def _tell(self, chore: str, reason: str) -> None:
        if self._told.get(chore) != reason:
            log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, chore=chore, reason=reason)
        self._told[chore] = reason


async def _for_ever(chores: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        await chores()
        await asyncio.sleep(seconds)
