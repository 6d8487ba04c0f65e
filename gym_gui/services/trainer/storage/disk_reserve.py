"""A little disk space kept back, so that a daemon can open its databases on a disk that is full to the last byte."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

RESERVED_BYTES = 512 * 1024
SLICE_BYTES = 64 * 1024
"""What is given up at a time: enough for the index of a database. The rest is still there for the next attempt, should
somebody else take this slice first."""
ROOM_BEYOND = 4 * 1024 * 1024
"""How much more must be free before space is taken back: the disk is not full any more, rather than nearly."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class DiskReserve:
    """One file that shrinks in need and grows again later. Used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(self) -> None:
        """Take the space unless it is held, or there is hardly any."""
        with suppress(OSError):
            if self._held() < RESERVED_BYTES and has_room(self._path.parent, RESERVED_BYTES):
                allocate(self._path, RESERVED_BYTES)

    def release(self) -> bool:
        """Give a slice up; False when there was none."""
        try:
            held = self._held()
            if held:
                os.truncate(self._path, max(0, held - SLICE_BYTES))
        except OSError:
            return False
        return held > 0

    def _held(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0


def has_room(folder: Path, wanted: int) -> bool:
    """Whether so many bytes can be taken without making a full disk of one that is not. Raises OSError."""
    return shutil.disk_usage(folder).free >= wanted + ROOM_BEYOND


def allocate(path: Path, size: int) -> None:
    """Let a file have at least this size, with disk space behind every byte. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)
