"""What a person who watches a training costs it: the speed of PPO with one who looks, by the speed without."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, ppo_config, wait_for
from benchmarks.daemon_overhead import SEED, Speed, speed_of
from benchmarks.machine import ROOT, CpuTrace, script_of
from benchmarks.report import Line, Section, Target, interleaved, ratios
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.messages import socket_of

NAME = "watched_training"
TITLE = "A training that somebody watches"
METHOD = """\
PPO on CartPole-v1 with default flags, started warm by the daemon. Watched: another process takes every state and every
picture of its first environment from the live channel, from the first step to the last. Not watched: the same run,
which listens and draws nothing; what listening costs is in `daemon_overhead`, whose bare script does not listen.
Interleaved as ABBA; a ratio belongs to one pair, by the CPU time of the script's process and by the clock. Drawing may
take a twentieth of the training's time."""


def run(*, quick: bool = False) -> Section:
    pairs, steps = (2, 60_000) if quick else (6, 200_000)
    with ScratchHome() as paths, BenchDaemon(paths, "--prewarm", "cleanrl") as daemon:
        daemon.wait_warm()
        pictures: list[float] = []
        measured = interleaved(
            pairs, lambda: _trained(daemon, steps, pictures, watched=True), lambda: _trained(daemon, steps, pictures)
        )
    by_cpu = ratios([(watched.per_cpu_second, alone.per_cpu_second) for watched, alone in measured])
    by_time = ratios([(watched.per_second, alone.per_second) for watched, alone in measured])
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line("Steps per CPU second of the script, watched ÷ not watched", by_cpu, target=Target("≥", 0.9)),
            Line("Steps per second, watched ÷ not watched", by_time),
            Line("Pictures that the watcher took", pictures, "/s"),
        ],
    )


def _trained(daemon: BenchDaemon, steps: int, pictures: list[float], *, watched: bool = False) -> Speed:
    run = daemon.client.submit(ppo_config("watched", steps=steps, seed=SEED)).run
    folder = Path(run.run_dir)
    supervisor = wait_for("the worker to start", lambda: daemon.client.run(run.run_id).pid)
    script = wait_for("the script to start", lambda: script_of(supervisor))
    trace = CpuTrace([script, supervisor])
    with _watching(folder, pictures, wanted=watched):
        while not trace.wait(0.5):
            pass
    daemon.wait_completed(run.run_id)
    return speed_of(folder, trace)


@contextmanager
def _watching(folder: Path, pictures: list[float], *, wanted: bool) -> Iterator[None]:
    """A process that watches a run to its end, and says how many pictures a second it got."""
    if not wanted:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.watched_training", str(folder)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield
        said, _ = child.communicate(timeout=60)
        if child.returncode != 0:
            raise BenchmarkError("the watcher failed")
        pictures.append(float(said))
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()


def _watch(folder: Path) -> float:
    """Take what comes until the run is over; pictures a second."""
    wait_for("the run to listen", lambda: socket_of(folder).exists())
    taken, began = 0, time.monotonic()
    with LiveClient(folder) as session:
        try:
            while True:
                session.receive(timeout=1 / 60)
                taken += session.frame() is not None
        except SessionAwayError:
            return taken / (time.monotonic() - began)


if __name__ == "__main__":
    print(_watch(Path(sys.argv[1])))
