"""How long a run would take, from the speed of earlier ones. No Qt here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from mosaic_protocol.proto import trainer_pb2 as pb

_NEWEST = 10
_LEAST_SECONDS = 1.0
"""Shorter runs tell more of starting up than of training."""


@dataclass(frozen=True)
class Estimate:
    """A guess in seconds and what it rests on."""

    seconds: float
    steps_per_second: float
    runs: int
    same_environment: bool

    def sentence(self) -> str:
        where = "on this environment" if self.same_environment else "on other environments"
        runs = "1 earlier run" if self.runs == 1 else f"{self.runs} earlier runs"
        return f"about {spoken_time(self.seconds)} at {self.steps_per_second:,.0f} steps/s ({runs} {where})"


def estimate(runs: Iterable[pb.Run], algo: str, env_id: str, total_steps: int | None) -> Estimate | None:
    """None when nothing is known of the algorithm's speed here, or of the number of steps."""
    if not total_steps or not algo:
        return None
    usable = [run for run in runs if run.algo == algo and run.last_step and run.active_seconds >= _LEAST_SECONDS]
    same = [run for run in usable if run.env_id == env_id]
    chosen = sorted(same or usable, key=lambda run: run.created_at, reverse=True)[:_NEWEST]
    if not chosen:
        return None
    speed = median(run.last_step / run.active_seconds for run in chosen)
    return Estimate(total_steps / speed, speed, len(chosen), bool(same))


def spoken_time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
