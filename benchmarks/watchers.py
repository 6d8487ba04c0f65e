"""What those who watch a run cost the daemon: its CPU with 200 of them beside its CPU with one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, ppo_config
from benchmarks.machine import ROOT, cpu_seconds
from benchmarks.report import Line, Section
from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.paths import MosaicPaths

NAME = "watchers"
TITLE = "200 who watch one run"
METHOD = """\
One PPO run trains and is watched from another process, by one and then by 200: its curves (`StreamMetrics`), its
output (`StreamLogs`), or the list of runs (`WatchRuns`). CPU is that of the daemon over a span of waiting, the run's
own records included."""

MANY = 200
KINDS = {"metrics": "curves", "logs": "output", "runs": "list of runs"}
_SETTLE_SECONDS = 5.0


def run(*, quick: bool = False) -> Section:
    span = 10.0 if quick else 30.0
    lines: list[Line] = []
    with ScratchHome() as paths, BenchDaemon(paths) as daemon:
        run_id = daemon.client.submit(ppo_config("watched", steps=10**9)).run.run_id
        _wait_until_it_trains(daemon, run_id)
        for kind, name in KINDS.items():
            one, many = (_cpu_percent(daemon.pid, paths, run_id, kind, count, span) for count in (1, MANY))
            lines += [
                Line(f"CPU, {name}: {MANY} watchers ÷ one", [many / one]),
                Line(f"CPU, {name}: {MANY} watchers", [many], "% of one core"),
            ]
    return Section(NAME, TITLE, METHOD, lines)


def _wait_until_it_trains(daemon: BenchDaemon, run_id: str) -> None:
    while (run := daemon.client.run(run_id)).state != "EXEC":
        if run.state == "TERM":
            raise BenchmarkError(f"the run to watch ended: {run.reason}")
        time.sleep(0.1)


def _cpu_percent(pid: int, paths: MosaicPaths, run_id: str, kind: str, count: int, span: float) -> float:
    with watching("benchmarks.watchers", paths, run_id, kind, count):
        time.sleep(_SETTLE_SECONDS)
        used, began = cpu_seconds(pid), time.monotonic()
        time.sleep(span)
        return 100 * (cpu_seconds(pid) - used) / (time.monotonic() - began)


@contextmanager
def watching(module: str, paths: MosaicPaths, run_id: str, kind: str, count: int) -> Iterator[None]:
    """Watchers of a run in a process of their own: ``module`` gets these words and prints a line when they watch."""
    command = [sys.executable, "-m", module, str(paths.root), run_id, kind, str(count)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        child.stdout.readline()
        yield
        if child.poll() is not None:
            raise BenchmarkError("the watchers ended before they were measured")
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def _watch(client: TrainerClient, run_id: str, kind: str) -> None:
    streams = {
        "metrics": lambda: client.stream("metrics", run_id, follow=True),
        "logs": lambda: client.logs(run_id, follow=True),
        "runs": client.watch,
    }
    for _ in streams[kind]():
        pass


def main() -> None:
    """The process that watches, until it is killed."""
    home, run_id, kind, count = sys.argv[1:]
    with TrainerClient.connect(MosaicPaths(Path(home)), start=False) as client, ThreadPoolExecutor(int(count)) as pool:
        watchers = [pool.submit(_watch, client, run_id, kind) for _ in range(int(count))]
        print("watching", flush=True)
        for watcher in watchers:
            watcher.result()


if __name__ == "__main__":
    main()
