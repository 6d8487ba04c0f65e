"""All metrics of one run, page by page: decoded where the pages arrive, stored where they are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from gym_gui.ui.plots.decimate import BINS, BlockExtremes, decimate
from gym_gui.ui.plots.series_buffer import MOST_POINTS, Floats, SeriesBuffer
from gym_gui.ui.plots.smoothing import Smoothed
from mosaic_protocol.events import RECORD_VERSION, MetricRow
from mosaic_protocol.headline import RECENT_EPISODES, RECENT_MEANS

_decoder: msgspec.json.Decoder[MetricRow] = msgspec.json.Decoder(MetricRow)


@dataclass(frozen=True)
class MetricBatch:
    """Some rows by tag, as (steps, wall times, values); ``last_row`` is how far the stream was read with them."""

    last_row: int
    columns: dict[str, tuple[Floats, Floats, Floats]] = field(default_factory=dict)
    unreadable: int = 0


def decode_batch(last_row: int, lines: Iterable[bytes]) -> MetricBatch:
    """Read metric rows; what a newer worker wrote in a way not known here is counted, never guessed."""
    gathered: dict[str, list[tuple[float, float, float]]] = {}
    unreadable = 0
    for line in lines:
        try:
            row = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            unreadable += 1
            continue
        if row.v > RECORD_VERSION:
            unreadable += 1
            continue
        for tag, value in row.values.items():
            gathered.setdefault(tag, []).append((row.step, row.t, np.nan if value is None else value))
    return MetricBatch(last_row, {tag: _columns(points) for tag, points in gathered.items()}, unreadable)


def _columns(points: list[tuple[float, float, float]]) -> tuple[Floats, Floats, Floats]:
    table = np.array(points, dtype=np.float64).T
    return table[0], table[1], table[2]


class Series:
    """One metric of one run: its points, the same smoothed, and either as few points as a screen can show."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self.buffer = SeriesBuffer(most)
        self._smoothed = Smoothed(self.buffer)
        self._extremes = {False: BlockExtremes(), True: BlockExtremes()}

    def values(self, smoothing: float) -> Floats:
        return self._smoothed.values(smoothing)

    def shown(
        self,
        x: Floats,
        low: float,
        high: float,
        smoothing: float,
        *,
        bins: int = BINS,
        logarithmic: bool = False,
    ) -> tuple[Floats, Floats]:
        """What to draw from ``low`` to ``high`` of ``x``, which has one entry for each point."""
        values = self.values(smoothing)
        extremes = self._extremes[smoothing > 0]
        extremes.follow(values, (smoothing, self.buffer.rewrites))
        return decimate(x, values, low, high, bins, blocks=extremes, logarithmic=logarithmic)


class RunMetrics:
    """The series of one run by tag. ``version`` changes with every batch, ``cursor`` says where to read on."""

    def __init__(self, run_id: str, most: int = MOST_POINTS) -> None:
        self.run_id = run_id
        self.cursor = 0
        self.version = 0
        self.unreadable = 0
        self.began = np.inf
        """The wall time of the earliest point, from which relative times count."""
        self.complete = False
        """Whether the run is over and all of it is here."""
        self.series: dict[str, Series] = {}
        self._most = most

    def take(self, batch: MetricBatch) -> None:
        for tag, (steps, wall_times, values) in batch.columns.items():
            if tag not in self.series:
                self.series[tag] = Series(self._room())
            self.series[tag].buffer.append(steps, wall_times, values)
            self.began = min(self.began, float(wall_times.min()))
        self.cursor = max(self.cursor, batch.last_row)
        self.unreadable += batch.unreadable
        self.version += 1

    def _room(self) -> int:
        """A little less for each further series, so that those which grow together are not thinned all at once."""
        return self._most - len(self.series) % 16 * (self._most // 64)

    def x(self, tag: str, *, as_time: bool) -> Floats:
        """Ascending: steps, or seconds since the run's first point."""
        buffer = self.series[tag].buffer
        if not as_time:
            return buffer.steps
        seconds = buffer.wall_times - self.began
        # Two streams of one run may cross by a moment; a search needs order.
        return seconds if np.all(seconds[1:] >= seconds[:-1]) else np.maximum.accumulate(seconds)

    def recent_episodes(self, tag: str) -> float | None:
        """The mean return or length of the newest episodes. Where a point stands for many, the run says it itself."""
        if (told := RECENT_MEANS.get(tag, "")) in self.series:
            return self.recent_mean(told, 1)
        return self.recent_mean(tag, RECENT_EPISODES)

    def recent_mean(self, tag: str, points: int) -> float | None:
        """The mean of the newest points that are numbers."""
        if tag not in self.series:
            return None
        values = self.series[tag].buffer.values[-points:]
        values = values[np.isfinite(values)]
        return float(values.mean()) if len(values) else None
