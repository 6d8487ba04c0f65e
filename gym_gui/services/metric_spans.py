"""The last, lowest and highest value of a run's metrics, for a table of runs. Without Qt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gym_gui.services.compare.measures import moving_means
from mosaic_protocol.headline import MEAN_RETURN, RECENT_EPISODES, RECENT_MEANS, RETURN_TAG

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_POINTS = 1_000_000


@dataclass(frozen=True)
class Span:
    """Not a number for a metric without one."""

    last: float
    low: float
    high: float


Spans = Mapping[str, Span]
"""By tag."""


def spans_of(client: TrainerClient, run_ids: Iterable[str], tags: Sequence[str]) -> dict[str, Spans]:
    """By run. Reads every point: for a thread that may wait. A run that is gone meanwhile has none."""
    from gym_gui.services.trainer.client import NoSuchRunError

    found: dict[str, Spans] = {}
    for run_id in run_ids:
        try:
            series = {one.tag: one for one in client.metrics(run_id, _asked(tags), max_points=_MOST_POINTS)}
        except NoSuchRunError:
            series = {}
        found[run_id] = {tag: span_of(series[tag].values) for tag in tags if tag in series}
        if MEAN_RETURN in tags:
            found[run_id] = {**found[run_id], MEAN_RETURN: span_of(_mean_returns(series))}
    return found


def _asked(tags: Sequence[str]) -> list[str]:
    own = [tag for tag in tags if tag != MEAN_RETURN]
    return [*own, RETURN_TAG, RECENT_MEANS[RETURN_TAG]] if MEAN_RETURN in tags else own


def _mean_returns(series: Mapping[str, pb.MetricSeries]) -> Sequence[float]:
    """The mean of the newest 100 returns, from the 100th on: one lucky episode at the beginning is no best."""
    ready = series.get(RECENT_MEANS[RETURN_TAG])
    if ready is not None and len(ready.values):
        return list(ready.values)
    single = series.get(RETURN_TAG)
    if single is None or not len(single.values):
        return []
    means = moving_means(np.array(single.values, np.float64), RECENT_EPISODES)
    return [float(value) for value in means[min(RECENT_EPISODES, len(means)) - 1 :]]


def span_of(values: Iterable[float]) -> Span:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Span(math.nan, math.nan, math.nan)
    return Span(known[-1], min(known), max(known))
