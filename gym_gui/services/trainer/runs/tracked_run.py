"""What the daemon knows of an unfinished run beyond the durable record: clocks and wishes on their way. All of it can
be lost and is rebuilt after a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.run_record import RunRecord

_MOST_STREAMS = 8
_MOST_MARKS = 2


@dataclass
class TrackedRun:
    """Belongs to the event loop. ``lock`` serialises decisions about the run."""

    run: RunRecord
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    beat_at: float = field(default_factory=time.monotonic)
    progress_at: float = field(default_factory=time.monotonic)
    step: int = 0
    total_steps: int = 0
    phase: str = ""
    kill_at: float | None = None
    nudge_at: float | None = None
    wish_changed: asyncio.Event = field(default_factory=asyncio.Event)
    clearing: bool = False
    checkpoint_granted: bool = False
    """Whether its stop was put off for a last checkpoint. Once: a stop that could be put off again would be none."""
    owed: tuple[Transition, ...] = ()
    """Moves that were acted on and could not be stored yet."""
    journalled: dict[str, int] = field(default_factory=dict)
    """By stream the number of the newest record that its worker has, also of one that waits in its memory."""
    throttle_marks: list[str] = field(default_factory=list)
    """What its output waits for, then "" when it goes on, and so forth: what is not stored yet."""
    away_since: float | None = None
    """Since when its host cannot be reached."""
    hindered: bool = False
    """Whether the disk was full while its worker was on its way."""

    def seen(self) -> None:
        """Any word from the worker is a sign of life."""
        self.beat_at = time.monotonic()

    def reached(self, step: int) -> None:
        """A metric says how far the run is, often sooner than a heartbeat."""
        if step > self.step:
            self.step, self.progress_at = step, time.monotonic()

    def beat(self, step: int, total_steps: int, phase: str) -> None:
        """A heartbeat: liveness always, progress only when the step moved."""
        now = time.monotonic()
        self.beat_at = now
        if step > self.step or phase != self.phase:
            self.progress_at = now
        self.step, self.total_steps, self.phase = max(step, self.step), total_steps or self.total_steps, phase

    def numbered(self, journalled: Mapping[str, int]) -> None:
        """How far the worker has numbered its records; a worker has a handful of streams."""
        if len(journalled) <= _MOST_STREAMS:
            self.journalled.update(journalled)

    def mark_throttled(self, sentence: str) -> bool:
        """Note what its output waits for; whether that is new, and nobody is storing such marks yet. Between two that
        can be stored it may have changed often: the last word counts."""
        marks = self.throttle_marks
        if sentence == (marks[-1] if marks else self.run.throttled):
            return False
        marks[_MOST_MARKS - 1 :] = [sentence]
        return len(marks) == 1

    def forgive(self, seconds: float) -> None:
        """The daemon itself was held still: nobody else is late because of that."""
        now = time.monotonic()
        self.beat_at = min(now, self.beat_at + seconds)
        self.progress_at = min(now, self.progress_at + seconds)
        if self.kill_at is not None:
            self.kill_at += seconds
        if self.nudge_at is not None:
            self.nudge_at += seconds

    def announce_wish(self) -> None:
        """Wake everyone who waits for a change of what is desired."""
        self.wish_changed.set()
        self.wish_changed = asyncio.Event()
