"""What is asked of a run while it trains: to go, pause, resume, stop, or write a checkpoint.

Requests arrive on another thread or in a signal handler. Both only put a word into a queue whose ``put`` is safe in
either; everything that follows from a word happens in the training thread, inside :meth:`Requests.wait_for_go` or
:meth:`Requests.attend`, so no lock is needed. ``waiting`` is the one flag that a safe point looks at.
"""

from __future__ import annotations

import queue
import time
from typing import Any, Protocol


class Link(Protocol):
    """The way to those who ask: a supervisor's socket, or the daemon itself."""

    def tell(self, **message: Any) -> None:
        """Say ``at="paused"`` and the like. Safe in any thread; raises nothing."""

    def note_step(self, step: int) -> None:
        """How far the run is, for when somebody asks. Cheap: it may come with every step."""

    def close(self) -> None:
        """Ask and tell no more."""


class Requests:
    """The requests of one run. Only :meth:`ask` and :meth:`look_up` may be called in other threads than the
    training's."""

    def __init__(self) -> None:
        self.waiting = False
        """Whether there is something to attend to. May be looked at from any thread."""
        self.stop_requested = False
        self.checkpoint_requested = False
        self.link: Link | None = None
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._may_go = self._stop_announced = False
        self._paused_at: float | None = None
        self._paused_seconds = 0.0
        self._began = time.monotonic()

    def ask(self, word: str) -> None:
        """Leave a request for the training thread. Safe in any thread and in signal handlers."""
        if word == "stop":
            self.stop_requested = True
        self._words.put(word)
        self.waiting = True

    def look_up(self) -> None:
        """Have the training thread look up at its next safe point. Safe in any thread."""
        self.waiting = True

    def tell(self, **message: Any) -> None:
        if self.link is not None:
            self.link.tell(**message)

    def note_step(self, step: int) -> None:
        if self.link is not None:
            self.link.note_step(step)

    def wait_for_go(self, step: int) -> None:
        """Block until a ``go`` or a stop arrives, and begin to count the time. Nobody is waited for without a link."""
        while self.link is not None and not (self._may_go or self.stop_requested):
            self._obey(self._words.get(), step)
        self._began = time.monotonic()

    def attend(self, step: int) -> None:
        """Do what was asked; blocks while paused."""
        # Lowered before the queue is emptied: a word that arrives in between raises it again.
        self.waiting = False
        while self._paused_at is not None or not self._words.empty():  # nobody else takes words out
            self._obey(self._words.get(), step)

    def pause(self, step: int, sentence: str) -> bool:
        """Pause without being asked to, until somebody says ``resume`` or ``stop``; False where nobody could."""
        if self.link is None:
            return False
        if self._paused_at is None and not self.stop_requested:
            self._paused_at = time.monotonic()
            self.tell(at="paused", step=step, sentence=sentence)
        self.attend(step)
        return True

    def announce_stop(self, step: int) -> None:
        if not self._stop_announced:
            self._stop_announced = True
            self.tell(at="stopping", step=step)

    @property
    def seconds_running(self) -> float:
        """Seconds since the run began, pauses left out."""
        until = time.monotonic() if self._paused_at is None else self._paused_at
        return until - self._began - self._paused_seconds

    def _obey(self, word: str, step: int) -> None:
        if word == "go":
            self._may_go = True
        elif word == "checkpoint":
            self.checkpoint_requested = True
        elif word == "stop":
            self._end_pause()
            self.announce_stop(step)
        elif word == "pause" and self._paused_at is None and not self.stop_requested:
            self._paused_at = time.monotonic()
            self.tell(at="paused", step=step)
        elif word == "resume" and self._paused_at is not None:
            self._end_pause()
            self.tell(at="resumed", step=step)

    def _end_pause(self) -> None:
        if self._paused_at is not None:
            self._paused_seconds += time.monotonic() - self._paused_at
            self._paused_at = None
