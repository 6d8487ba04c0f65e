"""Taking pictures of a cockpit, and keeping them small."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PyQt6.QtCore import QEventLoop, QTimer
from PyQt6.QtGui import QImage
from PyQt6.QtWidgets import QApplication
from PyQt6.sip import voidptr

from gym_gui.ui.app import CockpitApp

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 240.0
SMALL_SIZE, USUAL_SIZE, LARGE_SIZE = (1024, 600), (1280, 800), (1920, 1080)
THEMES = ("dark", "light")
Array = npt.NDArray[Any]


class InVain(RuntimeError):
    """Something that a picture needs did not happen."""


class TimeIsUp(Exception):
    """The minutes that were given are over; what is missing is taken by the next call."""


class Camera:
    """Takes pictures of one cockpit, in each theme that is wanted, of the scenes that are wanted.

    ``had``: names of files that were taken before and are not wanted again. ``until``: when to stop, by the monotonic
    clock.
    """

    def __init__(
        self,
        app: QApplication,
        into: Path,
        only: Sequence[str] = (),
        themes: Sequence[str] = THEMES,
        *,
        had: Collection[str] = (),
        until: float = math.inf,
    ) -> None:
        self.app, self.into = app, into
        self._only, self.themes = tuple(only), tuple(themes)
        self.passing: Sequence[str] = self.themes
        """The themes that are taken now. One at a time is quicker: a change has the whole window drawn anew."""
        self._had, self._end = frozenset(had), until
        self._begin = time.monotonic()
        self.cockpit: CockpitApp | None = None
        self.taken: list[Path] = []
        self.failures: list[str] = []
        app.setCursorFlashTime(0)  # a window with a blinking cursor never looks the same twice
        self._writer = ThreadPoolExecutor(1)
        self._writing: list[Future[None]] = []

    def wants(self, *names: str) -> bool:
        """Whether one of these is to be taken, by any part of its name, in a theme that is taken now."""
        return any(self._misses(name, theme) for name in names for theme in self.passing)

    def _misses(self, name: str, theme: str) -> bool:
        if f"{name}-{theme}.png" in self._had:
            return False
        return not self._only or any(word in name for word in self._only)

    def take(self, name: str, before: Callable[[], object] = lambda: None, *, fleeting: bool = False) -> None:
        """Take a picture in each theme that is taken now. ``before`` does again what a change of theme undoes.

        ``fleeting``: what is seen does not come again, so it is taken in all themes at once.
        """
        assert self.cockpit is not None
        for theme in self.themes if fleeting else self.passing:
            if not self._misses(name, theme):
                continue
            self._look_at_the_clock()
            self.cockpit.themes.use(theme)
            before()
            path = self.into / f"{name}-{theme}.png"
            self._writing.append(self._writer.submit(save, self._settled(), path))
            self.taken.append(path)
            self.say(path.name)

    def finish(self) -> None:
        """Wait until every picture is written."""
        for one in self._writing:
            one.result()

    def say(self, words: str) -> None:
        """Print a line, with the seconds since the beginning."""
        print(f"{time.monotonic() - self._begin:6.1f}  {words}", flush=True)

    def _look_at_the_clock(self) -> None:
        if time.monotonic() > self._end:
            raise TimeIsUp("the time is up")

    def until(self, what: str, probe: Callable[[], object], patience: float = PATIENCE_SECONDS) -> None:
        """Let the cockpit work until something is so. Raises :class:`InVain` after a long time."""
        deadline = time.monotonic() + patience
        while not probe():
            if time.monotonic() > deadline:
                raise InVain(f"waited {patience:g} s in vain for {what}")
            self._look_at_the_clock()
            self.breathe()

    def breathe(self, milliseconds: int = 30) -> None:
        """Let the cockpit work for a moment, in a loop of its own: what it threw away is gone only then."""
        loop = QEventLoop()
        QTimer.singleShot(milliseconds, loop.quit)
        loop.exec()

    def _settled(self, most_looks: int = 8) -> QImage:
        """What the window shows once it shows the same twice; a live run is taken as it goes after some looks."""
        seen = self._look()
        for _ in range(most_looks):
            self.breathe(120)
            before, seen = seen, self._look()
            if seen == before:
                break
        return seen

    def _look(self) -> QImage:
        """The part of the screen that the window covers: with popups, which are windows of their own."""
        assert self.cockpit is not None
        window, screen = self.cockpit.window, self.app.primaryScreen()
        assert screen is not None
        corner = window.mapToGlobal(window.rect().topLeft())
        shot = screen.grabWindow(voidptr(0), corner.x(), corner.y(), window.width(), window.height())
        return shot.toImage().convertToFormat(QImage.Format.Format_RGB32)


def save(image: QImage, path: Path) -> None:
    """Write a small PNG: with a palette of at most 256 colours, of which an interface has few."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = image.width(), image.height()
    bits = image.constBits()
    assert bits is not None
    pixels = np.frombuffer(bits.asstring(image.sizeInBytes()), np.uint32).reshape(height, -1)[:, :width] & 0xFFFFFF
    colours, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    palette, entries = _palette(colours, counts)
    indexed = np.ascontiguousarray(np.pad(entries[places].reshape(height, width), ((0, 0), (0, -width % 4))))
    small = QImage(indexed.tobytes(), width, height, indexed.shape[1], QImage.Format.Format_Indexed8)
    small.setColorTable([0xFF000000 | int(colour) for colour in palette])
    if not small.save(str(path), "PNG", 0):
        raise InVain(f"{path} could not be written")


def _palette(colours: Array, counts: Array, most: int = 256) -> tuple[Array, Array]:
    """At most 256 of the colours, and for each its entry: the frequent ones as they are, the rest by likeness."""
    if len(colours) <= most:
        return colours, np.arange(len(colours), dtype=np.uint8)
    parts = np.stack([(colours >> shift) & 0xFF for shift in (16, 8, 0)], axis=1).astype(np.int32)
    chosen = list(np.argsort(counts)[::-1][: most // 2])
    far = _distances(parts, parts[chosen])
    while len(chosen) < most:
        # What is far from every chosen colour, and seen often enough to be noticed, comes next.
        following = int(np.argmax(far * np.sqrt(counts)))
        chosen.append(following)
        far = np.minimum(far, _distances(parts, parts[[following]]))
    nearest = np.array([np.argmin(((parts[chosen] - one) ** 2).sum(axis=1)) for one in parts], dtype=np.uint8)
    return colours[chosen], nearest


def _distances(parts: Array, to: Array) -> Array:
    nearest: Array = np.min([((parts - one) ** 2).sum(axis=1) for one in to], axis=0)
    return nearest
