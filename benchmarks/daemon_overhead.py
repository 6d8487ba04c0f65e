"""What training through the daemon costs: the speed of PPO started by it, by the speed of the same script run bare."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, ppo_config, wait_for
from benchmarks.machine import ROOT, SCRATCH, CpuTrace, running, script_of
from benchmarks.report import Line, Section, Target, interleaved, ratios
from benchmarks.tensorboard_points import logged_points

NAME = "daemon_overhead"
TITLE = "Training through the daemon, against the bare script"
METHOD = """\
PPO on CartPole-v1 with default flags. Through the daemon: started warm, metrics stored live, followed by a
client as `mosaic train` does. Bare: `python cleanrl_worker/cleanrl/ppo.py` with the same flags. Interleaved
as ABBA; a ratio belongs to one pair. Speed is the steps between the first and the last point of
`charts/SPS` in the TensorBoard file by the time between them, so starting and ending count for neither. The
second ratio puts the CPU time of the script's process in place of the time, which other work on the machine
disturbs less."""

SCRIPT = ROOT / "cleanrl_worker" / "cleanrl" / "ppo.py"
SEED = 1
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Speed:
    """Steps per second of one training, and the CPU seconds that were used meanwhile."""

    steps: int
    seconds: float
    script_cpu: float
    others_cpu: float = 0.0
    stretches: tuple[float, ...] = ()
    """How long each update of the agent took, from one logged point to the next."""

    @property
    def per_second(self) -> float:
        return self.steps / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.steps / self.script_cpu


def run(*, quick: bool = False) -> Section:
    pairs, steps = (2, 60_000) if quick else (8, 200_000)
    with ScratchHome() as paths, BenchDaemon(paths, "--prewarm", "cleanrl") as daemon:
        daemon.wait_warm()
        _through_daemon(daemon, 2048)
        measured = interleaved(pairs, lambda: _through_daemon(daemon, steps), lambda: _bare(steps))
    return Section(NAME, TITLE, METHOD, _lines(measured))


def _lines(measured: list[tuple[Speed, Speed]]) -> list[Line]:
    target = Target("≥", 0.98)
    by_time = ratios([(ours.per_second, bare.per_second) for ours, bare in measured])
    by_cpu = ratios([(ours.per_cpu_second, bare.per_cpu_second) for ours, bare in measured])
    quickest = _quickest([bare for _, bare in measured]) / _quickest([ours for ours, _ in measured])
    beside = [100 * ours.others_cpu / ours.seconds for ours, _ in measured]
    return [
        Line("Steps per second, through the daemon ÷ bare", by_time, target=target),
        Line("Steps per CPU second of the script, through the daemon ÷ bare", by_cpu, target=target),
        Line("The same, each update at its quickest over all runs", [quickest]),
        Line("Steps per second through the daemon", [ours.per_second for ours, _ in measured], "/s"),
        Line("Steps per second bare", [bare.per_second for _, bare in measured], "/s"),
        Line("Daemon and supervisor together beside the script", beside, "% of one core"),
    ]


def _quickest(runs: list[Speed]) -> float:
    """Seconds for the whole work with every update at the quickest it ever was, where neighbours disturbed least. All
    runs do the same work, update by update: the seed is the same."""
    return sum(min(times) for times in zip(*(run.stretches for run in runs), strict=True))


def _through_daemon(daemon: BenchDaemon, steps: int) -> Speed:
    run = daemon.client.submit(ppo_config("overhead", steps=steps, seed=SEED)).run
    supervisor = wait_for("the worker to start", lambda: daemon.client.run(run.run_id).pid)
    script = wait_for("the script to start", lambda: script_of(supervisor))
    trace = CpuTrace([script, supervisor, daemon.pid])
    _follow(daemon, run.run_id, trace)
    ended = daemon.wait_completed(run.run_id)
    _require_same_flags(Path(ended.run_dir), steps)
    return speed_of(Path(ended.run_dir), trace)


def _follow(daemon: BenchDaemon, run_id: str, trace: CpuTrace) -> None:
    """Ask as often as the live line of `mosaic train` does, until the script is gone."""
    while not trace.wait(_LOOK_SECONDS):
        daemon.client.run(run_id)


def _bare(steps: int) -> Speed:
    with tempfile.TemporaryDirectory(prefix="bare-", dir=SCRATCH) as folder:
        with running([sys.executable, str(SCRIPT), *_flags(steps)], Path(folder)) as child:
            trace = CpuTrace([child.pid])
            status = child.wait()
        trace.finish()
        if status != 0:
            raise BenchmarkError(f"the bare script exited with status {status}")
        return speed_of(Path(folder), trace)


def speed_of(folder: Path, trace: CpuTrace) -> Speed:
    points = logged_points(folder)
    first, last = points[0], points[-1]
    script_cpu, *others = trace.between(first.wall_time, last.wall_time)
    stretches = tuple(later.wall_time - sooner.wall_time for sooner, later in pairwise(points))
    return Speed(last.step - first.step, last.wall_time - first.wall_time, script_cpu, sum(others), stretches)


def _flags(steps: int) -> list[str]:
    """As the daemon gives them: a run config says how many checkpoints are kept."""
    return ["--env-id", "CartPole-v1", "--seed", str(SEED), "--total-timesteps", str(steps), "--checkpoint-keep", "3"]


def _require_same_flags(run_dir: Path, steps: int) -> None:
    given = json.loads((run_dir / "analytics.json").read_text())["script_arguments"]
    if given != _flags(steps):
        raise BenchmarkError(f"the daemon gave the script {given}, the bare one gets {_flags(steps)}: not comparable")
