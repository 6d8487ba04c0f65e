"""One run as a row of the table: its texts, what it sorts by, and which words find it. Without Qt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gym_gui.services.metric_spans import Spans
from gym_gui.services.run_filter import RunFacts, setting_in
from gym_gui.services.run_labels import Scalar, config_of, flat_settings
from gym_gui.services.run_pace import own_speed
from gym_gui.services.run_words import (
    ago,
    counted,
    duration,
    is_over,
    memory_text,
    quantity,
    state_word,
)
from mosaic_protocol.headline import MEAN_RETURN, SPS_TAG
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Desired, Outcome, RunState

LIVE, QUEUED, FINISHED, FAILED = BUCKETS = ("live", "queued", "finished", "failed")
"""The kinds of runs that can be shown or hidden with one click."""

_BAD_ENDS = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST})
_URGENCY = {
    "training": 0,
    "playing": 0,
    "pausing": 1,
    "paused": 2,
    "resuming": 3,
    "starting": 4,
    "stopping": 5,
    "ending": 6,
    "queued": 7,
    "failed": 8,
    "lost": 9,
    "timed out": 10,
    "canceled": 11,
    "completed": 12,
}
_TRUSTED_SECONDS = 5.0
NO_SPANS: Spans = MappingProxyType({})


def bucket(run: pb.Run) -> str:
    """Which of :data:`BUCKETS` a run belongs to."""
    if is_over(run):
        return FAILED if run.outcome in _BAD_ENDS else FINISHED
    return QUEUED if run.state == RunState.INIT else LIVE


class RunRow:
    """The newest word on one run and when it came, by the monotonic clock."""

    __slots__ = ("_first_seen", "_haystack", "_settings", "bucket", "received", "run", "run_id", "spans", "word")

    def __init__(self, run: pb.Run, now: float) -> None:
        self.run_id: str = run.run_id
        self._first_seen: tuple[int, float] | None = None
        self._haystack = ""
        self._settings: dict[str, Scalar] | None = None
        self.spans: Spans = NO_SPANS
        """Of the metrics that columns show, as far as they were read."""
        self.update(run, now)

    def update(self, run: pb.Run, now: float) -> None:
        self.run, self.received = run, now
        self._haystack = ""  # a run may be renamed
        self.word = state_word(run)
        self.bucket = bucket(run)
        if self._first_seen is None and run.last_step and self.is_training:
            self._first_seen = (run.last_step, run.active_seconds)

    @property
    def seed(self) -> int | None:
        return int(self.run.seed) if self.run.HasField("seed") else None

    @property
    def settings(self) -> dict[str, Scalar]:
        """Read from the config when first asked for: ten thousand configs take their time."""
        if self._settings is None:
            self._settings = flat_settings(config_of(self.run.config_json))
        return self._settings

    # What an expression asks: a row is its own Facts, so that a filter makes nothing for each of ten thousand rows.

    def values(self, field: str) -> Sequence[Scalar]:
        return RunFacts(self.run).values(field)

    def setting(self, name: str) -> Scalar | None:
        settings = self._settings if self._settings is not None else self.settings
        given = settings.get(name)
        return given if given is not None else setting_in(settings, name, self.run.worker_type)

    def matches(self, words: Sequence[str]) -> bool:
        """Whether every word, in lower case, is somewhere in the name, the id, the algorithm or the environment."""
        if not words:
            return True
        if not self._haystack:
            run = self.run
            self._haystack = "\n".join((run.name, run.run_id, run.algo, run.env_id)).lower()
        return all(word in self._haystack for word in words)

    # ---- time ----------------------------------------------------------------------------------------------------

    @property
    def is_training(self) -> bool:
        return bool(self.run.state == RunState.EXEC)

    def elapsed(self, now: float) -> float:
        """Seconds of training, going on between two words of the daemon."""
        since = now - self.received if self.is_training else 0.0
        return float(self.run.active_seconds + max(0.0, since))

    def remaining(self, now: float | None = None) -> float | None:
        """Seconds until it has all its steps at the pace it had; None where that is unknown, or where it was told to
        stop and will not make them."""
        run = self.run
        if (
            not self.is_training
            or run.desired == Desired.STOP
            or not run.total_steps
            or not (pace := self._steps_per_second())
        ):
            return None
        left = max(0.0, (run.total_steps - run.last_step) / pace)
        return left if now is None else max(0.0, left - (now - self.received))

    def _steps_per_second(self) -> float:
        """As seen since it trains; a run that was resumed did not make its first steps in its own time."""
        run = self.run
        first_step, first_active = self._first_seen or (run.last_step, run.active_seconds)
        if run.active_seconds - first_active >= _TRUSTED_SECONDS and run.last_step > first_step:
            return float((run.last_step - first_step) / (run.active_seconds - first_active))
        told = run.headline.get(SPS_TAG, 0.0)
        if told > 0 and math.isfinite(told):
            return float(told)
        return own_speed(run)

    @property
    def fraction(self) -> float | None:
        """How much of it is done, None where the total is not known."""
        run = self.run
        return min(1.0, run.last_step / run.total_steps) if run.total_steps else None


# ---- columns -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """``text(row, now)`` shows a run, ``key(row)`` sorts it: numbers or text, None for what comes last.

    ``largest_first``: what the first click on its heading puts on top, the best return or the newest run.
    """

    name: str
    width: int
    text: Callable[[RunRow, float], str]
    key: Callable[[RunRow], Any]
    right: bool = False
    largest_first: bool = False


def _headline(tag: str) -> Callable[[RunRow], float | None]:
    def value(row: RunRow) -> float | None:
        found = row.run.headline.get(tag)
        return None if found is None or math.isnan(found) else float(found)

    return value


def _measured(tag: str) -> Callable[[RunRow, float], str]:
    value = _headline(tag)

    def text(row: RunRow, now: float) -> str:
        found = value(row)
        return "" if found is None else quantity(found)

    return text


def steps_text(run: pb.Run) -> str:
    """``12,800 / 50,000``, ``974,070 / 10M``; without the total where nobody knows it or it is reached."""
    last, total = run.last_step, run.total_steps
    if not last and not total:
        return ""
    if last >= total:
        return f"{last:,}"
    is_round = total >= 1_000_000 and total % 100_000 == 0
    return f"{last:,} / {total / 1_000_000:,g}M" if is_round else f"{last:,} / {total:,}"


def _elapsed_text(row: RunRow, now: float) -> str:
    seconds = row.elapsed(now)
    return duration(seconds) if seconds else ""


def _eta_text(row: RunRow, now: float) -> str:
    seconds = row.remaining(now)
    return "" if seconds is None else duration(seconds)


def resources_text(held: pb.Resources) -> str:
    """What a run holds, in words; "" for nothing."""
    parts = [counted(held.cpus, "CPU")] if held.cpus else []
    if held.gpus:
        parts.append(counted(held.gpus, "GPU"))
    if held.memory_mb:
        parts.append(memory_text(held.memory_mb))
    return ", ".join(parts)


def _plain(field: str) -> Callable[[RunRow, float], str]:
    return lambda row, now: str(getattr(row.run, field))


def _folded(field: str) -> Callable[[RunRow], str | None]:
    return lambda row: str(getattr(row.run, field)).lower() or None


# A narrow window shows the first five: which run, how far, how well, for how long still.
COLUMNS = (
    Column("status", 102, lambda row, now: row.word, lambda row: _URGENCY.get(row.word, 99)),
    Column("name", 142, _plain("name"), _folded("name")),
    Column("steps", 156, lambda row, now: steps_text(row.run), lambda row: row.run.last_step, True, True),
    Column("return", 104, _measured(MEAN_RETURN), _headline(MEAN_RETURN), True, True),
    Column("eta", 74, _eta_text, lambda row: row.remaining(), right=True),
    Column("elapsed", 74, _elapsed_text, lambda row: row.run.active_seconds or None, True, True),
    Column("algorithm", 100, _plain("algo"), _folded("algo")),
    Column("environment", 116, _plain("env_id"), _folded("env_id")),
    Column("seed", 50, lambda row, now: "" if row.seed is None else str(row.seed), lambda row: row.seed, right=True),
    Column("sps", 74, _measured(SPS_TAG), _headline(SPS_TAG), True, True),
    # Its place in the line is not the row's own: the table knows it. What it is sorted by is.
    Column("queue", 60, lambda row, now: "", lambda row: row.run.queue_key or None, True),
    Column("created", 86, lambda row, now: ago(row.run.created_at), lambda row: row.run.created_at, True, True),
    Column("worker", 80, _plain("worker_type"), _folded("worker_type")),
    Column(
        "reserved", 110, lambda row, now: resources_text(row.run.reserved), lambda row: row.run.reserved.cpus or None
    ),
    Column("tags", 110, lambda row, now: ", ".join(row.run.tags), lambda row: ", ".join(row.run.tags).lower() or None),
)
COLUMN_NUMBERS = {column.name: number for number, column in enumerate(COLUMNS)}
TICKING = tuple(sorted((COLUMN_NUMBERS["elapsed"], COLUMN_NUMBERS["eta"])))
"""What goes on by itself while a run trains, from left to right."""
