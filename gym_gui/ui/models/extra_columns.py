"""Columns that people add to the list of runs: settings, and numbers of metrics. Without Qt.

A column is its name: ``setting:learning_rate``, ``metric:charts/SPS:last``. So a view that names it needs nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from gym_gui.services.run_labels import Scalar
from gym_gui.services.run_words import quantity
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, COLUMNS, Column, RunRow

SETTING, METRIC = "setting:", "metric:"
KINDS = ("last", "best", "min", "max")
_LOWER_IS_BETTER = ("loss", "error", "regret", "gap")
_WIDTH = 96


@dataclass(frozen=True)
class MetricColumn:
    """Which number of which metric a column shows."""

    tag: str
    kind: str

    @property
    def name(self) -> str:
        return f"{METRIC}{self.tag}:{self.kind}"

    @property
    def is_lowest(self) -> bool:
        """Whether it is the lowest value of the curve: also the best of a loss or an error."""
        return self.kind == "min" or (self.kind == "best" and lower_is_better(self.tag))

    @classmethod
    def named(cls, name: str) -> MetricColumn | None:
        tag, _, kind = name.removeprefix(METRIC).rpartition(":")
        return cls(tag, kind) if name.startswith(METRIC) and tag and kind in KINDS else None


def lower_is_better(tag: str) -> bool:
    """Whether the best of a metric is its lowest value: of losses and errors."""
    return any(word in tag for word in _LOWER_IS_BETTER)


def column_named(name: str) -> Column | None:
    """A column of every list, or one that was added; None for a name that is none."""
    number = COLUMN_NUMBERS.get(name)
    return COLUMNS[number] if number is not None else _extra(name)


def title_of(name: str) -> str:
    """What a column that was added is called."""
    metric = MetricColumn.named(name)
    if metric is None:
        return name.removeprefix(SETTING)
    return f"{metric.tag.rpartition('/')[2] or metric.tag} {metric.kind}"


@lru_cache(1000)
def _extra(name: str) -> Column | None:
    if name.startswith(SETTING) and len(name) > len(SETTING):
        return _setting_column(name)
    metric = MetricColumn.named(name)
    return _metric_column(metric) if metric is not None else None


def _setting_column(name: str) -> Column:
    setting = name.removeprefix(SETTING)

    def key(row: RunRow) -> Scalar | None:
        value = row.setting(setting)
        return value.lower() if isinstance(value, str) else value

    def text(row: RunRow, now: float) -> str:
        value = row.setting(setting)
        return "" if value is None else str(value)

    return Column(name, _WIDTH, text, key, right=True)


def _metric_column(metric: MetricColumn) -> Column:
    def key(row: RunRow) -> float | None:
        value = measured(row, metric)
        return None if value is None or math.isnan(value) else value

    def text(row: RunRow, now: float) -> str:
        value = key(row)
        return "" if value is None else quantity(value)

    return Column(metric.name, _WIDTH, text, key, right=True, largest_first=not metric.is_lowest)


def measured(row: RunRow, metric: MetricColumn) -> float | None:
    """None while nobody has read it. The newest value of a headline number comes with every word on the run."""
    if metric.kind == "last" and metric.tag in row.run.headline:
        return float(row.run.headline[metric.tag])
    span = row.spans.get(metric.tag)
    if span is None:
        return None
    if metric.kind == "last":
        return span.last
    return span.low if metric.is_lowest else span.high
