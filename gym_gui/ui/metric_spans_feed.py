"""Reads the numbers of metrics that columns show, beside the GUI and a few runs at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from PyQt6.QtCore import QObject, QTimer

from gym_gui.services.metric_spans import Spans, spans_of
from gym_gui.services.run_words import is_over
from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.models.extra_columns import MetricColumn
from gym_gui.ui.models.run_table import RunTable

_AT_ONCE = 40
_AGAIN_SECONDS = 10.0
"""How old the numbers of a run that goes on may be."""
_LOOK_MILLISECONDS = 2000
_MOST_RUNS = 2000
"""The newest ones: of more runs every point is read for none."""


class MetricSpansFeed(QObject):
    """Belongs to a table: whenever one of its columns shows a metric, every run gets its numbers, the newest first."""

    def __init__(self, bridge: TrainerBridge, table: RunTable) -> None:
        super().__init__(table)
        self._bridge, self._table = bridge, table
        self._read_at: dict[tuple[str, str], float] = {}
        self._is_reading = False
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_MILLISECONDS)
        self._timer.timeout.connect(self.look)

    @property
    def tags(self) -> list[str]:
        """The metrics that columns show and that do not come with every word on a run."""
        metrics = [metric for metric in map(MetricColumn.named, self._table.extras) if metric is not None]
        return sorted({metric.tag for metric in metrics})

    def follow(self) -> None:
        """The columns are others now."""
        if self.tags:
            self._timer.start()
            self.look()
        else:
            self._timer.stop()

    def look(self) -> None:
        tags = self.tags
        if self._is_reading or not tags or not self._bridge.connection.connected:
            return
        wanted = self._missing(tags)[:_AT_ONCE]
        if not wanted:
            return
        self._is_reading, now = True, time.monotonic()
        self._read_at |= {(run_id, tag): now for run_id in wanted for tag in tags}
        ask = partial(_asked, wanted, tags)
        self._bridge.call(ask, self._take, self._failed, owner=self)

    def _missing(self, tags: Sequence[str]) -> list[str]:
        now = time.monotonic()
        rows = sorted(self._table.order.rows.values(), key=lambda row: -row.run.created_at)[:_MOST_RUNS]
        found = []
        for row in rows:
            oldest = min(self._read_at.get((row.run_id, tag), 0.0) for tag in tags)
            ended_since = is_over(row.run) and oldest < row.received
            if not oldest or ended_since or (not is_over(row.run) and now - oldest > _AGAIN_SECONDS):
                found.append(row.run_id)
        return found

    def _take(self, found: dict[str, Spans]) -> None:
        self._is_reading = False
        self._table.take_spans(found)
        self.look()

    def _failed(self, _: str) -> None:
        """The daemon is away; the timer tries again."""
        self._is_reading = False
        self._read_at.clear()


def _asked(run_ids: Sequence[str], tags: Sequence[str], client: object) -> dict[str, Spans]:
    return spans_of(client, run_ids, tags)  # type: ignore[arg-type]
