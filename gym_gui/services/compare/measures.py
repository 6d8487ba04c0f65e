"""What a run reached, and how it got there. Training returns and evaluations are different things and never mixed.

A training score is the mean of the newest 100 returns at the end of a run, or at a step that all runs passed: the
number that every listing shows. Exploration is in it. An evaluation is what ``mosaic eval`` measured, without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.checkpoints.evaluations import kept
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.compare.statistics import Array
from gym_gui.services.run_labels import config_of, worker_settings
from mosaic_protocol.headline import CPU_TAG, RECENT_EPISODES, RECENT_MEANS, RETURN_TAG
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.seed_runs import seeds_of
from mosaic_protocol.states import Outcome, RunState

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

MOST_POINTS = 1_000_000


class By(StrEnum):
    """What is compared."""

    TRAINING = "training"
    EVALUATION = "evaluation"


class Axis(StrEnum):
    """What a curve is drawn over."""

    STEP = "step"
    TIME = "time"
    CPU = "cpu"


@dataclass(frozen=True)
class Curve:
    """The mean of the newest 100 returns as it went: for each step of ``steps`` the value from there on. ``seconds``
    since the run started, pauses included, and ``cpu`` seconds of its process are those of the same points, where they
    are known."""

    steps: Array
    values: Array
    seconds: Array | None = None
    cpu: Array | None = None

    def places(self, axis: Axis) -> Array | None:
        """Where the points lie along an axis, None where that was not recorded."""
        return {Axis.STEP: self.steps, Axis.TIME: self.seconds, Axis.CPU: self.cpu}[axis]

    def at(self, wanted: Array, axis: Axis = Axis.STEP) -> Array:
        """Not a number where nothing was returned yet."""
        places = self.places(axis)
        if places is None or not len(places):
            return np.full(len(wanted), np.nan)
        place = np.searchsorted(places, wanted, side="right") - 1
        return np.where(place >= 0, self.values[np.maximum(place, 0)], np.nan)


@dataclass(frozen=True)
class Measured:
    """One run and its score; ``why_not`` instead of it where it has none."""

    run: pb.Run
    score: float = math.nan
    why_not: str = ""
    curve: Curve | None = None


def recent_means(steps: Sequence[float] | Array, returns: Sequence[float] | Array) -> Curve:
    """From the returns of single episodes; one that is not a number makes the means that hold it none either."""
    return Curve(np.asarray(steps, dtype=np.float64), moving_means(np.asarray(returns, np.float64), RECENT_EPISODES))


def moving_means(values: Array, window: int) -> Array:
    """Of the newest so many values at each of them."""
    known = np.isfinite(values)
    sums = np.concatenate(([0.0], np.cumsum(np.where(known, values, 0.0))))
    bad = np.concatenate(([0], np.cumsum(~known)))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - window)
    means = (sums[ends] - sums[begins]) / (ends - begins)
    return np.where(bad[ends] > bad[begins], np.nan, means)


def curve_of(client: TrainerClient, run: pb.Run) -> Curve | None:
    """None for a run that returned nothing."""
    ready = RECENT_MEANS[RETURN_TAG]
    for tag in (ready, RETURN_TAG):
        points = points_of(client, run, tag)
        if points is not None:
            values = points.values if tag == ready else moving_means(points.values, RECENT_EPISODES)
            return replace(points, values=values)
    return None


def points_of(client: TrainerClient, run: pb.Run, tag: str) -> Curve | None:
    """Every stored point of a metric in the order of its steps, None where there is none."""
    (series,) = client.metrics(run.run_id, [tag], max_points=MOST_POINTS)
    if not series.total_points:
        return None
    steps, values = np.array(series.steps, np.float64), np.array(series.values, np.float64)
    order = np.argsort(steps, kind="stable")  # a run that was taken up again may have written some of them twice
    steps = steps[order]
    return Curve(steps, values[order], _elapsed(run, np.array(series.wall_times)[order]), _cpu(client, run, steps))


def _elapsed(run: pb.Run, wall_times: Array) -> Array | None:
    """A clock that was set back stands still until it is where it was."""
    if not run.started_at or not len(wall_times):
        return None
    return np.asarray(np.maximum.accumulate(np.maximum(wall_times - run.started_at, 0.0)))


def _cpu(client: TrainerClient, run: pb.Run, steps: Array) -> Array | None:
    """Between the steps at which CPU time was recorded it is taken to grow evenly; before the first from nothing."""
    (series,) = client.metrics(run.run_id, [CPU_TAG], max_points=MOST_POINTS)
    known, at = np.array(series.values, np.float64), np.array(series.steps, np.float64)
    is_number = np.isfinite(known)
    if not is_number.any():
        return None
    seconds = np.interp(steps, [0.0, *at[is_number]], [0.0, *np.maximum.accumulate(known[is_number])])
    return np.asarray(np.maximum.accumulate(seconds))


def why_left_out(run: pb.Run, *, unfinished: bool) -> str:
    """Why a run does not count, "" for one that does. A run that failed did not reach what it would have; the program
    of several seeds shows their mean, and each of them counts itself."""
    if seeds := seeds_of(worker_settings(config_of(run.config_json))):
        return f"its {len(seeds)} seeds are runs of their own"
    if unfinished or run.outcome == Outcome.COMPLETED:
        return ""
    if run.state != RunState.TERM:
        return "not over yet"
    word = run.outcome.replace("_", " ")
    if run.reason.startswith(word):  # as the reason of a canceled run does
        return run.reason
    return f"{word}: {run.reason}" if run.reason else word


def trained(
    client: TrainerClient, runs: Iterable[pb.Run], *, at: int | None = None, unfinished: bool = False
) -> list[Measured]:
    """Each run with its score at its end, or at a step."""
    found = []
    for run in runs:
        reason = why_left_out(run, unfinished=unfinished)
        curve = None if reason else curve_of(client, run)
        if not reason and curve is None:
            reason = "no returns"
        if reason or curve is None:
            found.append(Measured(run, why_not=reason))
        elif at is not None and run.last_step < at:
            found.append(Measured(run, why_not=f"ended before step {at:,}: at {run.last_step:,}"))
        else:
            score = float(curve.at(np.array([math.inf if at is None else at]))[0])
            why_not = "" if math.isfinite(score) else "its return is not a number"
            found.append(Measured(run, score, why_not, curve))
    return found


def evaluated(paths: MosaicPaths, runs: Iterable[pb.Run]) -> list[Measured]:
    """Each run with the mean of the newest evaluation of its last checkpoint."""
    registry, found = TrainingRegistry(paths), []
    for run in runs:
        mean = _newest_mean(registry, run.run_id)
        if mean is None:
            found.append(Measured(run, why_not="never evaluated: `mosaic eval` does that"))
        else:
            found.append(Measured(run, mean))
    return found


def _newest_mean(registry: TrainingRegistry, run_id: str) -> float | None:
    try:
        results = kept(registry.find(f"{run_id}@last"))
    except CheckpointsError:
        return None
    modes: dict[str, Any] = results[-1].get("results", {}) if results else {}
    first: dict[str, Any] = next(iter(modes.values()), {})
    mean = modes.get("deterministic", first).get("mean")
    return float(mean) if isinstance(mean, int | float) and math.isfinite(mean) else None
