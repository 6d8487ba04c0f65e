"""SAC and TD3 with compiled updates, against stable-baselines-jax."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.bare_scripts import BareScript
from benchmarks.compiled_scripts import whole_run
from benchmarks.daemon import BenchmarkError
from benchmarks.daemon_overhead import Speed
from benchmarks.report import Line, Section, Target, chosen, interleaved, ratios

NAME = "compiled_versus_sbx"
TITLE = "Compiled scripts, against stable-baselines-jax"
METHOD = """\
`sac_jax` and `td3_jax` beside SAC and TD3 of sbx-rl 0.28.0 with the same hyper-parameters and as many updates, JAX
0.10.2 and one XLA thread for both, run bare and interleaved as ABBA; a ratio belongs to one pair. Speed is steps per
second of CPU time while they learn, so starting and compiling count for neither. SBX lives in an environment of its
own, whose interpreter `MOSAIC_SBX_PYTHON` names. Returns are not compared here."""
PYTHON_VARIABLE = "MOSAIC_SBX_PYTHON"
RIVAL = Path(__file__).with_name("sbx_script.py")


@dataclass(frozen=True)
class Match:
    """An algorithm of both, on one environment."""

    ours: str
    theirs: str
    env_id: str
    steps: int
    asked: float

    @property
    def title(self) -> str:
        return f"{self.ours}, {self.env_id}"

    def words(self) -> list[str]:
        learning = ("--learning-starts", "1000")
        return ["--env-id", self.env_id, "--total-timesteps", str(self.steps), "--seed", "1", *learning]


MATCHES = (
    Match("sac_jax", "sac", "Pendulum-v1", 2_500, 1.1),
    Match("td3_jax", "td3", "Pendulum-v1", 2_500, 1.1),
    Match("sac_jax", "sac", "Hopper-v5", 4_000, 1.1),
    Match("td3_jax", "td3", "Hopper-v5", 6_000, 1.1),
)
TITLES = tuple(match.title for match in MATCHES)


def run(*, quick: bool = False, lines: Sequence[str] = ()) -> Section:
    """One section of the benchmark page. Raises BenchmarkError where SBX is not installed."""
    python = os.environ.get(PYTHON_VARIABLE, "")
    if not python:
        raise BenchmarkError(f"{PYTHON_VARIABLE} names no interpreter with sbx-rl==0.28.0 and jax==0.10.2")
    found: list[Line] = []
    for match in chosen(MATCHES, lines, lambda match: match.title):
        found += lines_of(match, python, 1 if quick else 3)
    return Section(NAME, TITLE, METHOD, found)


def lines_of(match: Match, python: str, count: int) -> list[Line]:
    ours = BareScript.ours(match.ours)
    whole_run(ours, [*match.words(), "--total-timesteps", "1100"])  # compiles
    mine, theirs = partial(ours.speed, match.words()), partial(speed_of_rival, python, match)
    speeds: list[tuple[Speed, Speed]] = interleaved(count, mine, theirs)
    by_cpu = ratios([(one.per_cpu_second, other.per_cpu_second) for one, other in speeds])
    return [
        Line(f"{match.title}: steps per CPU second ÷ SBX", by_cpu, target=Target("≥", match.asked)),
        Line(f"{match.title}: steps per CPU second", [one.per_cpu_second for one, _ in speeds], "/s"),
        Line(f"{match.title}: steps per CPU second of SBX", [other.per_cpu_second for _, other in speeds], "/s"),
    ]


def speed_of_rival(python: str, match: Match) -> Speed:
    """Raises BenchmarkError."""
    threads = {"PJRT_NPROC": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    command = [python, str(RIVAL), match.theirs, match.env_id, str(match.steps)]
    done = subprocess.run(
        command, env={**os.environ, **threads}, capture_output=True, text=True, timeout=3600, check=False
    )
    if done.returncode != 0:
        raise BenchmarkError(f"SBX ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Speed(told["steps"], told["seconds"], told["cpu"])
