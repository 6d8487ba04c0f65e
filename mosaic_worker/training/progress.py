"""A short line now and then: for a user who started a script by hand, and for the log of a supervised one."""

from __future__ import annotations

import sys
from pathlib import Path

from mosaic_worker.training.episode_digest import EpisodeDigest

_SECONDS_ON_A_TERMINAL = 2.0
_SECONDS_IN_A_FILE = 10.0


class ProgressLine:
    """Belongs to the training thread."""

    def __init__(self, episodes: EpisodeDigest) -> None:
        self._episodes = episodes
        self._every_seconds = _SECONDS_ON_A_TERMINAL if sys.stdout.isatty() else _SECONDS_IN_A_FILE
        self._next_at = self._every_seconds
        self._first_step = self._last_step = 0
        self._of = ""

    def begin(self, first_step: int, total_steps: int | None, run_dir: Path) -> None:
        self._first_step = self._last_step = first_step
        self._of = "" if total_steps is None else f" of {total_steps:,}"
        since = f" from step {first_step:,} on" if first_step else ""
        steps = "" if total_steps is None else f" for {total_steps:,} steps"
        print(f"Training{steps}{since}; files go to {run_dir}", flush=True)

    def note(self, step: int, seconds: float) -> None:
        if seconds >= self._next_at:
            self._next_at = seconds + self._every_seconds
            self._print(step, seconds)

    def end(self, step: int, seconds: float) -> None:
        """The last line, unless nothing happened since the one before it."""
        if step > self._last_step:
            self._print(step, seconds)

    def _print(self, step: int, seconds: float) -> None:
        self._last_step = step
        speed = (step - self._first_step) / max(seconds, 1e-9)
        line = f"{step:,}{self._of} steps, {speed:,.0f} a second"
        if recent := self._episodes.own_recent:
            line += f", return {sum(recent) / len(recent):.1f} (mean of the last {len(recent)} episodes)"
        print(line, flush=True)


class NoProgress(ProgressLine):
    """For a session whose progress somebody else tells."""

    def _print(self, step: int, seconds: float) -> None:
        return
