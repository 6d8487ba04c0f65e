"""The progress of a run in one line: what to say, how fast it goes, and what to leave out on a narrow terminal.

Pure: no clock, no terminal, no daemon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gym_gui.cli import format as fmt
from gym_gui.cli.run_view import state_word
from mosaic_protocol.headline import MEAN_RETURN, SPS_TAG
from mosaic_protocol.states import RunState

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

_WINDOW = 20.0
_SHORTEST_WINDOW = 2.0
_STALLED = 30.0


@dataclass
class Pace:
    """What a watcher has seen of a run: how fast its steps went by lately."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, run: pb.Run, now: float) -> None:
        # A pause must not look like slowness, nor the first step of a resumed run like a thousand at once.
        if run.state != RunState.EXEC or not run.last_step:
            self._seen.clear()
            return
        self._seen.append((now, run.last_step))
        while now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()

    @property
    def steps_per_second(self) -> float:
        """Over the last seconds; 0 when too little was seen."""
        if not self._seen:
            return 0.0
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last - first) / (ended - began) if ended - began >= _SHORTEST_WINDOW else 0.0


@dataclass(frozen=True)
class Part:
    """A part of the line. On a narrow terminal those with the highest ``rank`` are left out first."""

    text: str
    rank: int = 0


def progress_parts(run: pb.Run, pace: Pace, waited: float) -> list[Part]:
    """The parts in the order in which they are shown. ``waited`` is how long the run exists."""
    word = state_word(run)
    if run.reason and run.state in (RunState.INIT, RunState.HSHK):  # what it waits for beside its turn
        return [Part(word), Part(fmt.one_line(run.reason), 1)]
    if run.state == RunState.INIT:
        place = f"{fmt.ordinal(run.queue_position)} in line" if run.queue_position else "about to start"
        return [Part(f"{word}, {place}"), Part(f"waiting {fmt.duration(waited)}", 1)]
    if run.state in (RunState.HSHK, RunState.RDY):
        return [Part(word), Part(f"{fmt.duration(waited)} since submitted", 1)]
    return [Part(word), *_numbers(run, pace)]


def _numbers(run: pb.Run, pace: Pace) -> list[Part]:
    step = run.last_step
    parts = [Part(f"{step:,}/{run.total_steps:,}" if run.total_steps else fmt.counted(step, "step"), 1)]
    if run.total_steps:
        parts.append(Part(f"{min(100, 100 * step // run.total_steps)}%", 2))
    speed = run.headline.get(SPS_TAG) or pace.steps_per_second
    if speed > 0 and run.state == RunState.EXEC:
        parts.append(Part(f"{fmt.quantity(round(speed))} steps/s", 5))
    if MEAN_RETURN in run.headline:
        parts.append(Part(f"return {fmt.quantity(run.headline[MEAN_RETURN])}", 3))
    if run.seconds_since_progress > _STALLED and run.state == RunState.EXEC:
        parts.append(Part(f"no step for {fmt.duration(run.seconds_since_progress)}", 4))
    elif speed > 0 and run.total_steps and run.state == RunState.EXEC:
        parts.append(Part(f"ETA {fmt.duration(max(0, run.total_steps - step) / speed)}", 4))
    parts.append(Part(f"elapsed {fmt.duration(run.active_seconds)}", 6))
    return parts


def fitted(parts: Sequence[Part], width: int) -> str:
    """The parts in one line of at most ``width`` columns."""
    kept = list(parts)
    while len(kept) > 1 and fmt.cells(_joined(kept)) > width:
        kept.remove(max(kept, key=lambda part: part.rank))
    return fmt.cut(_joined(kept), width)


def _joined(parts: Sequence[Part]) -> str:
    return "  ".join(part.text for part in parts)
