"""Has the storage profile applied now and then, in a process of its own: reading it, walking every run and packing
gigabytes keep neither the event loop nor the memory of the daemon busy, and a process can be ended at any moment."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

import gym_gui
from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import last_line

logger = logging.getLogger(__name__)

_CHORE = "apply the storage profile"
_LOOK_SECONDS = 60.0
_EVERY_SECONDS = 6 * 3600.0
_MOST_SAID = 64 * 1024


class StorageChore:
    """Belongs to the daemon's event loop. Whether anything is done says the profile (``automatic``), which the process
    reads; without a file there is none, and no process."""

    def __init__(self, paths: MosaicPaths) -> None:
        self._paths = paths
        self._done_at, self._seen = float("-inf"), 0
        self._told = ""

    async def run(self) -> None:
        """Until cancelled, which ends the process under way. Not at once: a daemon that starts has better to do."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.is_due():
                await self.apply()

    def is_due(self) -> bool:
        """Every six hours, and soon after the file was changed."""
        try:
            changed = self._paths.storage_profiles.stat().st_mtime_ns
        except OSError:
            return False
        return changed != self._seen or time.monotonic() - self._done_at >= _EVERY_SECONDS

    async def apply(self) -> None:
        """Raises nothing: what goes wrong is logged, once for as long as it lasts, and tried again."""
        try:
            self._seen = self._paths.storage_profiles.stat().st_mtime_ns
            process = await self._started()
        except OSError as error:
            self._tell(str(error))
        else:
            self._tell(await _ended(process))
        self._done_at = time.monotonic()

    async def _started(self) -> Process:
        words = ("--home", str(self._paths.root), "storage", "apply", "--automatic")
        command = [sys.executable, "-m", "gym_gui.cli", *words]
        code = Path(gym_gui.__file__).parents[1]
        named = {**os.environ, "MOSAIC_HOME": str(self._paths.root)}
        return await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, cwd=code, env=named, start_new_session=True
        )

    def _tell(self, reason: str) -> None:
        if reason and reason != self._told:
            log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, chore=_CHORE, reason=reason)
        self._told = reason


async def _ended(process: Process) -> str:
    """Wait for it; why it failed, "" when it did not. Cancelled, it is killed: nothing of a run is lost by that."""
    said = b""
    try:
        assert process.stderr is not None
        while piece := await process.stderr.read(_MOST_SAID):
            said = (said + piece)[-_MOST_SAID:]
        return "" if await process.wait() == 0 else last_line(said.decode(errors="replace")) or "it failed"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
