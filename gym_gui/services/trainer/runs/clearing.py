"""What follows when the leading process of a run is gone: end what it left behind, take over what it said."""

from __future__ import annotations

import asyncio
import logging
import time

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.execution.executor import Executor, WorkerHandle
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.telemetry.hub import TelemetryHub

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05


class RunClearing:
    """Belongs to the daemon's event loop. Every method may be repeated."""

    def __init__(self, hub: TelemetryHub, executor: Executor) -> None:
        self._hub, self._executor = hub, executor

    async def end_survivors(self, handle: WorkerHandle, patience: float) -> None:
        """End what outlived the leader. A script that lost its supervisor first gets the time for a last checkpoint."""
        deadline = time.monotonic() + patience
        left = await self._executor.survivors(handle)
        while left and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            left = await self._executor.survivors(handle)
        if left:
            log_event(logger, codes.LOG_RUN_SWEPT, run_id=handle.run_id, pids=left)
            await self._executor.kill_all(handle)

    async def take_over_outbox(self, run_id: str, *, begun: bool, patience: float = 0.0) -> str:
        """Store what the worker journalled and did not get to send. A sentence when that was not possible because the
        run's folder was away for longer than the patience; it can be repeated when the folder is back."""
        error = await self._hub.drain(run_id, self._executor, begun=begun, patience=patience)
        if error is None:
            return ""
        where = f": {error.filename}" if error.filename else ""
        return f"what it said last is not read yet ({error.strerror or error}{where}): it is when the folder is back"

    async def last_error_line(self, run_id: str) -> str:
        return await self._executor.last_error_line(run_id)

    async def bound_logs(self, run_id: str, limit: int) -> None:
        """Rotate what was printed since the last look of housekeeping, which looks after runs that are not over."""
        try:
            await self._executor.rotate_logs(run_id, limit)
        except OSError as error:
            reason = f"the logs of run {run_id} cannot be rotated: {error}"
            log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, run_id=run_id, reason=reason)

    async def close_manifest(self, run: RunRecord) -> None:
        """The manifest of a run that is over tells how it ended, also when its worker could not."""
        try:
            await self._executor.write_ending(run.run_id, run.state, run.outcome or "", run.reason)
        except OSError as error:
            log_event(logger, codes.LOG_STORE_FULL, run_id=run.run_id, reason=str(error))
