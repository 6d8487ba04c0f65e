"""What a sweep costs beside its training: 10,000 trials listed, and the time between two trials."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, ppo_config, wait_for
from benchmarks.machine import cpu_seconds
from benchmarks.report import Line, Section, Target, percentile
from gym_gui.services.sweeps.model import SeedPhase, SeedRun, Sweep, SweepSpec, SweepState, Trial, TrialState
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.sweeps.study import SweepStudy
from mosaic_protocol.paths import MosaicPaths

NAME = "sweeps"
TITLE = "Sweeps"
METHOD = """\
A sweep of 10,000 trials is put into the registry before the daemon starts; it is listed by one `GetTrials` call, whose
time is the whole round trip with the trials decoded. The overhead of a trial is measured in a sweep of short PPO runs,
one at a time, by TPE, with a warm fork server: from the end of one run to the start of the training of the next. In it
are the end being noticed and stored, the study being told and asked, the trial and its run being stored, the worker
being forked and its handshake. A proposal of TPE is timed in a study of 1,000 trials with eight settings."""

TRIALS = 10_000
KNOWN = 1000
SPACE = {
    **{f"rate_{n}": Dimension("float", 1e-5, 1e-1, log=True) for n in range(4)},
    **{f"size_{n}": Dimension("choice", choices=(16, 32, 64, 128)) for n in range(4)},
}


def run(*, quick: bool = False) -> Section:
    with ScratchHome() as paths:
        _fill(paths)
        with BenchDaemon(paths, "--prewarm", "cleanrl") as daemon:
            daemon.wait_warm()
            lines = _listing_lines(daemon, 10 if quick else 50)
            lines += _overhead_lines(daemon, 8 if quick else 30)
        lines.append(_proposal_line(paths.root / "study", 3 if quick else 20))
    return Section(NAME, TITLE, METHOD, lines)


def _spec(config: dict[str, Any], **asked: Any) -> SweepSpec:
    return SweepSpec(config=config, metric="charts/episodic_return", **{"space": SPACE, **asked})


def _fill(paths: MosaicPaths) -> None:
    registry = RunRegistry(paths.registry_db)
    try:
        sweep = _large_sweep(TRIALS)
        registry.sweeps.insert(replace(sweep, trials=()), "large", name_is_default=False).result()
        registry.sweeps.save(sweep, range(TRIALS)).result()
    finally:
        registry.close()


def _large_sweep(count: int) -> Sweep:
    spec = _spec(ppo_config("trial", steps=100_000), trials=count, rungs=(25_000, 50_000), pruner="asha")
    trials = []
    for number in range(count):
        params = {
            name: one.choices[number % 4] if one.choices else (1 + number % 97) / 1000 for name, one in SPACE.items()
        }
        done = number % 3 == 0
        seed = SeedRun(
            1, SeedPhase.OVER, (f"01M7NEJ1327QKYW7010T{number:06d}",), value=float(number % 500), steps=100_000
        )
        trials.append(
            Trial(
                number,
                params,
                (seed,),
                TrialState.COMPLETE if done else TrialState.PRUNED,
                ((25_000, float(number % 300)), (50_000, float(number % 400))),
                float(number % 500) if done else None,
                "" if done else "pruned at step 50,000: number 9 of 12 there, and the best 6 go on",
                told=True,
            )
        )
    return Sweep(
        "01M7NEJ1327QKYW7010TKCCQM4", "large", spec, state=SweepState.COMPLETED, budget=count, trials=tuple(trials)
    )


def _listing_lines(daemon: BenchDaemon, calls: int) -> list[Line]:
    def listed() -> None:
        if len(daemon.client.sweep("large").trials) != TRIALS:
            raise BenchmarkError("trials are missing from the list")

    listed()
    used = cpu_seconds(daemon.pid)
    milliseconds = [1000 * _timed(listed) for _ in range(calls)]
    cpu = 1000 * (cpu_seconds(daemon.pid) - used) / calls
    return [
        Line(f"{TRIALS:,} trials listed", milliseconds, "ms", Target("<", 100)),
        Line(f"{TRIALS:,} trials listed, CPU time of the daemon per call", [cpu], "ms"),
        Line("All sweeps listed", [1000 * _timed(daemon.client.sweeps) for _ in range(calls)], "ms"),
    ]


def _overhead_lines(daemon: BenchDaemon, trials: int) -> list[Line]:
    space = {"learning_rate": Dimension("float", 1e-4, 1e-2, log=True), "update_epochs": Dimension("int", 1, 8)}
    spec = _spec(ppo_config("trial", steps=1024), trials=trials, space=space)
    daemon.client.submit_sweep("short", spec)

    def over() -> Sweep | None:
        found = daemon.client.sweep("short")
        return found if found.is_over else None

    done = wait_for("the sweep to end", over, interval=0.2)
    if done.state is not SweepState.COMPLETED:
        raise BenchmarkError(f"the sweep is {done.state}: {done.reason}")
    runs = [daemon.client.run(trial.seeds[0].runs[0]) for trial in done.trials]
    gaps = [1000 * (later.started_at - earlier.ended_at) for earlier, later in pairwise(runs)][1:]
    return [
        Line("Overhead of a trial: told, asked, stored, started warm", gaps, "ms", Target("<", 300)),
        Line("Overhead of a trial, 99th percentile", [percentile(gaps, 99)], "ms"),
    ]


def _proposal_line(file: Path, questions: int) -> Line:
    known = _large_sweep(KNOWN)
    study = SweepStudy(file, known)
    study.reconcile(known)
    for trial in known.trials:
        study.tell(trial)
    seconds = []
    for _ in range(questions):
        proposal: dict[str, Any] = {}
        seconds.append(_timed(lambda: proposal.update(study.ask(known))))  # noqa: B023 - called at once
        asked = Trial(len(known.trials), proposal, (), TrialState.COMPLETE, value=1.0)
        study.tell(asked)
        known = replace(known, trials=(*known.trials, asked))
    return Line(f"A proposal of TPE after {KNOWN:,} trials", [1000 * one for one in seconds], "ms")


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
