"""A run that learned from a dataset, before and after it went online, against runs that saw the same data alone.

The value of a baseline is its last one, never its best: the best of many evaluations is luck as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gym_gui.services.charts.drawing import Array
from gym_gui.services.charts.panels import LinePanel, Series, Sheet
from gym_gui.services.charts.scales import Unit
from gym_gui.services.run_words import counted, is_over, quantity
from mosaic_protocol.headline import RETURN_TAG

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

PHASE, SCORE = "charts/phase", "charts/normalized_score"
MOST_BASELINES = 50
MOST_LINES = 8
_MOST_POINTS = 5000


@dataclass(frozen=True)
class Baseline:
    """Runs of one algorithm on the same data that never went online."""

    algo: str
    """With whose script it was, where that is not MOSAIC's: ``corl/iql``."""
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        return float(np.mean(self.values))

    @property
    def label(self) -> str:
        return f"{self.algo}, offline ({counted(len(self.values), 'run')})"


@dataclass(frozen=True)
class OfflineCourse:
    """``online_at``: the last step on the data alone, None for a run that has not got there, or never does."""

    run_name: str
    dataset: str
    tag: str
    steps: Array
    values: Array
    online_at: float | None
    baselines: tuple[Baseline, ...]

    @property
    def has_score(self) -> bool:
        return self.tag == SCORE

    def sentence(self) -> str:
        """What the chart says, in words."""
        known = np.isfinite(self.values)
        if not known.any():
            return f"{self.run_name} was not judged in an environment yet, so there is no curve."
        last = float(self.values[known][-1])
        word = "score" if self.has_score else "return"
        told = f"{self.run_name}: {word} {quantity(last)} now"
        if self.online_at is not None:
            before = known & (self.steps <= self.online_at)
            if before.any():
                told += f", {quantity(float(self.values[before][-1]))} when it went online"
        if not self.baselines:
            return f"{told}. No other run that is over learned from {self.dataset} alone yet."
        best = max(self.baselines, key=lambda one: one.value)
        return f"{told}. The best offline baseline on {self.dataset} is {best.algo} with {quantity(best.value)}."

    def panel(self) -> LinePanel:
        """The curve first, then a line for each baseline, and where the run went online an upright one."""
        series = [Series(self.run_name, self.steps, self.values)]
        ends = np.array([0.0, float(self.steps.max()) if len(self.steps) else 1.0])
        series += [Series(one.label, ends, np.full(2, one.value)) for one in self.baselines]
        if self.online_at is not None:
            shown = [self.values[np.isfinite(self.values)], np.array([one.value for one in self.baselines])]
            levels = np.concatenate(shown)
            low, high = (float(levels.min()), float(levels.max())) if len(levels) else (0.0, 1.0)
            series.append(Series("goes online", np.full(2, self.online_at), np.array([low, high])))
        title = "normalised score" if self.has_score else "mean return of evaluations"
        empty = "no evaluation yet"
        return LinePanel(f"{self.run_name} on {self.dataset}", series, "updates", title, Unit.PLAIN, empty=empty)

    def sheet(self, title: str = "") -> Sheet:
        """As a picture of its own."""
        panel = self.panel()
        heading = title or panel.title
        labels = [one.label for one in panel.series]
        return Sheet([replace(panel, title=panel.y_title, y_title="")], labels, heading, [self.sentence()])


def course_of(client: TrainerClient, run: pb.Run) -> OfflineCourse:
    """Everything about a run with a dataset; asks the daemon for some runs and curves. Raises TrainerError."""
    others = client.runs(size=MOST_BASELINES, where=f"dataset={run.dataset}").runs
    curves = _curves(client, run.run_id, (SCORE, RETURN_TAG, PHASE))
    tag = SCORE if len(curves[SCORE][0]) else RETURN_TAG
    values: dict[str, list[float]] = {}
    for other in others:
        if other.run_id != run.run_id and other.dataset == run.dataset and is_over(other):
            value = _offline_value(client, other.run_id, tag)
            if value is not None:
                values.setdefault(_script_of(other), []).append(value)
    found = [Baseline(algo, tuple(ends)) for algo, ends in sorted(values.items())]
    steps, heights = curves[tag]
    shown = tuple(sorted(found, key=lambda one: -one.value)[:MOST_LINES])
    return OfflineCourse(run.name, run.dataset, tag, steps, heights, went_online(*curves[PHASE]), shown)


def _script_of(run: pb.Run) -> str:
    """The algorithm, with whose script it was where that is not MOSAIC's: both have the same names."""
    try:
        source = json.loads(run.config_json)["metadata"]["worker"]["config"].get("source")
    except (ValueError, KeyError, TypeError, AttributeError):
        source = None
    return f"{source}/{run.algo}" if isinstance(source, str) and source not in ("", "mosaic") else str(run.algo)


def went_online(steps: Array, phases: Array) -> float | None:
    """The last step on the data alone, of a run that was seen in the environment behind it; rows are written now and
    then, so the first one there comes late."""
    there = np.flatnonzero(phases >= 1)
    if not len(there):
        return None
    before = steps[: there[0]]
    return float(before[-1] if len(before) else steps[there[0]])


def _offline_value(client: TrainerClient, run_id: str, tag: str) -> float | None:
    """The last value of a run that stayed with the data; None of any other."""
    curves = _curves(client, run_id, (tag, PHASE))
    if went_online(*curves[PHASE]) is not None:
        return None
    values = curves[tag][1]
    values = values[np.isfinite(values)]
    return float(values[-1]) if len(values) else None


def _curves(client: TrainerClient, run_id: str, tags: Sequence[str]) -> dict[str, tuple[Array, Array]]:
    found = {series.tag: series for series in client.metrics(run_id, tags, max_points=_MOST_POINTS)}
    curves: dict[str, tuple[Array, Array]] = {}
    for tag in tags:
        series = found.get(tag)
        steps = np.array(series.steps if series is not None else [], np.float64)
        values = np.array(series.values if series is not None else [], np.float64)
        order = np.argsort(steps, kind="stable")
        curves[tag] = (steps[order], values[order])
    return curves
