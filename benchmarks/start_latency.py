"""How soon a run takes its first environment step: submitted to a warm daemon, by ``python ppo.py`` from cold."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, ppo_config, wait_for
from benchmarks.daemon_overhead import SCRIPT
from benchmarks.machine import SCRATCH, running
from benchmarks.report import Line, Section, Target, interleaved, ratios

NAME = "start_latency"
TITLE = "From submit to the first environment step"
METHOD = """\
Warm: from the beginning of the client's submit call, with the daemon's fork server ready. Cold: from the
start of `python cleanrl_worker/cleanrl/ppo.py`. In both the environment itself, a CartPole that notes the
time of its first step, says when that was, by the monotonic clock. Interleaved as ABBA, after one start of
each that does not count."""

# As benchmarks.first_step_env has it; importing that module here would import gymnasium.
ENV_ID = "benchmarks.first_step_env:FirstStepCartPole-v1"
FOLDER_VARIABLE = "MOSAIC_BENCH_FIRST_STEP"
STEPS = 512


def run(*, quick: bool = False) -> Section:
    pairs = 3 if quick else 12
    with ScratchHome() as paths, tempfile.TemporaryDirectory(prefix="first-", dir=SCRATCH) as folder:
        os.environ[FOLDER_VARIABLE] = folder  # the daemon hands its environment on to its workers
        notes = Path(folder)
        with BenchDaemon(paths, "--prewarm", "cleanrl") as daemon:
            daemon.wait_warm()
            _warm(daemon, notes)
            _cold(notes)
            measured = interleaved(pairs, lambda: _warm(daemon, notes), lambda: _cold(notes))
    return Section(NAME, TITLE, METHOD, _lines(measured))


def _lines(measured: list[tuple[float, float]]) -> list[Line]:
    return [
        Line("Submit to first step, warm ÷ cold start of the script", ratios(measured), target=Target("≤", 0.10)),
        Line("Warm", [1000 * warm for warm, _ in measured], "ms"),
        Line("Cold", [1000 * cold for _, cold in measured], "ms"),
    ]


def _warm(daemon: BenchDaemon, notes: Path) -> float:
    began = time.monotonic()
    run = daemon.client.submit(ppo_config("latency", env_id=ENV_ID, steps=STEPS)).run
    first_step = _take_note(notes)
    daemon.wait_completed(run.run_id)
    return first_step - began


def _cold(notes: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="cold-", dir=SCRATCH) as folder:
        command = [sys.executable, str(SCRIPT), "--env-id", ENV_ID, "--total-timesteps", str(STEPS)]
        began = time.monotonic()
        with running(command, Path(folder)) as child:
            first_step = _take_note(notes)
            if status := child.wait():
                raise BenchmarkError(f"the script exited with status {status}")
        return first_step - began


def _take_note(notes: Path) -> float:
    def noted() -> Path | None:
        return next((path for path in notes.iterdir() if not path.suffix), None)

    path = wait_for("the first environment step", noted, timeout=60.0, interval=0.05)
    moment = float(path.read_text())
    path.unlink()
    return moment
