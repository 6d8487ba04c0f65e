"""What has to be done now and then: rotate logs, refresh the registry's copy, empty the trash, drop idle fork
servers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.deletion import RunDeletion
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.keep_aside import RecentCopy
from gym_gui.services.trainer.log_files import rotate_run_logs
from gym_gui.services.trainer.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.warm_pool import WarmPool

logger = logging.getLogger(__name__)

_ROTATE_EVERY = 5.0
_ROUNDS_PER_CLEANING = 60


class Housekeeping:
    """Runs until cancelled. A chore that fails is told and tried again next time; it never takes the daemon down."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion, warm_pool: WarmPool) -> None:
        self._orchestrator, self._deletion, self._warm_pool = orchestrator, deletion, warm_pool
        self._copy = RecentCopy(orchestrator.registry)

    async def run(self) -> None:
        rounds = 0
        while True:
            await self._round(cleaning=rounds % _ROUNDS_PER_CLEANING == 0)
            rounds += 1
            await asyncio.sleep(_ROTATE_EVERY)

    async def _round(self, *, cleaning: bool) -> None:
        try:
            await self._rotate_logs()
            if cleaning:
                await self._clean()
        except (OSError, sqlite3.Error, TrainerError) as error:
            log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, reason=str(error))

    async def _rotate_logs(self) -> None:
        limit = self._orchestrator.settings.log_bytes
        for run_id in list(self._orchestrator.queue.live):
            await asyncio.to_thread(rotate_run_logs, self._orchestrator.paths.run_logs(run_id), limit)

    async def _clean(self) -> None:
        await asyncio.to_thread(self._copy.refresh)
        await self._deletion.purge_old(self._orchestrator.settings.trash_hours)
        await self._warm_pool.drop_idle()
