"""When the next step is due, for environments that run by a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

_LATEST = 0.25
"""Further behind than this the clock begins again: after a pause nothing is made up for."""


class Pace:
    """Steps a second at a speed. Belongs to one thread."""

    def __init__(self, fps: float, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.fps, self.speed = fps, speed
        self._clock = clock
        self._due = clock()

    @property
    def seconds_left(self) -> float:
        """Until the next step is due; 0 when it is."""
        return 0.0 if not self.speed else max(0.0, self._due - self._clock())

    def stepped(self) -> None:
        """A step was made: the next one is due a period after this one was."""
        if not self.speed:
            return
        now, period = self._clock(), 1 / (self.fps * self.speed)
        self._due = (now if now - self._due > _LATEST else self._due) + period

    def change(self, speed: float) -> None:
        self.speed = speed
        self.begin()

    def begin(self) -> None:
        """The next step is due now."""
        self._due = self._clock()
