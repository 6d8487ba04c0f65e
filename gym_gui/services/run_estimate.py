"""How long a run would take and how much disk, from earlier runs of the same program; a warning before it takes days.

Runs of upstream's script and of our own never count for each other: they have one name and differ in speed by a factor
of several. Nothing is guessed from other programs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_pace import own_speed, own_steps
from gym_gui.services.run_words import counted, size
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.settings_spelling import GENERAL, respelt

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

_NEWEST = 10
_MEASURED = 3
"""Folders that are looked at for their size."""
_MOST_FILES = 5_000
_LEAST_SECONDS = 1.0
"""Shorter runs say more about starting up than about training."""
DAY = 86_400.0
_SITTING = 3_600.0
"""How long a run may take that is proposed instead of one of days."""
SLOW = 100.0
"""Steps per second that a script which learns from pictures may be down to on a CPU."""


@dataclass(frozen=True)
class Estimate:
    """A guess in seconds and what it rests on. ``bytes``: of the run's folder, None where nobody measured."""

    seconds: float
    steps_per_second: float
    runs: int
    same_environment: bool
    same_settings: bool = False
    bytes: int | None = None

    def sentence(self) -> str:
        where = "on this environment" if self.same_environment else "on other environments"
        with_settings = " with these settings" if self.same_settings else ""
        speed = f"{self.steps_per_second:,.0f}" if self.steps_per_second >= 10 else f"{self.steps_per_second:.2g}"
        basis = f"{counted(self.runs, 'earlier run')} {where}{with_settings}"
        return f"about {spoken_time(self.seconds)} at {speed} steps/s{self._space()} ({basis})"

    def brief(self) -> str:
        """The same where there is room for one line."""
        return f"about {spoken_time(self.seconds)}{self._space()}, from {counted(self.runs, 'earlier run')}"

    def _space(self) -> str:
        return "" if self.bytes is None else f", {size(self.bytes)} of disk"

    def as_object(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
            "bytes": self.bytes,
            "runs": self.runs,
            "same_environment": self.same_environment,
            "same_settings": self.same_settings,
        }


def program(settings: Mapping[str, Any]) -> str:
    """What of a worker's settings says which program runs: a script of the worker's, of a checkout, or a file."""
    named = {name: value for name, value in settings.items() if name not in GENERAL}
    return json.dumps(named, sort_keys=True, default=str)


@lru_cache(maxsize=4096)
def _known_of(config_json: str) -> tuple[str, str] | None:
    """Program and parameters of a run, None where its config cannot be read."""
    try:
        settings = json.loads(config_json)["metadata"]["worker"]["config"]
        return program(settings), parameters(settings)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def parameters(settings: Mapping[str, Any]) -> str:
    """What a program was set to, which its speed depends on; seed and budget are not among it."""
    told = respelt(settings)
    params = told.get("params")
    named = dict(params) if isinstance(params, Mapping) else {}
    return json.dumps({name: named[name] for name in named if name not in ("seed", "total_timesteps")}, sort_keys=True)


def estimate(
    runs: Iterable[pb.Run],
    settings: Mapping[str, Any],
    total_steps: int | None,
    worker_type: str,
    counts: Callable[[pb.Run], bool] | None = None,
) -> Estimate | None:
    """None when nothing is known of the speed of this program here, or of the number of steps.

    Runs on the same environment with the same settings count before runs with others, and these before runs on other
    environments. ``counts`` leaves runs out, such as those of another machine.
    """
    chosen, same_environment, same_settings = _alike(runs, settings, worker_type, counts)
    if not total_steps or not chosen:
        return None
    speed = median(own_speed(run) for run in chosen)
    return Estimate(total_steps / speed, speed, len(chosen), same_environment, same_settings)


def with_space(found: Estimate, runs: Iterable[pb.Run], settings: Mapping[str, Any], worker_type: str) -> Estimate:
    """The estimate with the disk that such a run takes. Walks folders: not for a thread that must not wait."""
    chosen, _, _ = _alike(runs, settings, worker_type, None)
    steps = found.seconds * found.steps_per_second
    measured = [_bytes_for(run, steps) for run in chosen[:_MEASURED] if run.run_dir]
    known = [one for one in measured if one]
    return Estimate(**{**found.__dict__, "bytes": round(median(known))}) if known else found


