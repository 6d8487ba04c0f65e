"""Journals of runs that ended while their folder was away: read when it is back, also by a later daemon.

A run cannot wait for its folder for ever: its CPUs and its outcome would wait with it. So it ends with a mark
(:attr:`RunRecord.journal_unread`). A daemon that finds the mark reads the journal from where the store's cursor stands,
which makes it exactly once, and takes the mark away.
"""

from __future__ import annotations

import asyncio
import logging

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.trainer.errors import TrainerError, UnknownRunError
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.clearing import RunClearing
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0


class UnreadJournals:
    """Belongs to the daemon's event loop; runs until cancelled, which loses nothing."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion) -> None:
        self._orchestrator, self._deletion = orchestrator, deletion
        self._clearing = RunClearing(orchestrator.hub, orchestrator.executor)

    async def run(self) -> None:
        marked = self._orchestrator.unread_journals
        for run in await asyncio.to_thread(self._orchestrator.registry.with_unread_journal):
            marked[run.run_id] = run.short
        while True:
            for run_id in list(marked):
                if await self._is_settled(run_id):
                    del marked[run_id]
            await asyncio.sleep(_LOOK_SECONDS)

    async def _is_settled(self, run_id: str) -> bool:
        """Whether nothing is left to be read, be it because the run was purged."""
        try:
            ended = self._orchestrator.registry.get(run_id)
            with self._deletion.held(ended, "read to the end of its journal"):
                if await self._clearing.take_over_outbox(run_id, begun=True):
                    return False
                await self._orchestrator.bring_seeds(ended)  # they were away with it
                step = await asyncio.to_thread(self._orchestrator.hub.newest_step, run_id)
                run = await self._orchestrator.apply_surely(run_id, lc.JournalRead(step))
                await self._clearing.close_manifest(run)
        except UnknownRunError:
            return True
        except (OSError, TrainerError):  # the machine is short of something, or somebody has the run in hand
            return False
        except Exception as error:  # noqa: BLE001 - a bug that one journal shows must not leave the others unread
            log_bug(error, run_id=run_id)
            return False
        log_event(logger, codes.LOG_STORE_LATE_JOURNAL, run_id=run_id)
        self._orchestrator.upkeep.run_ended(run_id)
        return True
