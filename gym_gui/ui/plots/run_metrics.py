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
from mosaic_protocol.headline import CPU_TAG, RECENT_EPISODES, RECENT_MEANS

STEP, TIME, CLOCK, CPU = "step", "time", "clock", "cpu"
"""What curves are drawn over: steps, seconds since a run's first point, the time of day, seconds of CPU time. Any other
word is the tag of a metric that never falls."""

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
        self.low: tuple[float, float] | None = None
        """(value, step) of the lowest point that was ever there, also when it was thinned out since."""
        self.high: tuple[float, float] | None = None
        self.rises = True
        """Whether no value is below the one before it; what falls is no axis."""
        self._last = -np.inf
        self._smoothed = Smoothed(self.buffer)
        self._extremes = {False: BlockExtremes(), True: BlockExtremes()}

    def append(self, steps: Floats, wall_times: Floats, values: Floats) -> None:
        self.buffer.append(steps, wall_times, values)
        known = np.isfinite(values)
        if not known.any():
            return
        steps, values = steps[known], values[known]
        lowest, highest = int(values.argmin()), int(values.argmax())
        if self.low is None or values[lowest] < self.low[0]:
            self.low = (float(values[lowest]), float(steps[lowest]))
        if self.high is None or values[highest] > self.high[0]:
            self.high = (float(values[highest]), float(steps[highest]))
        self.rises = self.rises and bool(values[0] >= self._last and np.all(values[1:] >= values[:-1]))
        self._last = float(values[-1])

    @property
    def is_axis(self) -> bool:
        """Whether other metrics can be drawn over it."""
        return self.rises and self.low is not None and self.high is not None and self.high[0] > self.low[0]

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
        self._placed: dict[tuple[str, str], tuple[tuple[int, int], Floats]] = {}

    def take(self, batch: MetricBatch) -> None:
        for tag, (steps, wall_times, values) in batch.columns.items():
            if tag not in self.series:
                self.series[tag] = Series(self._room())
            self.series[tag].append(steps, wall_times, values)
            self.began = min(self.began, float(wall_times.min()))
        self.cursor = max(self.cursor, batch.last_row)
        self.unreadable += batch.unreadable
        self.version += 1

    def _room(self) -> int:
        """A little less for each further series, so that those which grow together are not thinned all at once."""
        return self._most - len(self.series) % 16 * (self._most // 64)

    def has_axis(self, by: str) -> bool:
        """Whether the run knows where its points lie on such an axis."""
        if by in (STEP, TIME, CLOCK):
            return True
        series = self.series.get(CPU_TAG if by == CPU else by)
        return series is not None and series.low is not None

    def x(self, tag: str, by: str = STEP) -> Floats:
        """Ascending, for each point of a metric where it lies on an axis that :meth:`has_axis`."""
        buffer = self.series[tag].buffer
        if by == STEP:
            return buffer.steps
        if by in (TIME, CLOCK):
            seconds = buffer.wall_times - (self.began if by == TIME else 0.0)
            # Two streams of one run may cross by a moment; a search needs order.
            return seconds if np.all(seconds[1:] >= seconds[:-1]) else np.maximum.accumulate(seconds)
        return self._over(tag, CPU_TAG if by == CPU else by)

    def _over(self, tag: str, axis: str) -> Floats:
        """Between its own points the axis is taken to grow evenly. Kept until there are new ones: a curve may have a
        million."""
        points, along = self.series[tag].buffer, self.series[axis].buffer
        versions = (points.version, along.version)
        kept = self._placed.get((tag, axis))
        if kept is not None and kept[0] == versions:
            return kept[1]
        known = np.isfinite(along.values)
        steps, values = along.steps[known], np.maximum.accumulate(along.values[known])
        if axis == CPU_TAG:  # which begins with nothing
            steps, values = np.concatenate(([0.0], steps)), np.concatenate(([0.0], values))
        found: Floats = np.interp(points.steps, steps, values)
        self._placed[tag, axis] = (versions, found)
        return found

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
