"""What has to be done now and then: rotate logs, refresh the registry's copy, empty the trash, drop idle fork
servers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.background import log_bug
from gym_gui.services.trainer.deletion import RunDeletion
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.keep_aside import RecentCopy
from gym_gui.services.trainer.log_files import rotate_run_logs
from gym_gui.services.trainer.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.warm_pool import WarmPool

logger = logging.getLogger(__name__)

_ROTATE_EVERY = 5.0
_CLEAN_EVERY = 300.0


class Housekeeping:
    """Runs until cancelled. A chore that fails is told and tried again next time; it keeps no other chore from being
    done and never takes the daemon down."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion, warm_pool: WarmPool) -> None:
        self._orchestrator, self._deletion, self._warm_pool = orchestrator, deletion, warm_pool
        self._copy = RecentCopy(orchestrator.registry)
        self._told: dict[str, str] = {}
        """What is wrong with which chore, so that a trouble of days is told once and not every few seconds."""

    async def run(self) -> None:
        """Logs grow while a large trash is being emptied, so neither waits for the other."""
        await asyncio.gather(_for_ever(self._rotate_logs, _ROTATE_EVERY), _for_ever(self._clean, _CLEAN_EVERY))

    async def _rotate_logs(self) -> None:
        """Of every run that may have a process, also of one that is on its way out."""
        paths, limit = self._orchestrator.paths, self._orchestrator.settings.log_bytes
        for run_id in [live.run.run_id for live in self._orchestrator.tracked.values() if not live.run.is_queued]:
            chore = asyncio.to_thread(rotate_run_logs, paths.run_logs(run_id), limit)
            await self._try(f"rotate the logs of run {run_id}", chore)

    async def _clean(self) -> None:
        trash_hours = self._orchestrator.settings.trash_hours
        await self._try("copy the registry", asyncio.to_thread(self._copy.refresh))
        await self._try("empty the trash", self._deletion.purge_old(trash_hours))
        await self._try("end idle fork servers", self._warm_pool.drop_idle())

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
