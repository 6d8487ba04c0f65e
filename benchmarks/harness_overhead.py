"""What the harness costs an upstream script: its speed under the worker, by the speed of the same script run bare."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks import upstream_environment
from benchmarks.daemon import BenchmarkError, wait_for
from benchmarks.daemon_overhead import Speed
from benchmarks.machine import ROOT, SCRATCH, CpuTrace, running, script_of
from benchmarks.report import Line, Section, Target, interleaved, ratios
from benchmarks.tensorboard_points import logged_points
from benchmarks.upstream_environment import UpstreamEnvironment, UpstreamEnvironmentError

NAME = "harness_overhead"
TITLE = "An upstream script under the harness, against the bare script"
METHOD = """\
The unmodified scripts of the package cleanrl 1.2.0 on CartPole-v1 with default flags. Under the harness: started as
`python -m cleanrl_worker.cli --upstream` starts them, with a supervisor, scalars journalled, a checkpoint at the end.
Bare: the same interpreter, script and flags. Interleaved as ABBA; a ratio belongs to one pair. Speed is the steps
between the first and the last point of `charts/SPS` in the TensorBoard file by the time between them; the second ratio
puts the CPU time of the script's process in place of the time, which other work on the machine disturbs less."""

SCRIPTS = {"ppo": (60_000, 150_000), "dqn": (30_000, 80_000)}
"""Steps of a quick and of a full measurement."""
TARGET = Target("≥", 0.98)


def run(*, quick: bool = False) -> Section:
    try:
        upstream = upstream_environment.ensure()
        lines = [line for name in SCRIPTS for line in _lines(name, upstream, quick=quick)]
    except (BenchmarkError, UpstreamEnvironmentError) as error:
        return Section(NAME, TITLE, METHOD, problem=str(error))
    return Section(NAME, TITLE, METHOD, lines)


def _lines(name: str, upstream: UpstreamEnvironment, *, quick: bool) -> list[Line]:
    steps = SCRIPTS[name][0 if quick else 1]
    measured = interleaved(
        2 if quick else 6, lambda: _harnessed(name, upstream, steps), lambda: _bare(name, upstream, steps)
    )
    by_time = ratios([(ours.per_second, bare.per_second) for ours, bare in measured])
    by_cpu = ratios([(ours.per_cpu_second, bare.per_cpu_second) for ours, bare in measured])
    return [
        Line(f"{name}: steps per second, harness ÷ bare", by_time, target=TARGET),
        Line(f"{name}: steps per CPU second of the script, harness ÷ bare", by_cpu, target=TARGET),
        Line(f"{name}: steps per second bare", [bare.per_second for _, bare in measured], "/s"),
    ]


def _harnessed(name: str, upstream: UpstreamEnvironment, steps: int) -> Speed:
    words = [sys.executable, "-m", "cleanrl_worker.cli", "--algo", name, "--upstream", *_flags(steps)]
    command = ["env", f"MOSAIC_SCRIPT_PYTHON={upstream.python}", f"PYTHONPATH={ROOT}", "OMP_NUM_THREADS=1", *words]
    with tempfile.TemporaryDirectory(prefix="harness-", dir=SCRATCH) as folder:
        with running(command, Path(folder)) as child:
            script = wait_for("the script to start", lambda: script_of(child.pid))
            trace = CpuTrace([script])
            status = child.wait()
        return _speed(Path(folder), trace, status, "under the harness")


def _bare(name: str, upstream: UpstreamEnvironment, steps: int) -> Speed:
    words = [str(upstream.python), str(upstream.script(name)), *_flags(steps)]
    command = ["env", f"PYTHONPATH={upstream.import_path(name)}", "OMP_NUM_THREADS=1", *words]
    with tempfile.TemporaryDirectory(prefix="bare-", dir=SCRATCH) as folder:
        with running(command, Path(folder)) as child:
            trace = CpuTrace([child.pid])
            status = child.wait()
        return _speed(Path(folder), trace, status, "bare")


def _speed(folder: Path, trace: CpuTrace, status: int, how: str) -> Speed:
    trace.finish()
    if status != 0:
        raise BenchmarkError(f"the script {how} exited with status {status}")
    # Symbolic links are not followed: the harness leaves one where the script wanted its files.
    first, *_, last = logged_points(folder)
    (cpu,) = trace.between(first.wall_time, last.wall_time)
    return Speed(last.step - first.step, last.wall_time - first.wall_time, cpu)


def _flags(steps: int) -> list[str]:
    return ["--env-id", "CartPole-v1", "--seed", "1", "--total-timesteps", str(steps)]


def main() -> None:
    SCRATCH.mkdir(parents=True, exist_ok=True)
    found = run(quick="--quick" in sys.argv[1:])
    print(found.problem or "\n".join(f"{line.what}: {line.measured}" for line in found.lines))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
