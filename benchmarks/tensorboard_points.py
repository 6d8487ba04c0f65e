"""What a training script logged, when and at which step, from its TensorBoard events: the same evidence however it was
started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.daemon import BenchmarkError


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
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    for record in RawEventFileLoader(str(path)).Load():
        event = Event.FromString(record)
        for found in event.summary.value:
            if found.tag == tag:
                yield Point(event.step, event.wall_time, found.simple_value)
