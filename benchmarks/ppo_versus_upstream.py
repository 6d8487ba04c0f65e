"""Our PPO against upstream CleanRL's: speed side by side, and whether ours learns what it should.

python -m benchmarks.ppo_versus_upstream --pairs 5 --steps 100000 --seeds 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks import upstream_environment
from benchmarks.daemon import BenchmarkError
from benchmarks.daemon_overhead import Speed
from benchmarks.machine import ROOT, SCRATCH, CpuTrace
from benchmarks.report import Line, Section, Target, figure, interleaved, ratios
from benchmarks.tensorboard_points import logged_points
from benchmarks.upstream_environment import UpstreamEnvironmentError

NAME = "ppo_versus_upstream"
TITLE = "PPO, against upstream CleanRL"
METHOD = """\
`cleanrl_worker/cleanrl/ppo.py` and the unmodified `ppo.py` of the package cleanrl 1.2.0 in an environment of its own,
both on CartPole-v1 with their default hyper-parameters (which are the same), 4 environments, 1 torch thread, run bare
and interleaved as ABBA; a ratio belongs to one pair. Speed is the steps between the first and the last point of
`charts/SPS` in the TensorBoard file by the time (or the CPU time of the process) between them, so starting up counts
for neither. Learning: the mean return of the last 100 episodes after 500,000 steps, one figure a seed."""

OURS = ROOT / "cleanrl_worker" / "cleanrl" / "ppo.py"
LEARNING_STEPS = 500_000
LAST_EPISODES = 100
SPEED_TARGET = Target("≥", 2.5)
RETURN_TARGET = Target("≥", 475)


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page; `quick` leaves the learning to one seed."""
    try:
        found = measure(pairs=2, steps=60_000, seeds=1) if quick else measure(pairs=6, steps=150_000, seeds=3)
    except (BenchmarkError, UpstreamEnvironmentError) as error:
        return Section(NAME, TITLE, METHOD, problem=str(error))
    return Section(NAME, TITLE, METHOD, lines_of(found))


def measure(pairs: int, steps: int, seeds: int) -> dict[str, Any]:
    """All figures by name. Raises BenchmarkError or UpstreamEnvironmentError when one cannot be had."""
    upstream = upstream_environment.ensure(SCRATCH / "upstream")
    measured = interleaved(
        pairs,
        lambda: speed_of(Path(sys.executable), OURS, steps),
        lambda: speed_of(upstream.python, upstream.ppo_script, steps),
    )
    return {
        "steps": steps,
        "ours_per_second": [ours.per_second for ours, _ in measured],
        "upstream_per_second": [theirs.per_second for _, theirs in measured],
        "ratio": ratios([(ours.per_second, theirs.per_second) for ours, theirs in measured]),
        "cpu_ratio": ratios([(ours.per_cpu_second, theirs.per_cpu_second) for ours, theirs in measured]),
        "returns": {seed: last_return(seed) for seed in range(1, seeds + 1)},
    }


def lines_of(found: dict[str, Any]) -> list[Line]:
    lines = [
        Line("PPO steps per second, ours ÷ upstream", found["ratio"], target=SPEED_TARGET),
        Line("PPO steps per CPU second, ours ÷ upstream", found["cpu_ratio"], target=SPEED_TARGET),
        Line("Steps per second, ours", found["ours_per_second"], "/s"),
        Line("Steps per second, upstream", found["upstream_per_second"], "/s"),
    ]
    # A target is kept by the median, but here no seed may fail: each has a line of its own.
    lines += [
        Line(f"CartPole-v1 return after {LEARNING_STEPS:,} steps, seed {seed}", [value], target=RETURN_TARGET)
        for seed, value in found["returns"].items()
    ]
    return lines


def speed_of(python: Path, script: Path, steps: int) -> Speed:
    """Train once and tell how fast it went."""
    with tempfile.TemporaryDirectory(prefix="ppo-", dir=SCRATCH) as folder:
        child = subprocess.Popen(
            [str(python), str(script), *_flags(steps, seed=1)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(script),
            text=True,
        )
        trace = CpuTrace([child.pid])
        _, errors = child.communicate()
        trace.finish()
        _require_success(script, child.returncode, errors)
        first, *_, last = logged_points(Path(folder))
        (cpu,) = trace.between(first.wall_time, last.wall_time)
        return Speed(last.step - first.step, last.wall_time - first.wall_time, cpu)


def last_return(seed: int) -> float:
    """The mean of the last episodes' returns of a full training by ours."""
    with tempfile.TemporaryDirectory(prefix="ppo-", dir=SCRATCH) as folder:
        command = [sys.executable, str(OURS), *_flags(LEARNING_STEPS, seed)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_environment(OURS), check=False)
        _require_success(OURS, done.returncode, done.stderr)
        return mean(episodic_returns(Path(folder))[-LAST_EPISODES:])


def episodic_returns(folder: Path) -> list[float]:
    """The return of every finished episode in the event files below a folder, in the order they were logged."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    return [
        value.simple_value
        for path in sorted(folder.rglob("events.out.tfevents.*"))
        for event in LegacyEventFileLoader(str(path)).Load()
        for value in event.summary.value
        if value.tag == "charts/episodic_return"
    ]


def _flags(steps: int, seed: int) -> list[str]:
    return ["--env-id", "CartPole-v1", "--seed", str(seed), "--total-timesteps", str(steps)]


def _environment(script: Path) -> dict[str, str]:
    # Upstream's interpreter must not see our packages, nor those of the caller's shell.
    path = str(ROOT) if script == OURS else ""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def _require_success(script: Path, status: int, errors: str) -> None:
    if status != 0:
        last_line = (errors.strip().splitlines() or ["it said nothing"])[-1]
        raise BenchmarkError(f"{script.name} below {script.parent} exited with status {status}: {last_line}")


def table(found: dict[str, Any]) -> str:
    """The figures for a terminal: one row a pair, then one a seed."""
    rows = [f"{'pair':>6} {'ours/s':>10} {'upstream/s':>11} {'ratio':>7} {'CPU ratio':>10}"]
    columns = (found["ours_per_second"], found["upstream_per_second"], found["ratio"], found["cpu_ratio"])
    for number, (ours, theirs, ratio, cpu_ratio) in enumerate(zip(*columns, strict=True), start=1):
        rows.append(f"{number:>6} {ours:>10,.0f} {theirs:>11,.0f} {ratio:>7.2f} {cpu_ratio:>10.2f}")
    ours, theirs, ratio, cpu_ratio = (median(column) for column in columns)
    rows.append(f"{'median':>6} {ours:>10,.0f} {theirs:>11,.0f} {ratio:>7.2f} {cpu_ratio:>10.2f}")
    rows += [
        f"seed {seed}: return {figure(value)} (mean of the last {LAST_EPISODES} episodes of {LEARNING_STEPS:,} steps)"
        for seed, value in found["returns"].items()
    ]
    return "\n".join(rows)


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="how often both are timed")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of a timed training")
    parser.add_argument("--seeds", type=int, default=3, help="how many full trainings of ours check the learning")
    options = parser.parse_args()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    found = measure(options.pairs, options.steps, options.seeds)
    print(table(found))
    return found


if __name__ == "__main__":
    main()
