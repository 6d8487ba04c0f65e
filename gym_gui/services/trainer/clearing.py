"""What follows when the leading process of a run is gone: end what it left behind, take over what it said."""

from __future__ import annotations

import asyncio
import logging
import time

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.executor import Executor, WorkerHandle
from gym_gui.services.trainer.hub import TelemetryHub
from gym_gui.services.trainer.log_files import stderr_summary
from gym_gui.services.trainer.run_record import RunRecord
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_manifest import refresh_manifest

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05


class RunClearing:
    """Belongs to the daemon's event loop. Every method may be repeated."""

    def __init__(self, paths: MosaicPaths, hub: TelemetryHub, executor: Executor) -> None:
        self._paths, self._hub, self._executor = paths, hub, executor

    async def end_survivors(self, handle: WorkerHandle, patience: float) -> None:
        """End what outlived the leader. A script that lost its supervisor first gets the time for a last checkpoint."""
        deadline = time.monotonic() + patience
        left = await self._executor.survivors(handle)
        while left and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            left = await self._executor.survivors(handle)
        if left:
            log_event(logger, codes.LOG_RUN_SWEPT, run_id=handle.run_id, pids=[process.pid for process in left])
            await self._executor.kill_all(handle)

    async def take_over_outbox(self, run_id: str) -> None:
        """Store what the worker journalled and did not get to send."""
        await self._hub.drain(run_id, self._paths.run(run_id).outbox)

    async def last_error_line(self, run_id: str) -> str:
        return await asyncio.to_thread(stderr_summary, self._paths.run_logs(run_id))

    async def close_manifest(self, run: RunRecord) -> None:
        """The manifest of a run that is over tells how it ended, also when its worker could not."""
        try:
            await asyncio.to_thread(self._write_ending, run)
        except OSError as error:
            log_event(logger, codes.LOG_STORE_FULL, run_id=run.run_id, reason=str(error))

    def _write_ending(self, run: RunRecord) -> None:
        folders = self._paths.run(run.run_id)
        if folders.directory.is_dir():
            refresh_manifest(folders, state=run.state, outcome=run.outcome, reason=run.reason)
