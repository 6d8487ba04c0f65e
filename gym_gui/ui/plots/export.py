"""Curves as a table: one point a line, at full resolution, for spreadsheets and data frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gym_gui.ui.plots.run_metrics import RunMetrics
from gym_gui.ui.plots.series_buffer import Floats
from mosaic_protocol.whole_files import drafted

HEADER = ("run_id", "run_name", "tag", "step", "wall_time", "relative_seconds", "value")


@dataclass(frozen=True)
class Snapshot:
    """A copy of one curve, which another thread may write while the run goes on."""

    run_id: str
    run_name: str
    tag: str
    steps: Floats
    wall_times: Floats
    values: Floats
    began: float


def snapshots(runs: Sequence[tuple[RunMetrics, str]], tags: Iterable[str]) -> list[Snapshot]:
    """Copies of the given metrics of (metrics, run name), tag by tag."""
    return [
        Snapshot(
            metrics.run_id,
            name,
            tag,
            metrics.series[tag].buffer.steps.copy(),
            metrics.series[tag].buffer.wall_times.copy(),
            metrics.series[tag].buffer.values.copy(),
            metrics.began,
        )
        for tag in tags
        for metrics, name in runs
        if tag in metrics.series
    ]


def write_csv(path: Path, curves: Sequence[Snapshot]) -> int:
    """Write every point, a value that is not finite as an empty field; how many there were.

    The file appears whole or not at all. Raises OSError.
    """
    with drafted(path) as draft, draft.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for curve in curves:
            writer.writerows(_rows(curve))
    return sum(len(curve.steps) for curve in curves)


def _rows(curve: Snapshot) -> Iterable[tuple[object, ...]]:
    points = zip(curve.steps.tolist(), curve.wall_times.tolist(), curve.values.tolist(), strict=True)
    for step, wall_time, value in points:
        relative = round(wall_time - curve.began, 6)
        shown = value if np.isfinite(value) else ""
        yield curve.run_id, curve.run_name, curve.tag, int(step), wall_time, relative, shown
