"""Whether the cockpit stays smooth while it draws long curves: real paints and real stalls of a window under Xvfb."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.daemon import BenchmarkError
from benchmarks.machine import memory_mb
from benchmarks.report import Line, Section, Target, percentile
from benchmarks.xvfb import measured_under_xvfb

NAME = "cockpit_streaming"
TITLE = "The cockpit under streaming metrics"
METHOD = """\
A window of 1280x800 under Xvfb with the cockpit's own widgets: six plots of 1,000,000 points each (drawn raw and
smoothed), and the view of the environment with 600x400 pictures at 60 a second. A thread decodes a page of metric rows
ten times a second, as the cockpit's streams do, and the event loop takes them up. FPS counts the paint events of the
view; a stall is the longest time between two beats of a 5 ms timer in the event loop, after a warm-up in which the
curves are first drawn. Its CPU time is what the cockpit itself did between two beats: the rest of a stall is the
machine being busy with others. Memory growth is the slope of a line through the resident memory, sampled once a second;
the points that arrive meanwhile are part of it, and told for themselves."""

POINTS = 1_000_000
PLOTS = 6
ROWS_A_PAGE = 10
PAGE_SECONDS = 0.1
SMOOTHING = 0.9
BEAT_MILLISECONDS = 5
WARM_UP_SECONDS = 5.0
BYTES_A_POINT = 32  # step, wall time, value, smoothed value


@dataclass(frozen=True)
class Measured:
    """What one window saw."""

    seconds: float
    frames_per_second: float
    plots_per_second: float
    longest_stall_ms: float
    usual_stall_ms: float
    longest_work_ms: float
    megabytes_per_minute: float
    resident_mb: float
    points: int


def run(*, quick: bool = False) -> Section:
    rounds, seconds = (1, 15.0) if quick else (3, 60.0)
    windows = [measure_under_xvfb(seconds) for _ in range(rounds)]
    grown = [window.megabytes_per_minute for window in windows]
    arriving = PLOTS * ROWS_A_PAGE / PAGE_SECONDS * 60 * BYTES_A_POINT / 2**20
    what = f"{PLOTS} plots of {POINTS:,} points streaming at 10 Hz"
    lines = [
        Line(f"{what}: paints of the 600x400 view", [w.frames_per_second for w in windows], "FPS", Target("≥", 30)),
        Line(f"{what}: longest stall of the GUI", [w.longest_stall_ms for w in windows], "ms", Target("<", 100)),
        Line(f"{what}: most CPU time between two beats", [w.longest_work_ms for w in windows], "ms", Target("<", 100)),
        Line(f"{what}: 99th percentile of the beats", [w.usual_stall_ms for w in windows], "ms"),
        Line(f"{what}: paints of each plot", [w.plots_per_second for w in windows], "/s"),
        Line("Growth of memory while streaming", grown, "MB/min"),
        Line("Of this, points that arrived", [arriving], "MB/min"),
        Line("Resident memory of the window", [w.resident_mb for w in windows], "MB"),
    ]
    return Section(NAME, TITLE, METHOD, lines)


def measure_under_xvfb(seconds: float) -> Measured:
    """Measure in a process of its own on a screen of its own; both are gone afterwards."""
    return Measured(
        **measured_under_xvfb("benchmarks.cockpit_streaming", ["--seconds", str(seconds)], seconds * 3 + 120)
    )


# ---- in the process of the window --------------------------------------------------------------------------------


class Pages(threading.Thread):
    """Metric rows as the daemon sends them, decoded here as the cockpit's streams do, ten pages a second."""

    def __init__(self, tags: list[str]) -> None:
        super().__init__(name="pages", daemon=True)
        self._tags = tags
        self.batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stopped = threading.Event()

    def run(self) -> None:
        from gym_gui.ui.plots.run_metrics import decode_batch
        from mosaic_protocol import events

        step = POINTS
        while not self.stopped.wait(PAGE_SECONDS):
            rows = []
            for _ in range(ROWS_A_PAGE):
                step += 1
                values: dict[str, float | None] = dict.fromkeys(self._tags, float(step % 977))
                rows.append(events.encode(events.MetricRow(step=step, values=values, seq=step, t=time.time())))
            self.batches.put(decode_batch(step, rows))


