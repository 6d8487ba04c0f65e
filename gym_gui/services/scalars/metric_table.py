"""Every point of a run's metrics, and a Parquet file of them. Needs no numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.parquet_file import parquet_file
from mosaic_protocol import events as ev

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient

MOST_PER_CALL = 1_000_000
"""As many points of a metric as the daemon sends at once."""


@dataclass
class Stretch:
    """Points of one metric, oldest first; a long metric comes in several stretches. Not-finite values are NaN."""

    tag: str
    steps: Sequence[int] = field(default_factory=list)
    values: Sequence[float] = field(default_factory=list)
    wall_times: Sequence[float] = field(default_factory=list)


def every_point(client: TrainerClient, run_id: str, tags: Sequence[str] = (), *, last: int = 0) -> Iterator[Stretch]:
    """All points of these metrics, or of all, metric by metric; with ``last`` the newest so many of each. A metric that
    the run does not have comes as an empty stretch. Raises ClientErrors."""
    for tag in tags or [one.tag for one in client.metrics(run_id, max_points=1)]:
        (series,) = client.metrics(run_id, [tag], max_points=min(last or MOST_PER_CALL, MOST_PER_CALL))
        if len(series.values) < series.total_points and not last:
            yield from _from_records(client, run_id, tag)
        else:
            yield Stretch(tag, series.steps, series.values, series.wall_times)


def _from_records(client: TrainerClient, run_id: str, tag: str) -> Iterator[Stretch]:
    """What is too long for one answer, page by page as it was stored."""
    for page in client.stream("metrics", run_id):
        rows = [row for row in map(ev.decode, page.records) if isinstance(row, ev.MetricRow) and tag in row.values]
        if rows:
            values = [math.nan if (value := row.values[tag]) is None else value for row in rows]
            yield Stretch(tag, [row.step for row in rows], values, [row.t for row in rows])


def write_parquet(stretches: Iterator[Stretch], file: Path) -> int:
    """Columns ``tag``, ``step``, ``value`` and ``wall_time``; how many points they were. Raises
    :class:`~gym_gui.services.parquet_file.TableError`, and there is no file then."""
    with parquet_file(file, of_what="points") as made:
        for one in stretches:
            count = len(one.values)
            if count:
                made.add(
                    {
                        "tag": made.pa.array([one.tag] * count, made.pa.string()),
                        "step": made.pa.array(one.steps, made.pa.int64()),
                        "value": made.pa.array(one.values, made.pa.float64()),
                        "wall_time": made.pa.array(one.wall_times, made.pa.float64()),
                    }
                )
    return made.rows
