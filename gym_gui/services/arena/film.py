"""The episodes of one seed as pictures, for a report that plays them side by side. Blocking; for a command.

Each episode is simulated again from what was recorded, by the program that verifies it, and looked at step by step.
Pictures that look alike are kept once: most worlds show the same few over and over.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gym_gui.services.arena.played import Result, returns_of
from gym_gui.services.arena.standings import Standing, Standings
from gym_gui.services.recorded_steps import of_folder
from gym_gui.services.replay.open_replay import Gone, OpenReplay
from mosaic_protocol.live.frames import MOST_FRAME_BYTES, Frame, FramesError, newest_of
from mosaic_protocol.png import as_png, data_url
from mosaic_protocol.replay_messages import Ready, Shown, Told

if TYPE_CHECKING:
    from mosaic_protocol.paths import MosaicPaths

MOST_PLACES = 120
"""Moments of the longest episode that are shown; of a longer one they lie further apart."""
MOST_BYTES = 6 * 1024 * 1024
"""Of all pictures of a report, so that it can still be mailed."""
_WIDEST = 256
_SIDE_BY_SIDE = 2
"""Programs that simulate at the same time."""
_PATIENCE_SECONDS = 300.0
"""Without a sign of life of one episode's environment."""


@dataclass(frozen=True)
class Reel:
    """One entry's episode. ``pictures`` and ``totals`` have an item for each place of the film that it reached."""

    key: str
    """The entry's."""
    pictures: Sequence[int]
    """Numbers in the film's pictures."""
    totals: Sequence[float]
    """What was returned until then."""
    length: int
    why: str = ""
    """Why pictures are missing."""


@dataclass(frozen=True)
class Film:
    """All reels of a seed. ``places`` are the steps that are shown."""

    seed: int
    places: Sequence[int]
    pictures: Sequence[bytes]
    reels: Sequence[Reel]


@dataclass
class Taken:
    """What came of one episode: a PNG for each place that was reached."""

    pngs: list[bytes] = field(default_factory=list)
    why: str = ""


def telling_seed(found: Standings) -> int | None:
    """The seed that shows most of what sets the entries apart: many played it, and their returns differ. Of several the
    one that is over first."""

    def worth(seed: int) -> tuple[int, int, float, int]:
        results = [one.played.results[seed] for one in found.standings if seed in one.played.results]
        totals = [one.total for one in results]
        differ = len(set(totals))
        return len(results), differ, max(totals) - min(totals), -max(one.length for one in results)

    seeds = [seed for seed in found.arena.seeds if any(seed in one.played.results for one in found.standings)]
    return max(seeds, key=worth, default=None)


def film_of(found: Standings, seed: int, paths: MosaicPaths) -> Film:
    """What cannot be shown is said in its reel; nothing is raised for it."""
    shots = [(one, one.played.results[seed]) for one in found.standings if seed in one.played.results]
    longest = max((result.length for _, result in shots), default=0)
    stride = max(1, math.ceil(longest / MOST_PLACES))
    with ThreadPoolExecutor(_SIDE_BY_SIDE, "film") as pool:
        taken = list(pool.map(lambda shot: shoot(shot[1], stride, paths), shots))
    while stride < longest and _size(taken) > MOST_BYTES:
        stride *= 2
        taken = [Taken(_every_other(one.pngs), one.why) for one in taken]
    pictures: dict[bytes, int] = {}
    reels = [
        _reel(standing, result, one, stride, pictures) for (standing, result), one in zip(shots, taken, strict=True)
    ]
    return Film(seed, places_of(longest, stride), list(pictures), reels)


def places_of(length: int, stride: int) -> list[int]:
    """Every so many steps, and the end."""
    return [*range(0, length, stride), length]


def _every_other(pngs: Sequence[bytes]) -> list[bytes]:
    """The end stays."""
    return [*pngs[:-1:2], pngs[-1]] if pngs else []


def _size(taken: Sequence[Taken]) -> int:
    return sum(map(len, {png for one in taken for png in one.pngs}))


