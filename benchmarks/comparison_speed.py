"""How long comparisons, pictures and reports take, and how large a report is."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from ulid import ULID

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, ppo_config
from benchmarks.machine import cpu_seconds
from benchmarks.report import Line, Section, Target
from gym_gui.services.run_labels import config_of, labels_in
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from mosaic_protocol import events
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import parse_run_config, to_json
from mosaic_protocol.states import Outcome, RunState

NAME = "comparison_speed"
TITLE = "Comparisons, pictures and reports"
METHOD = """\
100 finished runs of two groups with 10,000 returns each are put into registry and store before the daemon starts. Each
figure is a whole command in a process of its own, from its start to its end, over a daemon that runs:
`mosaic compare` with 2,000 resamples, with its curves and profiles as JSON, and as an HTML report; `mosaic plot` of
10 runs as PNG and as SVG. CPU time is that of the command and of the daemon together, which work one after
the other. The report whose size counts is of 30 of the runs."""

RUNS, POINTS = 100, 10_000
_LINES_AT_ONCE = 500
ALL = ('name=a-* as "A"', 'name=b-* as "B"')
THIRTY = ('name=a-* seed=0..14 as "A"', 'name=b-* seed=50..64 as "B"')
TEN = ("name=a-* seed=0..9",)


def run(*, quick: bool = False) -> Section:
    times = 2 if quick else 5
    with ScratchHome() as paths:
        _fill(paths)
        with BenchDaemon(paths) as daemon:
            daemon.client.runs(size=1)
            report, picture = paths.root / "report.html", paths.root / "plot"
            lines = [
                *_timed(daemon, times, "100 runs × 10,000 points, 2,000 resamples", ["compare", *ALL], Target("<", 5)),
                *_timed(
                    daemon,
                    times,
                    "The same with curves and profiles, as JSON",
                    ["compare", *ALL, "--json"],
                    Target("<", 5),
                ),
                *_timed(daemon, times, "Report of 30 runs", ["compare", *THIRTY, "--force", "--out", str(report)]),
                Line("Size of the report of 30 runs", [report.stat().st_size / 1e6], "MB", Target("<", 5)),
                *_timed(daemon, times, "Plot of 10 runs, PNG", _plot(picture.with_suffix(".png")), Target("<", 2)),
                *_timed(daemon, times, "Plot of 10 runs, SVG", _plot(picture.with_suffix(".svg")), Target("<", 2)),
            ]
    return Section(NAME, TITLE, METHOD, lines)


def _plot(file: Path) -> list[str]:
    return ["plot", *TEN, "--force", "--out", str(file)]


def _timed(
    daemon: BenchDaemon, times: int, what: str, words: Sequence[str], target: Target | None = None
) -> list[Line]:
    taken = [_command(daemon, words) for _ in range(times + 1)][1:]  # the first finds no file in the cache
    return [
        Line(what, [seconds for seconds, _ in taken], "s", target),
        Line(f"{what}: CPU time of command and daemon", [cpu for _, cpu in taken], "s"),
    ]


def _command(daemon: BenchDaemon, words: Sequence[str]) -> tuple[float, float]:
    """Seconds that passed, and CPU seconds of the process and of the daemon that served it."""
    used, began = _children() + cpu_seconds(daemon.pid), time.perf_counter()
    command = [sys.executable, "-m", "gym_gui.cli", "--home", str(daemon.paths.root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise BenchmarkError(f"`mosaic {words[0]}` failed: {done.stderr.strip()}")
    return took, _children() + cpu_seconds(daemon.pid) - used


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fill(paths: MosaicPaths) -> None:
    registry, store = RunRegistry(paths.registry_db), TelemetryStore(paths.telemetry_db)
    chance = np.random.default_rng(0)
    try:
        waiting: list[Future[Any]] = []
        for number in range(RUNS):
            run = _finished(number)
            waiting.append(registry.insert(run, ""))
            returns = 500 * (1 - np.exp(-np.arange(POINTS) / 3000)) + chance.normal(0, 40, POINTS)
            rows = [
                events.encode(
                    events.MetricRow(
                        step=10 * place + 10,
                        values={"charts/episodic_return": float(value)},
                        seq=place + 1,
                        t=run.created_at + place / 100,
                    )
                )
                for place, value in enumerate(returns)
            ]
            waiting += [
                store.ingest(Batch(run.run_id, "script", begin + 1, rows[begin : begin + _LINES_AT_ONCE]))
                for begin in range(0, POINTS, _LINES_AT_ONCE)
            ]
        for one in waiting:
            one.result()
    finally:
        store.close()
        registry.close()


def _finished(number: int) -> RunRecord:
    name = f"{'a' if number < RUNS // 2 else 'b'}-{number}"
    config = parse_run_config(ppo_config(name, steps=10 * POINTS, seed=number))
    text, now = to_json(config), time.time()
    return RunRecord(
        run_id=str(ULID()),
        name=config.run_name,
        worker_type=config.worker.type,
        config_json=text,
        labels=labels_in(config_of(text)),
        created_at=now,
        started_at=now,
        ended_at=now + POINTS / 100,
        algo="ppo",
        env_id="CartPole-v1",
        total_steps=10 * POINTS,
        state=RunState.TERM,
        outcome=Outcome.COMPLETED,
        reason=f"completed {10 * POINTS:,} steps",
        attempt=1,
        last_step=10 * POINTS,
    )
