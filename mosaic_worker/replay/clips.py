"""Pictures out of a film that was recorded: any one of them, near ones fast."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_KEPT_BYTES = 128 * 2**20
_USUAL_RATE = 30.0


class ClipError(ValueError):
    """A film that cannot be shown; ``str()`` is one sentence."""


def clip_of(folder: Path, episode: int) -> Path | None:
    """The clip that was recorded of an episode beside its steps: its pictures are the beginning and one a step."""
    return next(iter(sorted(folder.glob(f"episode-{episode}-step-*.mp4"))), None)


class Clip:
    """Decodes on demand, in order, and keeps what was decoded. Belongs to one thread."""

    def __init__(self, file: Path) -> None:
        """Raises :class:`ClipError`."""
        try:
            import av
        except ImportError:
            command = "python -m mosaic_worker.extras --set video"
            raise ClipError(f"films are read with PyAV, which is not installed: `{command}` does that") from None
        self.file = file
        try:
            with av.open(str(file)) as container:
                stream = container.streams.video[0]
                self.fps = float(stream.average_rate or _USUAL_RATE)
                self._count = stream.frames or sum(1 for _ in container.decode(stream))
        except (av.error.FFmpegError, OSError, IndexError) as error:
            raise ClipError(f"{file.name} cannot be read: {getattr(error, 'strerror', '') or error}") from error
        if not self._count:
            raise ClipError(f"{file.name} has no pictures")
        self._kept: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()
        self._bytes = 0
        self._decoding: Iterator[Any] | None = None
        self._next = 0

    def __len__(self) -> int:
        return self._count

    def picture(self, place: int) -> NDArray[np.uint8]:
        """Raises :class:`ClipError` for one that cannot be decoded."""
        if place in self._kept:
            return self._kept[place]
        if self._decoding is None or place < self._next:
            self._decoding, self._next = self._decoded(), 0
        for picture in self._decoding:
            number, self._next = self._next, self._next + 1
            self._keep(number, picture)
            if number == place:
                return picture
        raise ClipError(f"{self.file.name} ends before picture {place}")

    def _decoded(self) -> Iterator[NDArray[np.uint8]]:
        import av

        try:
            with av.open(str(self.file)) as container:
                for frame in container.decode(video=0):
                    yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
        except (av.error.FFmpegError, OSError) as error:
            raise ClipError(f"{self.file.name} cannot be read: {error}") from error

    def _keep(self, number: int, picture: NDArray[np.uint8]) -> None:
        self._kept[number] = picture
        self._bytes += picture.nbytes
        while self._bytes > _MOST_KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
