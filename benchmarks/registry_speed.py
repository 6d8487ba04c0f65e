"""How the daemon does with a registry of 10,000 runs: a page of the listing, and durable submits."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from ulid import ULID

from benchmarks.daemon import CPUS, BenchDaemon, BenchmarkError, ScratchHome, ppo_config
from benchmarks.machine import cpu_seconds, memory_mb
from benchmarks.report import Line, Section, Target, percentile
from gym_gui.services.run_labels import config_of, labels_in
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from mosaic_protocol import events
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import parse_run_config, to_json
from mosaic_protocol.states import Outcome, RunState

NAME = "registry_speed"
TITLE = "A registry of 10,000 runs"
METHOD = """\
10,000 finished runs with headline metrics are put into the registry before the daemon starts. A page is one
`ListRuns` call for the newest 50 runs, over an open connection; its time is the whole round trip, an upper
bound of the daemon's own. Filtered pages count every run that matches. Submits are `SubmitRun` calls of a
whole PPO config, each answered after a commit with an fsync, while a paused run holds all CPUs so that nothing
starts; afterwards the registry must count exactly the runs that were acknowledged."""

RUNS = 10_000
PAGE = 50
IN_FLIGHT = 32
FILTERS = ("algo=ppo outcome=failed seed<5000", "total_timesteps=100k return>400", "env_id=CartPole*")
"""By columns alone, by numbers that change while a run trains, and by a pattern."""


@dataclass(frozen=True)
class Effort:
    """How much is done: a fraction of it when in a hurry. The registry always has its 10,000 runs."""

    pages: int = 100
    submits: int = 1000
    rounds: int = 5
    single_submits: int = 200


def run(*, quick: bool = False) -> Section:
    effort = Effort(pages=30, submits=300, rounds=2, single_submits=50) if quick else Effort()
    with ScratchHome() as paths:
        fill(paths, RUNS)
        with BenchDaemon(paths, "--prewarm", "cleanrl") as daemon:
            daemon.wait_warm()
            lines = _page_lines(daemon, effort.pages, "finished runs")
            lines += [_filtered_line(daemon, where, effort.pages) for where in FILTERS]
            _block_queue(daemon)
            lines += _submit_lines(daemon, effort)
            lines += _page_lines(daemon, effort.pages, "queued runs")
            lines.append(Line("Resident memory of the daemon afterwards", [memory_mb(daemon.pid)[0]], "MB"))
    return Section(NAME, TITLE, METHOD, lines)


def fill(paths: MosaicPaths, count: int) -> None:
    """A registry with finished runs, and the metrics that their listing shows."""
    registry, store = RunRegistry(paths.registry_db), TelemetryStore(paths.telemetry_db)
    try:
        runs = [_finished_run(number) for number in range(count)]
        for accepted in [registry.insert(run, "") for run in runs]:
            accepted.result()
        for stored in [store.ingest(_headline(run)) for run in runs]:
            stored.result()
    finally:
        store.close()
        registry.close()


def _finished_run(number: int) -> RunRecord:
    config = parse_run_config(ppo_config(f"run-{number}", steps=100_000, seed=number))
    text = to_json(config)
    return RunRecord(
        run_id=str(ULID()),
        name=config.run_name,
        worker_type=config.worker.type,
        config_json=text,
        labels=labels_in(config_of(text)),
        created_at=time.time(),
        algo="ppo",
        env_id="CartPole-v1",
        total_steps=100_000,
        state=RunState.TERM,
        outcome=Outcome.COMPLETED if number % 10 else Outcome.FAILED,
        reason="completed 100,000 steps" if number % 10 else "the script exited with status 1",
        attempt=1,
        last_step=100_000,
    )


def _headline(run: RunRecord) -> Batch:
    values: dict[str, float | None] = {"charts/episodic_return": 480.0, "charts/SPS": 9000.0}
    row = events.MetricRow(step=run.last_step, values=values, seq=1, t=run.created_at)
    return Batch(run.run_id, "script", 1, [events.encode(row)])


def _page_lines(daemon: BenchDaemon, calls: int, newest: str) -> list[Line]:
    """Times of one listing repeated, and the CPU time that the daemon spent on each call."""
    _page(daemon)
    used = cpu_seconds(daemon.pid)
    seconds = [_timed(lambda: _page(daemon)) for _ in range(calls)]
    cpu = (cpu_seconds(daemon.pid) - used) / calls
    milliseconds = [1000 * value for value in seconds]
    what = f"Page of {PAGE} {newest} of a registry of {RUNS:,}"
    return [
        Line(what, milliseconds, "ms", Target("<", 100)),
        Line(f"{what}, CPU time of the daemon per call", [1000 * cpu], "ms", Target("<", 100)),
        Line(f"{what}, 99th percentile", [percentile(milliseconds, 99)], "ms"),
    ]


def _filtered_line(daemon: BenchDaemon, where: str, calls: int) -> Line:
    def page() -> None:
        if not daemon.client.runs(size=PAGE, where=where).runs:
            raise BenchmarkError(f"no run matches {where}")

    page()
    milliseconds = [1000 * _timed(page) for _ in range(calls)]
    return Line(f"Page of {PAGE} runs of {RUNS:,} where `{where}`", milliseconds, "ms", Target("<", 250))


def _page(daemon: BenchDaemon) -> None:
    answer = daemon.client.runs(size=PAGE)
    if len(answer.runs) != PAGE or answer.total < RUNS:
        raise BenchmarkError(f"the page has {len(answer.runs)} of {answer.total} runs")


def _block_queue(daemon: BenchDaemon) -> None:
    """A run that holds all CPUs and does nothing: paused, it costs the measurement nothing."""
    blocker = daemon.client.submit(ppo_config("blocker", steps=10**9, cpus=CPUS)).run
    daemon.wait_state(blocker.run_id, RunState.EXEC)
    daemon.client.pause(blocker.run_id)
    daemon.wait_state(blocker.run_id, RunState.PAUSE)


def _submit_lines(daemon: BenchDaemon, effort: Effort) -> list[Line]:
    before = daemon.client.runs(size=1).total
    single = effort.single_submits / _timed(lambda: [_submit(daemon) for _ in range(effort.single_submits)])
    burst, cpu = [], []
    for _ in range(effort.rounds):
        used = cpu_seconds(daemon.pid)
        burst.append(effort.submits / _timed(lambda: _submit_many(daemon, effort.submits)))
        cpu.append(1000 * (cpu_seconds(daemon.pid) - used) / effort.submits)
    accepted = daemon.client.runs(size=1).total - before
    sent = effort.single_submits + effort.rounds * effort.submits
    if accepted != sent:
        raise BenchmarkError(f"{sent} submits were acknowledged, but the registry counts {accepted} new runs")
    return [
        Line(f"Durable submits per second, {IN_FLIGHT} in flight", burst, "/s", Target("≥", 200)),
        Line("Durable submits per second, one after another", [single], "/s"),
        Line("CPU time of the daemon per submit", cpu, "ms"),
    ]


def _submit_many(daemon: BenchDaemon, count: int) -> None:
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        done, _ = wait([pool.submit(_submit, daemon) for _ in range(count)])
    for future in done:
        future.result()


def _submit(daemon: BenchDaemon) -> Any:
    return daemon.client.submit(ppo_config("queued", steps=100_000))


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
