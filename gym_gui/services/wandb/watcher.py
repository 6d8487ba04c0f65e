"""Notices W&B's folders in a run's directory and reads what grows in them: only what is new, in columns.

Cheap enough to be asked every second: a file that has not grown is not opened.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gym_gui.services.wandb.run_side import WandbSide, side_of
from mosaic_protocol.wandb_files import WandbFileError, WandbFileReader
from mosaic_protocol.wandb_records import STEP_NAMES, TIME_NAME, Row, TrackedRun, number_of, step_of

MOST_POINTS = 5_000_000
"""So many points are kept of one run, 24 bytes each; more are only counted."""
MOST_TAGS = 2000
SYSTEM = "system/"
"""What the tags of system metrics begin with."""


@dataclass
class Columns:
    """The points of one metric, side by side."""

    steps: array[float] = field(default_factory=lambda: array("d"))
    wall_times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(frozen=True)
class News:
    """How a run stands, and the points that came since the last look. ``tracked`` has no rows."""

    side: WandbSide
    tracked: TrackedRun
    columns: dict[str, Columns]
    rows: int
    """Of all looks together."""
    left_out: int
    """Points that were too many to be kept."""
    problems: tuple[str, ...]
    """Files that could not be read, and why."""


class WandbWatcher:
    """Watches one run. :meth:`look` blocks and is called by one thread at a time; what it returns is the caller's."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._readers: dict[Path, WandbFileReader] = {}
        self._sizes: dict[Path, int] = {}
        self._problems: dict[Path, str] = {}
        self._tags: set[str] = set()
        self._points = self._rows = self._left_out = 0
        self._step = 0.0

    def look(self, *, is_over: bool) -> News:
        """Raises nothing: what cannot be read is among the problems."""
        side = side_of(self._run_dir, is_over=is_over)
        columns: dict[str, Columns] = {}
        for recording in side.recordings:
            if self._sizes.get(recording.file) != recording.size:
                self._read(recording.file, columns)
                self._sizes[recording.file] = recording.size
        tracked = self._merged([recording.file for recording in side.recordings])
        return News(side, tracked, columns, self._rows, self._left_out, tuple(self._problems.values()))

    def _read(self, file: Path, columns: dict[str, Columns]) -> None:
        reader = self._readers.setdefault(file, WandbFileReader(file))
        try:
            for rows in reader.read():
                self._gather(rows, columns)
            self._problems.pop(file, None)
        except WandbFileError as error:
            self._problems[file] = str(error)
        except OSError as error:
            self._problems[file] = f"{file} cannot be read: {error.strerror or error}"

    def _gather(self, rows: Iterable[Row], columns: dict[str, Columns]) -> None:
        for row in rows:
            if row.kind == "history":
                self._rows += 1
                self._step = step if (step := step_of(row.values)) is not None else self._step
            prefix = SYSTEM if row.kind == "system" else ""
            time = number_of(row.values.get(TIME_NAME)) or 0.0
            for name, value in row.values.items():
                number = number_of(value)
                if number is not None and name not in STEP_NAMES and not name.startswith("_"):
                    self._add(columns, prefix + name, time, number)

    def _add(self, columns: dict[str, Columns], tag: str, time: float, value: float) -> None:
        if self._points >= MOST_POINTS or (tag not in self._tags and len(self._tags) >= MOST_TAGS):
            self._left_out += 1
            return
        self._tags.add(tag)
        self._points += 1
        column = columns.setdefault(tag, Columns())
        column.steps.append(self._step)
        column.wall_times.append(time)
        column.values.append(value)

    def _merged(self, files: Iterable[Path]) -> TrackedRun:
        """One run of several files, as a run that was resumed has them: the newest word counts."""
        found = TrackedRun()
        for file in files:
            if (reader := self._readers.get(file)) is None:
                continue
            one = reader.run
            found = replace(
                found,
                run_id=one.run_id or found.run_id,
                project=one.project or found.project,
                entity=one.entity or found.entity,
                name=one.name or found.name,
                config=found.config | one.config,
                summary=found.summary | one.summary,
                media=[*found.media, *one.media],
                files=[*found.files, *one.files],
                exit_code=one.exit_code,
                damaged=found.damaged + one.damaged,
                is_cut=one.is_cut,
                left_out=found.left_out + one.left_out,
            )
        return found


def reading_notes(news: News) -> list[str]:
    """What a reader of the curves has to know: what is missing of them, and why."""
    notes = list(news.problems)
    tracked = news.tracked
    if tracked.damaged:
        places = "1 place" if tracked.damaged == 1 else f"{tracked.damaged:,} places"
        notes.append(f"The file is damaged in {places}: what could be read is shown.")
    if tracked.is_cut and news.side.is_over:
        notes.append("The file ends in the middle of a record, as of a run that was killed: what is whole is shown.")
    if news.left_out or tracked.left_out:
        notes.append(f"{news.left_out + tracked.left_out:,} points and entries are left out: there are too many.")
    return notes
