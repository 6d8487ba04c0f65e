"""Encodes clips as mp4 (H.264, which every browser and player shows) in a thread of its own.

A clip is written under a temporary name and gets its own when it is whole.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]

SMALLEST_SIDE = 160
"""Frames with a shorter side are enlarged by a whole factor: the observation of a game is hardly visible otherwise."""

_LAST_PATIENCE = 1.0
_NICENESS = 10


@dataclass(frozen=True)
class ClipStart:
    """The next frames are those of this clip."""

    path: Path
    frames_per_second: int
    whole: bool = False
    """Keep it with all its frames or not at all; others may be cut short."""


_CLIP_END = object()
_CLIP_DROPPED = object()
_NO_MORE = object()


class ClipEncoder:
    """Takes clips frame by frame from one thread. No method but :meth:`close` waits, and none raises.

    ``on_failure`` is called once, in the encoder's thread, with the reason why no more clips can be written.
    """

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._given = self._taken = 0
        self._hurry = self._is_dropped = False
        self._thread = threading.Thread(target=self._work, name="clip-encoder", daemon=True)
        self._thread.start()

    @property
    def waiting_frames(self) -> int:
        """How far the encoder is behind."""
        return self._given - self._taken

    def begin(self, clip: ClipStart) -> None:
        self._queue.put(clip)

    def add(self, frame: Frame) -> None:
        """The encoder owns the frame from now on."""
        self._given += 1
        self._queue.put(frame)

    def end(self) -> None:
        self._queue.put(_CLIP_END)

    def drop(self) -> None:
        """Nothing is to be left of the clip that was begun last, and not ended yet."""
        self._queue.put(_CLIP_DROPPED)

    def close(self, patience: float) -> bool:
        """Write what is left. After ``patience`` seconds the clip in work is ended where it is, or dropped if it has to
        be whole, and False returned."""
        self._queue.put(_NO_MORE)
        self._thread.join(patience)
        if not self._thread.is_alive():
            return True
        self._hurry = True
        self._thread.join(_LAST_PATIENCE)
        return False

    def _work(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # training comes first
        try:
            while (item := self._queue.get()) is not _NO_MORE:
                if isinstance(item, ClipStart):
                    self._write(item)
        except Exception as error:  # noqa: BLE001 - a codec's errors are of many types, and none may end the training
            self._on_failure(" ".join(str(error).split()) or type(error).__name__)

    def _write(self, clip: ClipStart) -> None:
        draft = clip.path.with_name(f".{clip.path.name}.part")
        clip.path.parent.mkdir(parents=True, exist_ok=True)
        self._is_dropped = False
        try:
            if encode(draft, self._frames(clip), clip.frames_per_second) and not self._is_dropped:
                draft.replace(clip.path)
        finally:
            draft.unlink(missing_ok=True)

    def _frames(self, clip: ClipStart) -> Iterator[Frame]:
        while not self._hurry:
            item = self._queue.get()
            if item is _NO_MORE:
                self._queue.put(_NO_MORE)
                return
            if item is _CLIP_END or item is _CLIP_DROPPED:
                self._is_dropped = item is _CLIP_DROPPED
                return
            yield item
            self._taken += 1
        self._is_dropped = clip.whole


def encode(path: Path, frames: Iterator[Frame], frames_per_second: int) -> int:
    """Write frames of one size to a file; returns how many. Without any, no file is written."""
    import av

    first = next(frames, None)
    if first is None:
        return 0
    picture, count = shown(first), 1
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=frames_per_second, options={"preset": "veryfast", "crf": "23"})
        stream.height, stream.width = picture.shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(shown(frame), format="rgb24")))
            count += 1
        container.mux(stream.encode(None))
    return count


def shown(frame: Frame) -> Frame:
    """A frame as the codec takes it: three colours, sides of even length, large enough to see."""
    picture = frame if frame.ndim == 3 and frame.shape[2] == 3 else _in_colour(frame)
    factor = -(-SMALLEST_SIDE // min(picture.shape[:2]))
    if factor > 1:
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    odd_rows, odd_columns = picture.shape[0] % 2, picture.shape[1] % 2
    if odd_rows or odd_columns:
        picture = np.pad(picture, ((0, odd_rows), (0, odd_columns), (0, 0)), mode="edge")
    return np.ascontiguousarray(picture)


def _in_colour(frame: Frame) -> Frame:
    grey = frame if frame.ndim == 2 else frame[:, :, 0]
    return np.stack((grey, grey, grey), axis=2)
