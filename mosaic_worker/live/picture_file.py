"""Pictures for those who watch, in a file that grows with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.live.frames import FrameWriter


class PictureFile:
    """Belongs to one thread."""

    def __init__(self) -> None:
        self._frames: FrameWriter | None = None

    @property
    def path(self) -> str:
        """Where the pictures are; empty before the first one. It changes when a larger picture comes."""
        return str(self._frames.path) if self._frames is not None else ""

    def put(self, picture: Any) -> None:
        """Raises ValueError for what is no picture, and :class:`~mosaic_protocol.live.frames.FramesError`."""
        pixels = _in_colour(np.asarray(picture))
        if self._frames is None or pixels.nbytes > self._frames.frame_bytes:
            self.close()
            self._frames = FrameWriter(pixels.nbytes)
        self._frames.put(pixels.shape[1], pixels.shape[0], pixels.data)

    def close(self) -> None:
        if self._frames is not None:
            self._frames.close()
            self._frames = None


def _in_colour(picture: NDArray[Any]) -> NDArray[np.uint8]:
    if picture.dtype != np.uint8 or not picture.size:
        raise ValueError(f"a picture is an array of bytes, this one is {picture.dtype} {picture.shape}")
    if picture.ndim == 2:
        picture = np.stack((picture,) * 3, axis=2)
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"a picture has the shape (height, width, 3), this one has {picture.shape}")
    return np.ascontiguousarray(picture)
