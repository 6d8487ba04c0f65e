"""What a trial is worth: the metric of a seed's runs, joined to one curve, read at a step. Blocking; for a thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gym_gui.services.sweeps.model import WORST, SweepSpec
from gym_gui.services.trainer.telemetry.store import TelemetryStore

_BEYOND = 2**62


def value_at(store: TelemetryStore, spec: SweepSpec, runs: Sequence[str], step: int | None = None) -> float | None:
    """The mean of the last points of the metric up to a step, or to the end; None where there are none. Of a run that
    went on from another one the earlier run counts up to where the later one begins: no step counts twice."""
    values: list[float] = []
    before = _BEYOND if step is None else step + 1
    for run_id in reversed(runs):
        found, begin = _newest_before(store, run_id, spec.metric, before, spec.last - len(values))
        values = [*found, *values]
        before = min(before, begin)
        if len(values) >= spec.last:
            break
    if not values:
        return None
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else -spec.sign() * WORST


def _newest_before(store: TelemetryStore, run_id: str, tag: str, before: int, most: int) -> tuple[list[float], int]:
    """The newest values below a step, and the step that the run's curve begins at."""
    size = max(256, 2 * most)
    while True:
        series = store.series(run_id, tag, after_step=-1, max_points=size)
        below = [value for at, value in zip(series.steps, series.values, strict=True) if at < before]
        if len(below) >= most or len(series.steps) >= series.total:
            return below[-most:], series.steps[0] if series.steps else before
        size *= 4


def logs_beyond(store: TelemetryStore, spec: SweepSpec, run_id: str, step: int) -> bool:
    """Whether the metric has a point at a step or later: what came before is stored then."""
    return bool(store.series(run_id, spec.metric, after_step=step - 1, max_points=1).steps)
