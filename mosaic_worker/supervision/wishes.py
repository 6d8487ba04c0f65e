"""What is wanted of a run, handed on in the words that a session obeys: ``go``, ``pause``, ``resume``, ``stop``.

Levels, not edges: a wish is looked at as often as one likes and handed on when it differs from the last one.
"""

from __future__ import annotations

from collections.abc import Callable

from mosaic_protocol.states import Desired

_WORDS = {Desired.RUN: "resume", Desired.PAUSE: "pause", Desired.STOP: "stop"}


class Wishes:
    """What is wanted of the run, and whether it may begin. Without a daemon it may, and only signals change it."""

    def __init__(self) -> None:
        self.desired = Desired.RUN
        self.may_begin = True

    def stop(self) -> None:
        self.desired = Desired.STOP


class WishForwarder:
    """Hands wishes on: none but a stop before the run has begun, ``go`` when it is ready and may begin.

    Not safe in two threads at once; a caller in several threads holds a lock.
    """

    def __init__(
        self,
        desired: Callable[[], Desired],
        may_begin: Callable[[], bool],
        begin: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        self._desired, self._may_begin = desired, may_begin
        self._begin, self._tell = begin, tell
        self._told = Desired.RUN
        self.is_ready = self.has_begun = False

    def look(self) -> Desired | None:
        """Hand on what is wanted now; returns a wish that was handed on by this very look."""
        if self.is_ready and not self.has_begun and self._may_begin() and self._desired() is not Desired.STOP:
            self.has_begun = True
            self._begin()
            self._tell("go")
        wanted = self._desired()
        if wanted is self._told or not (self.has_begun or wanted is Desired.STOP):
            return None
        self._told = wanted
        self._tell(_WORDS[wanted])
        return wanted