def _alike(
    runs: Iterable[pb.Run], settings: Mapping[str, Any], worker_type: str, counts: Callable[[pb.Run], bool] | None
) -> tuple[Sequence[pb.Run], bool, bool]:
    """The newest runs that are most like this one; whether on its environment, and with its settings."""
    algo, env_id = str(settings.get("algo") or ""), str(settings.get("env_id") or "")
    wanted, tuned = program(settings), parameters(settings)
    if not algo and wanted == "{}":
        return [], False, False
    usable: list[tuple[pb.Run, str]] = []
    for run in runs:
        if run.worker_type != worker_type or (algo and run.algo != algo):
            continue
        known = _known_of(run.config_json)
        if known is not None and known[0] == wanted and own_steps(run) and run.active_seconds >= _LEAST_SECONDS:
            usable.append((run, known[1]))
    there = [one for one in usable if one[0].env_id == env_id or not env_id]
    equal = [one for one in there if one[1] == tuned]
    for group in (equal, there, usable):
        newest = sorted((run for run, _ in group), key=lambda run: run.created_at, reverse=True)
        chosen = list(islice((run for run in newest if counts is None or counts(run)), _NEWEST))
        if chosen:
            return chosen, group is not usable, group is equal
    return [], False, False


def _bytes_for(run: pb.Run, steps: float) -> float:
    """What so many steps would leave: curves grow with the steps, checkpoints and descriptions do not."""
    folder = RunPaths(Path(run.run_dir))
    growing = folder_bytes(folder.outbox) + folder_bytes(folder.tensorboard)
    return folder_bytes(folder.directory) + growing * (steps / own_steps(run) - 1)


def folder_bytes(folder: Path, most: int = _MOST_FILES) -> int:
    """What the files in a folder take of the disk; at most so many are looked at, and links are not followed."""
    total, left, waiting = 0, most, [] if folder.is_symlink() else [folder]
    while waiting and left > 0:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in islice(entries, left):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total


# ---- guard rails -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caution:
    """A run would take a day or more on the CPU alone. ``fewer`` steps, which take ``fewer_seconds``, show whether it
    learns at all; ``known``: whether anybody has measured how fast the script is here."""

    seconds: float
    steps: int
    fewer: int
    fewer_seconds: float
    known: bool
    has_gpu: bool

    def on_command_line(self) -> str:
        card = ", or reserve a GPU with --gpus 1" if self.has_gpu else ""
        short = f"--total-timesteps {self.fewer}"
        if not self.known:
            return (
                f"how fast this script is here is not known; at {SLOW:.0f} steps/s, as scripts that learn from "
                f"pictures may have on a CPU, {self.steps:,} steps take {spoken_time(self.seconds)}: "
                f"try {short} first{card}"
            )
        return (
            f"on the CPU alone this takes about {spoken_time(self.seconds)}: try {short} first, which takes about "
            f"{spoken_time(self.fewer_seconds)}{card}"
        )

    def in_a_form(self) -> str:
        """Where there are fields and no flags, little room, and the line above says that nothing was measured."""
        card = ", or reserve a GPU" if self.has_gpu else ""
        if not self.known:
            slow = f"At {SLOW:.0f} steps/s, as it may be with pictures on a CPU, this takes {spoken_time(self.seconds)}"
            return f"{slow}. Try {self.fewer:,} steps first{card}."
        instead = f"Try {self.fewer:,} steps first, which take about {spoken_time(self.fewer_seconds)}"
        return f"On the CPU alone this takes about {spoken_time(self.seconds)}. {instead}{card}."


def caution(found: Estimate | None, total_steps: int | None, *, gpus: int = 0, free_gpus: int = 0) -> Caution | None:
    """None for a run that takes less than a day. ``gpus``: that it asked for; ``free_gpus``: that this machine has."""
    if gpus or not total_steps:
        return None
    seconds = total_steps / SLOW if found is None else found.seconds
    if seconds < DAY:
        return None
    speed, sitting = (SLOW, 300.0) if found is None else (found.steps_per_second, _SITTING)
    fewer = _rounded(speed * sitting)
    return Caution(seconds, total_steps, fewer, fewer / speed, found is not None, bool(free_gpus))


def _rounded(steps: float) -> int:
    """With one digit that counts, so that it can be remembered."""
    whole = max(1, int(steps))
    digits = str(whole)
    return int(digits[0] + "0" * (len(digits) - 1))


def spoken_time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
