"""What a run takes of the machine over its time: CPU, memory, GPUs, and how fast it is; as its process recorded it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from gym_gui.services.run_words import quantity, size
from mosaic_protocol.headline import CPU_TAG, GPU_MEMORY_TAG, GPU_TAG, MEMORY_TAG, SPS_TAG

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_TAGS = (CPU_TAG, MEMORY_TAG, GPU_TAG, GPU_MEMORY_TAG, SPS_TAG)
_MOST_POINTS = 2000
_SHORTEST_SECONDS = 0.5
"""Between two readings of CPU time: of less the share says nothing."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Course:
    """One number over the seconds since the first reading."""

    name: str
    points: Sequence[Point]
    last: str
    most: str


def load_of(client: TrainerClient, run_id: str) -> list[Course]:
    """What is known of a run; nothing of one whose worker records nothing. For a thread that may wait."""
    series = {one.tag: one for one in client.metrics(run_id, _TAGS, max_points=_MOST_POINTS)}
    return courses(series)


def courses(series: Mapping[str, pb.MetricSeries]) -> list[Course]:
    known = {tag: _points(one) for tag, one in series.items()}
    found = [
        ("CPU", _shares(known.get(CPU_TAG, [])), _per_cent),
        ("Memory", known.get(MEMORY_TAG, []), _megabytes),
        ("GPU", known.get(GPU_TAG, []), _per_cent),
        ("GPU memory", known.get(GPU_MEMORY_TAG, []), _megabytes),
        ("Steps/s", known.get(SPS_TAG, []), quantity),
    ]
    return [_course(name, points, text) for name, points, text in found if points]


def _per_cent(value: float) -> str:
    return f"{value:.0f} %"


def _megabytes(value: float) -> str:
    return size(round(value * 2**20))


def _course(name: str, points: Sequence[Point], text: Callable[[float], str]) -> Course:
    begin = points[0][0]
    most = max(value for _, value in points)
    return Course(name, [(at - begin, value) for at, value in points], text(points[-1][1]), text(most))


def _points(series: pb.MetricSeries) -> list[Point]:
    pairs = zip(series.wall_times, series.values, strict=True)
    return sorted((at, value) for at, value in pairs if math.isfinite(value))


def _shares(points: Sequence[Point]) -> list[Point]:
    """Per cent of one CPU between readings. A process that was started again counts from nothing: no share is
    negative."""
    kept = points[:1]
    for point in points[1:]:
        if point[0] - kept[-1][0] >= _SHORTEST_SECONDS:
            kept = [*kept, point]
    return [
        (later[0], 100 * max(0.0, later[1] - earlier[1]) / (later[0] - earlier[0]))
        for earlier, later in pairwise(kept)
        if later[1] >= earlier[1]
    ]
