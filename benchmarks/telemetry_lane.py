"""The telemetry lane from workers to the store, while others watch: how much goes through, and what the daemon pays."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ulid import ULID

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, wait_for
from benchmarks.machine import cpu_seconds, memory_mb
from benchmarks.report import Line, Section, Target
from benchmarks.watchers import watching
from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.paths import MosaicPaths

NAME = "telemetry_lane"
TITLE = "The telemetry lane"
METHOD = """\
Workers record steps as CartPole has them (four 32-bit numbers, an action, a reward; random, an episode every 200), the
journal goes to the daemon by gRPC, and the daemon stores it. What counts is what the store has committed, by its own
totals, over the span. One watcher takes every page of steps of the first run, another one subscribes and never reads.
Two workers share the rate: one Python thread that does nothing but record reaches about half a million steps a second,
and the daemon is what is measured. CPU and memory are the daemon's. For the answer time, 50 watch the steps of a run
that goes on, and a client that is connected asks for a page of runs, as `mosaic runs` does."""

WORKERS = Path(__file__).with_name("workers")
MOST_MEMORY_MB = 250.0
EASY = 100_000
WATCHERS = 50
_SETTLE_SECONDS = 3.0
_CREDITS = 100_000


def run(*, quick: bool = False) -> Section:
    span = 8.0 if quick else 60.0
    full = _flow(workers=2, rate=450_000, span=span)
    easy = _flow(workers=1, rate=EASY, span=span / 2)
    lines = [
        Line("Steps stored a second, two watchers, one of them stalled", [full.rate], "/s", Target("≥", 400_000)),
        Line("RSS of the daemon meanwhile, the largest", [full.memory], "MB", Target("≤", MOST_MEMORY_MB)),
        Line("RSS of the daemon, growth in the second half", [full.growth], "MB"),
        Line("CPU of the daemon, a step", [full.microseconds], "µs"),
        Line(
            "CPU of the daemon at 100,000 steps a second", [easy.percent_at(EASY)], "% of one core", Target("≤", 25.0)
        ),
        Line("Steps stored a second meanwhile", [easy.rate], "/s"),
        Line(
            f"A page of runs while {WATCHERS} watch steps",
            _answers(20 if quick else 100),
            "ms",
            Target("<", 100.0),
        ),
    ]
    return Section(NAME, TITLE, METHOD, lines)


class _Flow:
    """What was seen of a daemon while steps flowed."""

    def __init__(self, steps: int, seconds: float, cpu: float, memory: list[float]) -> None:
        if not steps:
            raise BenchmarkError("no step was stored")
        self.rate, self.microseconds = steps / seconds, 1e6 * cpu / steps
        self.memory = max(memory)
        half = len(memory) // 2
        self.growth = max(memory[half:]) - max(memory[:half])

    def percent_at(self, rate: float) -> float:
        """CPU at a rate that a busy machine may not have reached, by what a step costs."""
        return self.microseconds * rate / 1e4


@contextmanager
def _lane_daemon() -> Iterator[BenchDaemon]:
    os.environ["MOSAIC_WORKER_PATH"] = str(WORKERS)
    try:
        with ScratchHome() as paths, BenchDaemon(paths) as daemon:
            yield daemon
    finally:
        del os.environ["MOSAIC_WORKER_PATH"]


def _flow(*, workers: int, rate: float, span: float) -> _Flow:
    with _lane_daemon() as daemon, ExitStack() as stack:
        runs = [_started(daemon, rate / workers) for _ in range(workers)]
        stack.enter_context(watching("benchmarks.telemetry_lane", daemon.paths, runs[0], "pages", 1))
        stack.enter_context(watching("benchmarks.telemetry_lane", daemon.paths, runs[0], "never", 1))
        time.sleep(_SETTLE_SECONDS)

        def stored() -> int:
            return sum(daemon.client.step_totals(run_id).steps for run_id in runs)

        before, used, began = stored(), cpu_seconds(daemon.pid), time.monotonic()
        memory = []
        while time.monotonic() - began < span:
            time.sleep(0.5)
            memory.append(memory_mb(daemon.pid)[0])
        steps, seconds = stored() - before, time.monotonic() - began
        flow = _Flow(steps, seconds, cpu_seconds(daemon.pid) - used, memory)
        _end(daemon, runs)
    return flow


def _answers(times: int) -> list[float]:
    """Milliseconds of a page of runs."""
    with _lane_daemon() as daemon:
        run_id = _started(daemon, 10_000)
        with watching("benchmarks.telemetry_lane", daemon.paths, run_id, "pages", WATCHERS):
            time.sleep(_SETTLE_SECONDS)
            found = [_milliseconds(lambda: daemon.client.runs(size=20)) for _ in range(times)]
        _end(daemon, [run_id])
    return found


def _milliseconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    time.sleep(0.05)  # as a person would: not in a row
    return 1e3 * (time.perf_counter() - began - 0.05)


def _started(daemon: BenchDaemon, rate: float) -> str:
    params = {"rate": rate, "seconds": 3600}
    worker = {"type": "lane", "module": "lane_worker.cli", "config": {"algo": "record", "params": params}}
    config = {"run_name": "lane", "resources": {}, "artifacts": {}, "metadata": {"worker": worker}}
    run_id = daemon.client.submit(config).run.run_id
    daemon.wait_state(run_id, "EXEC")
    wait_for("the first steps", lambda: daemon.client.step_totals(run_id).steps)
    return run_id


def _end(daemon: BenchDaemon, runs: list[str]) -> None:
    for run_id in runs:
        daemon.client.cancel(run_id)
    for run_id in runs:
        daemon.wait_state(run_id, "TERM")


def _watch(client: TrainerClient, run_id: str, kind: str) -> None:
    watch_id = str(ULID())
    pages = iter(client.live("steps", run_id, credit=_CREDITS, watch_id=watch_id, tail=1))
    next(pages)
    if kind == "never":
        threading.Event().wait()
    spent = 0
    for page in pages:
        spent += page.last_row - page.first_row
        if spent > _CREDITS // 2:
            client.grant_credits(watch_id, spent)
            spent = 0


def main() -> None:
    """The process that watches, until it is killed."""
    home, run_id, kind, count = sys.argv[1:]
    with TrainerClient.connect(MosaicPaths(Path(home)), start=False) as client:
        threads = [threading.Thread(target=_watch, args=(client, run_id, kind)) for _ in range(int(count))]
        for thread in threads:
            thread.start()
        print("watching", flush=True)
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
