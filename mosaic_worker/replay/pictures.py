"""A replay as a film: mp4 for players, GIF for pages. Written under another name until it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_protocol.whole_files import drafted
from mosaic_worker.errors import UsageError
from mosaic_worker.recording.clip_encoder import Frame, encode, shown
from mosaic_worker.recording.frame_rate import whole_frames_a_second

FORMATS = (".mp4", ".gif")
_LONGEST_SIDE = {".mp4": 1024, ".gif": 480}
_FASTEST_GIF = 50
"""GIF counts in hundredths of a second, and browsers slow down what is faster."""


def require_format(file: Path) -> None:
    """Raises UsageError for a file whose kind cannot be written here."""
    if file.suffix.lower() not in FORMATS:
        raise UsageError(f"{file.name} has no known ending: an episode is exported as {' or '.join(FORMATS)}")
    try:
        import av  # noqa: F401
    except ImportError:
        command = "python -m mosaic_worker.extras --set video"
        raise UsageError(f"films are written with PyAV, which is not installed: `{command}` does that") from None


def write(file: Path, env: gym.Env[Any, Any], advance: Callable[[], bool]) -> int:
    """Draw the environment as it is and after each step that ``advance`` makes; how many frames were written.
    Raises UsageError."""
    rate = whole_frames_a_second(env.metadata)
    kind = file.suffix.lower()
    frames = _frames(env, advance, _LONGEST_SIDE[kind])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with drafted(file) as draft:
            return encode(draft, frames, rate) if kind == ".mp4" else encode_gif(draft, frames, min(rate, _FASTEST_GIF))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def encode_gif(path: Path, frames: Iterator[Frame], frames_per_second: int) -> int:
    """Write frames of one size as a GIF whose every picture has the colours that suit it best; returns how many."""
    import av

    first = next(frames, None)
    if first is None:
        return 0
    height, width = shown(first).shape[:2]
    graph, count = _palette_graph(width, height, frames_per_second), 0
    with av.open(str(path), "w", format="gif", options={"loop": "0"}) as container:
        stream = container.add_stream("gif", rate=frames_per_second)
        stream.height, stream.width, stream.pix_fmt = height, width, "pal8"
        for picture in _each(first, frames):
            frame = av.VideoFrame.from_ndarray(shown(picture), format="rgb24")
            frame.pts, count = count, count + 1
            graph.push(frame)
            for coloured in _pulled(graph):
                container.mux(stream.encode(coloured))
        graph.push(None)
        for coloured in _pulled(graph):
            container.mux(stream.encode(coloured))
        container.mux(stream.encode(None))
    return count


def _palette_graph(width: int, height: int, rate: int) -> Any:
    from fractions import Fraction

    import av
    import av.filter

    graph = av.filter.Graph()
    source = graph.add_buffer(width=width, height=height, format=av.VideoFormat("rgb24"), time_base=Fraction(1, rate))
    split, chosen = graph.add("split"), graph.add("palettegen", "stats_mode=single")
    coloured, sink = graph.add("paletteuse", "new=1:dither=none"), graph.add("buffersink")
    source.link_to(split)
    split.link_to(coloured, 0, 0)
    split.link_to(chosen, 1, 0)
    chosen.link_to(coloured, 0, 1)
    coloured.link_to(sink)
    graph.configure()
    return graph


def _pulled(graph: Any) -> Iterator[Any]:
    import av

    while True:
        try:
            yield graph.pull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return


def _each(first: Frame, rest: Iterator[Frame]) -> Iterator[Frame]:
    yield first
    yield from rest


def _frames(env: gym.Env[Any, Any], advance: Callable[[], bool], longest: int) -> Iterator[Frame]:
    shape: tuple[int, ...] = ()
    while True:
        try:
            frame = env.render()
        except Exception as error:  # drivers and simulators raise anything
            raise UsageError(f"the environment cannot be drawn: {' '.join(str(error).split())[:300]}") from error
        if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim not in (2, 3) or not frame.size:
            raise UsageError("the environment cannot be drawn: it gives no pictures of bytes")
        if shape and frame.shape != shape:
            raise UsageError(f"the environment cannot be filmed: its pictures change their size at {frame.shape}")
        shape = frame.shape
        stride = -(-max(frame.shape[:2]) // longest)
        yield np.array(frame[::stride, ::stride])
        if not advance():
            return
