"""Pictures of whole episodes, kept as films where a session is asked to: what a replay falls back on when the game does
not go the same way twice."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError
from mosaic_worker.recording.clip_encoder import ClipEncoder, ClipStart
from mosaic_worker.recording.video import LONGEST_SIDE

if TYPE_CHECKING:
    from play_worker.side import Side

_MOST_WAITING = 120
_WAIT_SECONDS = 0.002
_CLOSE_SECONDS = 20.0


def require_film() -> None:
    """Raises UsageError where films cannot be written."""
    if find_spec("av") is None:
        command = "python -m mosaic_worker.extras --set video"
        raise UsageError(f"--frames needs PyAV, which is not installed: `{command}` does that")


class Film:
    """One clip for each episode of one side: a picture of the beginning and one after each step. A film that lacks one
    is none: places in it are counted. What goes wrong costs pictures and nothing else. Belongs to the session's
    thread."""

    def __init__(self, folder: Path, *, wanted: bool = True) -> None:
        self._folder, self._wanted = folder, wanted
        self._encoder: ClipEncoder | None = None
        self._over = ""
        """Why nothing is filmed any more."""
        self._path: Path | None = None
        self._shape: tuple[int, ...] = ()

    def begin(self, side: Side, steps: int) -> None:
        """An episode began, after so many steps of the session."""
        self._end()
        if not self._wanted or self._over or side.stage.env.render_mode != "rgb_array":
            return
        self._encoder = self._encoder or ClipEncoder(self._give_up)
        self._path, self._shape = self._folder / f"episode-{side.episode}-step-{steps}.mp4", ()
        self._encoder.begin(ClipStart(self._path, max(1, round(side.stage.fps)), whole=True))
        self.add(side)

    def add(self, side: Side) -> None:
        """The picture of now. Waits for the encoder, because none may be left out."""
        if self._path is None or self._encoder is None or self._over:
            return
        try:
            frame = np.asarray(side.stage.env.render())
            if frame.dtype != np.uint8 or frame.ndim != 3 or (self._shape and frame.shape != self._shape):
                raise ValueError(f"a picture is {frame.dtype} {frame.shape}")
        except Exception as error:  # noqa: BLE001 - drawing is foreign code, and the game goes on without it
            self._give_up(f"{type(error).__name__}: {one_line(str(error))}")
            self.spoil()
            return
        self._shape = frame.shape
        stride = -(-max(frame.shape[:2]) // LONGEST_SIDE)
        self._encoder.add(np.array(frame[::stride, ::stride]))
        while self._encoder.waiting_frames > _MOST_WAITING and not self._over:
            time.sleep(_WAIT_SECONDS)

    def spoil(self) -> None:
        """The pictures of this episode are not those of its steps: some were undone, or could not be drawn."""
        if self._path is not None and self._encoder is not None:
            self._encoder.drop()
        self._path = None

    def close(self) -> None:
        self._end()
        if self._encoder is not None and not self._encoder.close(_CLOSE_SECONDS):
            print("mosaic: the last film was not written in time, and is left out", file=sys.stderr, flush=True)

    def _end(self) -> None:
        if self._path is not None and self._encoder is not None:
            self._encoder.end()
        self._path = None

    def _give_up(self, why: str) -> None:
        if not self._over:
            self._over = why
            print(f"mosaic: no more pictures are kept: {why}", file=sys.stderr, flush=True)