class Window:
    """The widgets, what feeds them, and what is counted."""

    def __init__(self) -> None:
        from PyQt6.QtCore import Qt, QTimer
        from PyQt6.QtWidgets import QApplication, QHBoxLayout, QScrollArea, QWidget

        from gym_gui.ui.plots.drawing import Curve, PlotOptions
        from gym_gui.ui.plots.plot_grid import PlotGrid
        from gym_gui.ui.theme import Themes
        from gym_gui.ui.widgets.frame_view import FrameView

        self.app = QApplication(["cockpit-streaming"])
        self.metrics = _filled_metrics()
        self.grid = PlotGrid(Themes(self.app))
        self.grid.set_options(PlotOptions(smoothing=SMOOTHING))
        self.grid.set_curves([Curve("run", "run", 0, (self.metrics,))])
        self.view = FrameView()
        self.view.setFixedSize(600, 400)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setWidget(self.grid)
        self.window = QWidget()
        layout = QHBoxLayout(self.window)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        layout.addWidget(scroll, 1)
        self.window.setGeometry(0, 0, 1280, 800)
        self.pages = Pages(list(self.metrics.series))
        self.frames = _frames()
        self.beats: list[float] = []
        self.work: list[float] = []
        self.memory: list[tuple[float, float]] = []
        self._timers = []
        for milliseconds, act in (
            (1000 // 60, self._next_frame),
            (33, self._drain),
            (BEAT_MILLISECONDS, self._beat),
            (1000, self._weigh),
        ):
            timer = QTimer()
            timer.setTimerType(Qt.TimerType.PreciseTimer)
            timer.timeout.connect(act)
            timer.start(milliseconds)
            self._timers.append(timer)

    def _next_frame(self) -> None:
        self.frames.append(self.frames.pop(0))
        self.view.show_frame(self.frames[0])

    def _drain(self) -> None:
        while not self.pages.batches.empty():
            self.metrics.take(self.pages.batches.get())

    def _beat(self) -> None:
        self.beats.append(time.perf_counter())
        self.work.append(time.thread_time())

    def _weigh(self) -> None:
        self.memory.append((time.perf_counter(), memory_mb(os.getpid())[0]))

    def measure(self, seconds: float) -> Measured:
        self.window.show()
        self.pages.start()
        self._run(WARM_UP_SECONDS)
        cards = list(self.grid.cards.values())
        if len(cards) != PLOTS or not all(card.plot.is_seen and card.plot.has_points for card in cards):
            raise BenchmarkError(f"not all of {PLOTS} plots are drawn on the screen after {WARM_UP_SECONDS:g} s")
        frames, paints = self.view.paints, sum(card.plot.paints for card in cards)
        self.beats.clear()
        self.work.clear()
        self.memory.clear()
        began = time.perf_counter()
        self._run(seconds)
        passed = time.perf_counter() - began
        painted = sum(card.plot.paints for card in cards) - paints
        self.pages.stopped.set()
        self.pages.join()
        gaps, work = _gaps_ms(self.beats), _gaps_ms(self.work)
        return Measured(
            seconds=passed,
            frames_per_second=(self.view.paints - frames) / passed,
            plots_per_second=painted / PLOTS / passed,
            longest_stall_ms=max(gaps),
            usual_stall_ms=percentile(gaps, 99),
            longest_work_ms=max(work),
            megabytes_per_minute=_slope(self.memory) * 60,
            resident_mb=self.memory[-1][1],
            points=sum(len(series.buffer) for series in self.metrics.series.values()),
        )

    def _run(self, seconds: float) -> None:
        from PyQt6.QtCore import QEventLoop, QTimer

        loop = QEventLoop()  # leaving the application's own would close the window
        QTimer.singleShot(int(1000 * seconds), loop.quit)
        loop.exec()


def _filled_metrics() -> Any:
    import numpy as np

    from gym_gui.ui.plots.run_metrics import MetricBatch, RunMetrics

    metrics = RunMetrics("run")
    generator = np.random.default_rng(1)
    steps = np.arange(1.0, POINTS + 1)
    tags = [f"charts/metric_{number}" for number in range(PLOTS)]
    for begin in range(0, POINTS, 100_000):
        part = steps[begin : begin + 100_000]
        noise = {tag: 500 + 50 * generator.standard_normal(len(part)) for tag in tags}
        columns = {tag: (part, 1e9 + part / 100, values) for tag, values in noise.items()}
        metrics.take(MetricBatch(begin, columns))
    return metrics


def _frames() -> list[Any]:
    import numpy as np

    generator = np.random.default_rng(2)
    return [generator.integers(0, 256, (400, 600, 3), dtype=np.uint8) for _ in range(8)]


def _gaps_ms(times: list[float]) -> list[float]:
    return [1000 * (later - earlier) for earlier, later in itertools.pairwise(times)]


def _slope(samples: list[tuple[float, float]]) -> float:
    import numpy as np

    if len(samples) < 2:
        return float("nan")
    times, values = zip(*samples, strict=True)
    return float(np.polyfit(times, values, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure one window on the screen that is there, and print JSON.")
    parser.add_argument("--seconds", type=float, default=20.0)
    print(json.dumps(asdict(Window().measure(parser.parse_args().seconds))))


if __name__ == "__main__":
    main()