def _reel(standing: Standing, result: Result, taken: Taken, stride: int, pictures: dict[bytes, int]) -> Reel:
    numbers = [pictures.setdefault(png, len(pictures)) for png in taken.pngs]
    (returns,) = returns_of([result])
    sums = [float(returns[at - 1]) if 0 < at <= len(returns) else 0.0 for at in places_of(result.length, stride)]
    return Reel(standing.entry.key, numbers, sums, result.length, taken.why)


# ---- one episode -------------------------------------------------------------------------------------------------


def shoot(result: Result, stride: int, paths: MosaicPaths) -> Taken:
    camera = _Camera(places_of(result.length, stride))
    replay = OpenReplay.of_episode(of_folder(result.recording), result.episode, paths, camera.take)
    camera.begin(replay.seek)
    try:
        camera.wait()
    finally:
        replay.close()
    return camera.taken


class _Camera:
    """Goes from place to place as pictures come. :meth:`take` is called in the replay's thread."""

    def __init__(self, places: Sequence[int]) -> None:
        self.taken = Taken()
        self._places = list(places)
        self._seek: Callable[[int], None] = lambda place: None
        self._known: dict[bytes, bytes] = {}
        self._moved, self._over = threading.Event(), threading.Event()

    def begin(self, seek: Callable[[int], None]) -> None:
        self._seek = seek
        seek(self._places[0])

    def wait(self) -> None:
        while not self._over.is_set():
            self._moved.clear()
            if not self._over.wait(0) and not self._moved.wait(_PATIENCE_SECONDS):
                self.taken.why = self.taken.why or "the environment did not answer"
                return

    def take(self, told: Told | Gone) -> None:
        if isinstance(told, Shown):
            self._note(told)
        elif isinstance(told, Gone):
            self._end(told.why)
        elif not isinstance(told, Ready):
            return
        self._moved.set()

    def _note(self, shown: Shown) -> None:
        if self._over.is_set() or shown.place != self._places[len(self.taken.pngs)]:
            return  # it shows the beginning unasked
        frame = _frame_of(shown)
        if frame is None:
            self._end(shown.why or "there is no picture")
            return
        self.taken.pngs.append(self._png(frame))
        if len(self.taken.pngs) == len(self._places):
            self._end("")
        else:
            self._seek(self._places[len(self.taken.pngs)])

    def _png(self, frame: Frame) -> bytes:
        """What was seen before is not packed again."""
        mark = hashlib.sha256(frame.pixels).digest()
        if mark not in self._known:
            self._known[mark] = smaller(frame)
        return self._known[mark]

    def _end(self, why: str) -> None:
        if not self._over.is_set():
            self.taken.why = why
            self._over.set()
            self._moved.set()


def _frame_of(shown: Shown) -> Frame | None:
    if not shown.source or shown.reached < shown.place:
        return None
    try:
        return newest_of(Path(shown.frames), 0, MOST_FRAME_BYTES)
    except FramesError:
        return None


def smaller(frame: Frame) -> bytes:
    """As PNG, with no side longer than what a page shows of it."""
    pixels = np.frombuffer(frame.pixels, np.uint8).reshape(frame.height, frame.width, 3)
    times = math.ceil(max(frame.height, frame.width) / _WIDEST)
    height, width = frame.height // times, frame.width // times
    if times > 1 and height and width:
        blocks = pixels[: height * times, : width * times].reshape(height, times, width, times, 3)
        pixels = blocks.mean(axis=(1, 3)).astype(np.uint8)
    return as_png(pixels.shape[1], pixels.shape[0], pixels.tobytes())


def as_data(film: Film) -> Mapping[str, object]:
    """For the program of a page."""
    return {
        "seed": film.seed,
        "places": list(film.places),
        "pictures": [data_url(one) for one in film.pictures],
        "reels": [
            {"pictures": list(one.pictures), "totals": list(one.totals), "length": one.length}
            for one in film.reels
            if one.pictures
        ],
    }
