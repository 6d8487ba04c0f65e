"""The metrics of the runs that somebody looks at: what is stored first, then what comes, each row once.

Rows are decoded in the thread that reads them; the GUI's thread only appends arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.ui.bridge import Feed, Stream, TrainerBridge
from gym_gui.ui.plots.run_metrics import MetricBatch, RunMetrics, decode_batch
from gym_gui.ui.run_marks import RunMarks
from mosaic_protocol.states import RunState

MOST_RUNS = 16
"""How many runs are followed at once for one who looks: each takes a thread and a connection while it lives."""
KEPT_RUNS = 8
"""How many runs nobody looks at any more are remembered, so that a look back is immediate."""


class MetricsStore(QObject):
    """Series by run. Lives in the GUI's thread; :meth:`of` gives the one store of a bridge.

    Signals: ``tags_changed(str)`` when a run has a metric that it had not before; ``arrived(str)`` when there is
    anything new of a run; ``failed(str, str)`` with the sentence why a run's metrics cannot be read.
    """

    tags_changed = pyqtSignal(str)
    arrived = pyqtSignal(str)
    failed = pyqtSignal(str, str)

    def __init__(self, bridge: TrainerBridge) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self._runs: dict[str, RunMetrics] = {}
        self._feeds: dict[str, Feed] = {}
        self._lookers: dict[QObject, list[str]] = {}
        self._colours: dict[str, int] = {}

    @classmethod
    def of(cls, bridge: TrainerBridge) -> MetricsStore:
        """The store that all parts of one cockpit share."""
        found: MetricsStore | None = bridge.findChild(cls)
        return cls(bridge) if found is None else found

    # ---- looking -------------------------------------------------------------------------------------------------

    def look(self, looker: QObject, run_ids: Sequence[str]) -> None:
        """From now on ``looker`` looks at these runs and no others; none when it is deleted. Beyond
        :data:`MOST_RUNS` the rest is left out."""
        if looker not in self._lookers:
            looker.destroyed.connect(partial(self._leave, looker))
        self._lookers[looker] = list(dict.fromkeys(run_ids))[:MOST_RUNS]
        self._settle()

    def metrics(self, run_id: str) -> RunMetrics | None:
        """What is known of a run; grows while somebody looks at it."""
        return self._runs.get(run_id)

    def give_colours(self, run_ids: Sequence[str]) -> None:
        """These are the runs on show: each has a colour of its own, and one that was there before keeps it."""
        self._colours = {run_id: number for run_id, number in self._colours.items() if run_id in run_ids}
        for run_id in run_ids:
            if run_id not in self._colours:
                taken = set(self._colours.values())
                self._colours[run_id] = next(number for number in range(len(taken) + 1) if number not in taken)

    def colour_number(self, run_id: str) -> int:
        """Which of the theme's curve colours a run has: the one that a person gave it, or one of its own."""
        marks: RunMarks | None = self._bridge.findChild(RunMarks)
        chosen = marks.colours.get(run_id) if marks is not None else None
        return self._colours.get(run_id, 0) if chosen is None else chosen

    @property
    def followed(self) -> list[str]:
        """The runs whose stream is open."""
        return list(self._feeds)

    def _leave(self, looker: QObject, *_: object) -> None:
        if self._lookers.pop(looker, None) is not None:
            self._settle()

    def _settle(self) -> None:
        wanted = list(dict.fromkeys(run_id for ids in self._lookers.values() for run_id in ids))
        for run_id in [run_id for run_id in self._feeds if run_id not in wanted]:
            self._close(run_id, stop=True)
        for run_id in wanted:
            # Taken out and put back: those that were looked at last are remembered longest.
            metrics = self._runs.pop(run_id, None)
            self._runs[run_id] = metrics or RunMetrics(run_id)
            if metrics is None or not (metrics.complete or run_id in self._feeds):
                self._open(run_id)
        idle = [run_id for run_id in self._runs if run_id not in wanted]
        for run_id in idle[: max(0, len(idle) - KEPT_RUNS)]:
            del self._runs[run_id]

    # ---- streams -------------------------------------------------------------------------------------------------

    def _open(self, run_id: str) -> None:
        feed = self._bridge.follow(metric_batches(run_id, self._runs[run_id].cursor), self)
        feed.arrived.connect(partial(self._take, run_id))
        feed.ended.connect(partial(self._end, run_id))
        feed.failed.connect(partial(self._fail, run_id))
        self._feeds[run_id] = feed

    def _close(self, run_id: str, *, stop: bool = False) -> None:
        feed = self._feeds.pop(run_id, None)
        if feed is not None:
            if stop:
                feed.stop()
            feed.deleteLater()

    def _take(self, run_id: str, batches: list[MetricBatch]) -> None:
        metrics = self._runs.get(run_id)
        if metrics is None:
            return
        known = len(metrics.series)
        for batch in batches:
            metrics.take(batch)
        if len(metrics.series) > known:
            self.tags_changed.emit(run_id)
        self.arrived.emit(run_id)

    def _end(self, run_id: str) -> None:
        self._close(run_id)
        metrics = self._runs.get(run_id)
        if metrics is not None:
            metrics.complete = True
            self.arrived.emit(run_id)

    def _fail(self, run_id: str, sentence: str) -> None:
        self._close(run_id)
        self.failed.emit(run_id, sentence)


def metric_batches(run_id: str, known: int) -> Stream:
    """The stream of a run's metrics after the row ``known``, until the run is over and everything was read."""

    def stream(client: TrainerClient, after: int) -> Iterator[tuple[int, Any]]:
        cursor = max(after, known)
        for follow in (True, False):
            for page in client.stream("metrics", run_id, after_row=cursor, follow=follow):
                cursor = int(page.last_row)
                yield cursor, decode_batch(cursor, page.records)
            # A daemon that leaves in good order ends its streams as if all had been said.
            if follow and client.run(run_id).state != RunState.TERM:
                raise ClientError("the daemon left before the run was over", "UNAVAILABLE")

    return stream
