"""The cockpit's table of runs with 10,000 of them: opening, scrolling, and taking in what changes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.daemon import BenchmarkError, ScratchHome
from benchmarks.report import Line, Section, Target, percentile
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb

if TYPE_CHECKING:
    from gym_gui.ui.app import CockpitApp
    from gym_gui.ui.panels.runs_panel import RunsPanel

NAME = "cockpit_runs_table"
TITLE = "The table of 10,000 runs in the cockpit"
METHOD = """\
The cockpit's window with the runs view alone, 1280x800, on Qt's offscreen platform, without a daemon: 10,000 runs of
8 algorithms, 40 of them live, are put into the run book. Opening is from the first line of code that makes the view
until it is painted. A scroll frame moves the table by 90 pixels and paints it at once. An update is one batch as the
bridge delivers it once a second, with new steps of all live runs, painted at once. Sorting, grouping and a filter are
each measured from the choice until the painted result. A setting is filtered by as somebody types it: the expression
is understood, checked against the settings of all runs, and the result painted. The first time the configs are read.
What counts there is the CPU time of the cockpit, which is what filtering costs; the time that passed is told beside."""

RUNS = 10_000
LIVE = 40
_ALGORITHMS = ("ppo", "dqn", "c51", "ppo_atari", "sac_continuous_action", "td3_continuous_action", "ppg", "ppo_rnd")


def run(*, quick: bool = False) -> Section:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PyQt6.QtWidgets import QApplication

    app = QApplication.instance() or QApplication(["benchmark"])
    assert isinstance(app, QApplication)
    times = 3 if quick else 7
    runs = [_made(number) for number in range(RUNS)]
    with ScratchHome() as paths:
        opened = [_opened(app, paths, runs) for _ in range(times)]
        with _cockpit(app, paths) as cockpit:
            panel = _panel(cockpit, runs)
            lines = _lines(app, panel, cockpit, runs, times)
    target = Target("<", 500)
    return Section(NAME, TITLE, METHOD, [Line(f"Opening the table with {RUNS:,} runs", opened, "ms", target), *lines])


def _lines(app: Any, panel: RunsPanel, cockpit: CockpitApp, runs: list[pb.Run], times: int) -> list[Line]:
    frames = _scroll_frames(panel, 100 * times)
    updates = [_update(cockpit, panel, runs, number) for number in range(10 * times)]
    sorts = [_shown(panel, sort=name) for name in ("name", "return", "steps", "created")]
    groups = [_shown(panel, grouping=name) for name in ("algorithm", "environment", "")]
    filters = [_shown(panel, words=(word,)) for word in ("dqn", "run-77", "")]
    first = _typed(panel, "learning_rate<0.004")
    settings = [_typed(panel, f"learning_rate<0.00{number % 8 + 2}") for number in range(4 * times)]
    if not 0 < panel.table.rowCount() < RUNS:
        raise BenchmarkError(f"the filter let {panel.table.rowCount()} of {RUNS} runs through")
    _typed(panel, "")
    panel.list.columns.show("setting:learning_rate", True)
    number = panel.table.number_of("setting:learning_rate")
    by_setting = [_shown(panel, sort=panel.table.columns[number].name, descending=one) for one in (True, False)]
    return [
        Line("Scroll frame", frames, "ms", Target("<", 16.7)),
        Line("Scroll frame, 99th percentile", [percentile(frames, 99)], "ms"),
        Line(f"Update of {LIVE} live runs", updates, "ms", Target("<", 33)),
        Line("Sorting by another column", sorts, "ms"),
        Line("Grouping", groups, "ms"),
        Line("Filtering", filters, "ms"),
        Line("CPU time of filtering by a setting", [cpu for _, cpu in settings], "ms", Target("<", 50)),
        Line("CPU time of filtering by a setting, slowest", [max(cpu for _, cpu in settings)], "ms"),
        Line("Filtering by a setting", [passed for passed, _ in settings], "ms"),
        Line("Filtering by a setting for the first time", [first[0]], "ms"),
        Line("Sorting by a setting", by_setting, "ms"),
    ]


def _made(number: int) -> pb.Run:
    live = number >= RUNS - LIVE
    params = {"learning_rate": (number % 9 + 1) / 1000, "num_envs": 4 * (1 + number % 4), "anneal_lr": number % 2 == 0}
    settings = {"seed": number % 10, "total_timesteps": 100_000, "params": params}
    config = {"resources": {}, "metadata": {"worker": {"type": "cleanrl", "config": settings}}}
    return pb.Run(
        run_id=f"{number:026d}",
        name=f"run-{number}",
        state="EXEC" if live else "TERM",
        outcome="" if live else ("completed" if number % 10 else "failed"),
        desired="run",
        algo=_ALGORITHMS[number % len(_ALGORITHMS)],
        env_id=f"Environment-v{number % 20}",
        worker_type="cleanrl",
        config_json=json.dumps(config),
        created_at=1_700_000_000.0 + number,
        active_seconds=100.0,
        last_step=50_000 if live else 100_000,
        total_steps=100_000,
        headline={"mean_return": number % 500, "charts/SPS": 4000.0 + number % 1000},
    )


@contextmanager
def _cockpit(app: Any, paths: MosaicPaths) -> Iterator[CockpitApp]:
    from gym_gui.ui.app import CockpitApp

    cockpit = CockpitApp(app, paths, (), start_daemon=False)
    try:
        yield cockpit
    finally:
        cockpit.close()
        cockpit.window.deleteLater()
        app.processEvents()


def _panel(cockpit: CockpitApp, runs: list[pb.Run]) -> RunsPanel:
    """The view in the window, with the runs, painted."""
    from PyQt6.QtTest import QTest

    from gym_gui.ui.panels.runs_panel import RunsPanel

    cockpit.window.cockpit.runs.take(runs)
    panel = RunsPanel(cockpit.window.cockpit)
    cockpit.window.setCentralWidget(panel)
    cockpit.window.resize(1280, 800)
    cockpit.window.show()
    QTest.qWaitForWindowExposed(cockpit.window)  # type: ignore[call-overload]
    _paint(panel)
    if panel.table.rowCount() != len(runs):
        raise BenchmarkError(f"the table has {panel.table.rowCount()} of {len(runs)} runs")
    return panel


def _opened(app: Any, paths: MosaicPaths, runs: list[pb.Run]) -> float:
    with _cockpit(app, paths) as cockpit:
        return _timed(lambda: _panel(cockpit, runs))


def _paint(panel: RunsPanel) -> None:
    """Everything that waits for it, now."""
    panel.list.viewport().repaint()  # type: ignore[union-attr]


def _painted_cells(panel: RunsPanel) -> int:
    return panel.list.delegate.painted


def _scroll_frames(panel: RunsPanel, count: int) -> list[float]:
    bar = panel.list.verticalScrollBar()
    assert bar is not None

    def frame(number: int) -> None:
        bar.setValue(number * 90)
        _paint(panel)

    painted = _painted_cells(panel)
    frames = [_timed(partial(frame, number)) for number in range(count)]
    if _painted_cells(panel) - painted < count:
        raise BenchmarkError("the table was scrolled without being painted")
    return frames


def _shown(panel: RunsPanel, **choices: Any) -> float:
    def show() -> None:
        panel.table.show(**choices)
        _paint(panel)

    return _timed(show)


def _typed(panel: RunsPanel, expression: str) -> tuple[float, float]:
    """Milliseconds that passed, and of CPU time."""

    def filter_by_it() -> None:
        panel.filters.use({"text": expression})
        _paint(panel)

    used = time.process_time()
    passed = _timed(filter_by_it)
    return passed, 1000 * (time.process_time() - used)


def _update(cockpit: CockpitApp, panel: RunsPanel, runs: list[pb.Run], number: int) -> float:
    changed = []
    for run_ in runs[-LIVE:]:
        new = pb.Run()
        new.CopyFrom(run_)
        new.last_step += 100 * (number + 1)
        changed.append(new)

    def take() -> None:
        cockpit.window.cockpit.runs.take(changed)
        _paint(panel)

    return _timed(take)


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)
