"""How a run, a number and a time are put into words, the same on every surface. Pure: text in, text out."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Any

from mosaic_protocol.imported_runs import IMPORTED
from mosaic_protocol.states import Desired, Outcome, RunState

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

MISSING = "-"
PLAY = "play"
"""The algorithm that a worker with live sessions offers; a run of it is a session."""
TRAINING, PLAYING = "training", "playing"

STATE_WORDS: dict[str, tuple[RunState, ...]] = {
    "queued": (RunState.INIT,),
    "starting": (RunState.HSHK, RunState.RDY),
    TRAINING: (RunState.EXEC,),
    PLAYING: (RunState.EXEC,),
    "paused": (RunState.PAUSE,),
    "ending": (RunState.FAULT,),
    "over": (RunState.TERM,),
}
"""What people call the states. Several states share a word where the difference does not matter to them; one has two,
which :func:`activity` tells apart."""

OUTCOME_WORDS = {outcome.value: outcome.value.replace("_", " ") for outcome in Outcome}

_ABOUT_TO_HOLD = (RunState.HSHK, RunState.RDY, RunState.EXEC)
_WORDS: dict[str, str] = {state: word for word, states in STATE_WORDS.items() for state in states}


def state_meanings() -> dict[str, tuple[str, ...]]:
    """What each word for a state stands for where runs are looked for: states, or what :func:`activity` says."""
    live = tuple(str(state) for state in RunState if state not in (RunState.INIT, RunState.TERM))
    words = {word: tuple(map(str, states)) for word, states in STATE_WORDS.items()}
    words |= {TRAINING: (TRAINING,), PLAYING: (PLAYING,), "running": (str(RunState.EXEC),), "live": live}
    return words | {state.lower(): (str(state),) for state in RunState}


# ---- runs --------------------------------------------------------------------------------------------------------


def short_id(run_id: str) -> str:
    """The end of an id, which tells runs apart best: the beginning of all ids of a day is the same."""
    return run_id[-6:]


def called(run: pb.Run) -> str:
    """How a sentence names a run."""
    return f"{short_id(run.run_id)} ({run.name})"


def is_over(run: pb.Run) -> bool:
    return run.state == RunState.TERM


def activity(run: pb.Run) -> str:
    """What a run that makes steps does with them: a session plays, any other run trains; "" for all that make none.

    By the algorithm, which listings have a column for. Whether its CPUs are counted apart depends on a setting.
    """
    if run.state != RunState.EXEC:
        return ""
    return PLAYING if run.algo == PLAY else TRAINING


def state_word(run: pb.Run) -> str:
    """Where a run is in its life, in a word; what was asked of it and has not happened yet included."""
    if run.worker_type == IMPORTED:
        return IMPORTED
    if is_over(run):
        return OUTCOME_WORDS.get(run.outcome, run.outcome)
    if run.state != RunState.INIT and run.desired == Desired.STOP:
        return "stopping"
    if run.state in _ABOUT_TO_HOLD and run.desired == Desired.PAUSE:
        return "pausing"
    if run.state == RunState.PAUSE and run.desired == Desired.RUN:
        return "resuming"
    return activity(run) or _WORDS.get(run.state, run.state)


def percent(run: pb.Run) -> int:
    return min(100, int(100 * run.last_step / run.total_steps)) if run.total_steps else 0


# ---- numbers -----------------------------------------------------------------------------------------------------


def quantity(value: float) -> str:
    """A measured number with the digits that matter: ``212.4``, ``0.00031``, ``1,204,551``, ``3e+38``."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) >= 1e15:
        return f"{value:.3g}"  # more digits than a number of this kind has, and no table has room for
    if abs(value) >= 10_000 or value == int(value):
        return f"{value or 0.0:,.0f}"  # no minus sign before a zero
    if abs(value) >= 1:
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.2f}"
    return f"{value:.3g}"


def compact(number: int) -> str:
    """A count in four or five characters: ``950``, ``132k``, ``1.5M``."""
    amount, unit = float(number), ""
    for larger in ("k", "M", "G", "T"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    digits = f"{amount:.1f}" if unit and amount < 99.95 else f"{amount:.0f}"
    return f"{digits.removesuffix('.0')}{unit}"


def size(count: int) -> str:
    """Bytes in words: ``940 B``, ``1.2 MB``."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def memory_text(megabytes: int) -> str:
    """What a machine has and a run asks for, where 1,024 are one more unit."""
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1024 else f"{megabytes} MB"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# ---- times -------------------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """``45s``, ``3m 20s``, ``2h 05m``, ``3d 4h``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def ago(wall_time: float, now: float | None = None) -> str:
    """How long a moment is past: ``3m ago``; a date when that says more; "-" for a moment that never was."""
    if not wall_time:
        return MISSING
    past = (time.time() if now is None else now) - wall_time
    for limit, unit, seconds in ((60, "s", 1), (3600, "m", 60), (86400, "h", 3600), (14 * 86400, "d", 86400)):
        if past < limit:
            return "just now" if past < 2 else f"{int(past // seconds)}{unit} ago"
    return time.strftime("%Y-%m-%d", time.localtime(wall_time))


def time_in_trash(run: pb.Run, now: float | None = None) -> str:
    """How long a deleted run can still be restored: ``6d 23h left``; of one whose time is over that it is going."""
    left = run.restorable_until - (time.time() if now is None else now)
    return f"{duration(left)} left" if left > 0 else "being removed"


def summary_value(value: Any) -> str:
    """One thing that a worker's dry run tells: text, a command line, parameters, or what its runs can do."""
    if isinstance(value, dict) and value and all(isinstance(one, dict) and "offered" in one for one in value.values()):
        return ", ".join(name.replace("_", " ") for name, one in value.items() if one["offered"]) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}={json.dumps(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return shlex.join(map(str, value))
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)
