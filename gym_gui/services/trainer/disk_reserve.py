"""A little disk space kept back, so that a run which filled the disk can still be stopped."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

RESERVED_BYTES = 1024 * 1024
"""Enough for hundreds of changes of state; a checkpoint would not notice it."""
_ROOM_BEYOND = 4 * RESERVED_BYTES
"""How much more must be free before the reserve is taken again: the disk is not full any more, rather than nearly."""


class DiskReserve:
    """One file that is given up in need and taken again later. Used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(self) -> None:
        """Take the space unless it is held, or there is hardly any."""
        with suppress(OSError):
            if self._path.exists() or shutil.disk_usage(self._path.parent).free < RESERVED_BYTES + _ROOM_BEYOND:
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
            finally:
                os.close(descriptor)

    def release(self) -> bool:
        """Give the space up; False when there was none."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
