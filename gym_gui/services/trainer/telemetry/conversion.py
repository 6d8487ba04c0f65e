"""Bringing a store of an earlier version to this version's layout while the daemon serves from it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.telemetry.store import TelemetryStore

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 5.0


class StoreConversion:
    """Belongs to the daemon's event loop. May be cancelled or killed at any moment: the next one goes on where the last
    slice ended."""

    def __init__(self, store: TelemetryStore) -> None:
        self._store = store

    async def run(self) -> None:
        """Until everything is converted. Batches of workers are stored between two slices, and a slice is followed by
        about as much rest as it took work."""
        if not await asyncio.to_thread(self._store.needs_conversion):
            return
        log_event(logger, codes.LOG_STORE_CONVERSION, said="begins")
        await self._slice_by_slice(self._store.convert_slice)
        await self._slice_by_slice(self._store.give_back)
        log_event(logger, codes.LOG_STORE_CONVERSION, said="is done")

    async def _slice_by_slice(self, next_slice: Callable[[], Future[bool]]) -> None:
        left, told = True, ""
        while left:
            began = time.monotonic()
            try:
                left = await asyncio.wrap_future(next_slice())
            except WorldError as error:
                if str(error) != told:
                    told = str(error)
                    log_event(logger, codes.LOG_STORE_CONVERSION, level=logging.WARNING, said="waits", reason=told)
                await asyncio.sleep(_WAIT_SECONDS)
            else:
                await asyncio.sleep(time.monotonic() - began)
