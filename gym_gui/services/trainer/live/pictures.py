"""Pictures of sessions, packed to be sent: read off the event loop, and once for all who watch the same session."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import zstandard

from gym_gui.services.trainer.telemetry.watching import SharedReads
from mosaic_protocol.live.frames import newest_of

MOST_PICTURE_BYTES = 12 * 1024 * 1024
"""Of one picture, and of all in one message, before they are compressed: 2560x1440 pixels fit."""
_THREADS = 2
"""Of their own: pictures wait for each other, not the databases for pictures."""
_MOST_KEPT_BYTES = 16 * 1024 * 1024
_LEVEL = 1
"""What a session draws is mostly flat: 600x400 pixels of CarRacing-v3 shrink from 720 kB to 14 kB in 0.6 ms, the
256x256 of FrozenLake-v1 from 197 kB to 0.9 kB in 0.1 ms. Noise costs 0.3 ms and does not grow."""


@dataclass(frozen=True)
class PackedPicture:
    number: int
    width: int
    height: int
    zstd_pixels: bytes

    @property
    def raw_bytes(self) -> int:
        return self.width * self.height * 3


class SharedPictures:
    """Belongs to one event loop. Keeps the newest picture of each file that was looked at lately."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="live-pictures")
        self._reads = SharedReads()
        self._kept: dict[str, PackedPicture] = {}

    async def newer(self, path: str, after: int) -> PackedPicture | None:
        """The newest picture of a file with a number above ``after``; None when there is none.

        Raises :class:`~mosaic_protocol.live.frames.FramesError` for a file that is none of a session of this user.
        """
        for _ in range(2):  # a look that somebody else had begun may have been too early
            found = await self._reads.get(path, lambda: self._look(path))
            if found is not None and found.number > after:
                return found
        return None

    def forget(self) -> None:
        """Nobody watches any more."""
        self._kept.clear()

    async def _look(self, path: str) -> PackedPicture | None:
        kept = self._kept.pop(path, None)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _packed, path, kept)
        if found is not None:
            self._kept[path] = found
            while len(self._kept) > 1 and sum(len(one.zstd_pixels) for one in self._kept.values()) > _MOST_KEPT_BYTES:
                self._kept.pop(next(iter(self._kept)))
        return found


def _packed(path: str, kept: PackedPicture | None) -> PackedPicture | None:
    """The newest picture of a file, which may be the one that is kept. In a thread."""
    frame = newest_of(Path(path), kept.number if kept is not None else 0, MOST_PICTURE_BYTES)
    if frame is None or not frame.pixels:
        return kept
    pixels = zstandard.ZstdCompressor(level=_LEVEL).compress(frame.pixels)
    return PackedPicture(frame.number, frame.width, frame.height, pixels)
