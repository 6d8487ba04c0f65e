"""What a training script logged, when and at which step, from its TensorBoard events: the same evidence however it was
started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.daemon import BenchmarkError
from gym_gui.services.scalars.event_reader import EventFileReader


class Point(NamedTuple):
    step: int
    wall_time: float
    value: float


def logged_points(folder: Path, tag: str = "charts/SPS") -> list[Point]:
    """Every point of one scalar in the event files below a folder, oldest first."""
    points = sorted(point for path in folder.rglob("events.out.tfevents.*") for point in _points_in(path, tag))
    if len(points) < 2:
        raise BenchmarkError(f"the script logged {len(points)} points of {tag}, too few for a speed")
    return points


def _points_in(path: Path, tag: str) -> Iterator[Point]:
    reader = EventFileReader(path)
    for part in reader.read():
        if tag in reader.tags:
            points = part.points
            chosen = points.tag == reader.tags.index(tag)
            columns = (points.steps[chosen], points.wall_times[chosen], points.values[chosen])
            yield from map(Point, *(column.tolist() for column in columns))
