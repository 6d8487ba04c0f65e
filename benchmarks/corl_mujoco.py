"""What our offline algorithms learn from what SAC saw while it learned HalfCheetah."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.corl import SEEDS, Claim, Task, measured
from benchmarks.daemon import BenchmarkError
from benchmarks.machine import ROOT, SCRATCH
from benchmarks.pendulum_sets import sac_trained
from benchmarks.report import Line, Section, chosen

NAME = "corl_mujoco"
TITLE = "Offline learning, HalfCheetah-v5"
METHOD = """\
`sac_continuous_action` learns HalfCheetah-v5 for 30,000 steps; its replay buffer is the dataset (`mosaic datasets
from-run CHECKPOINT --buffer`), made as D4RL's *medium-replay* sets are, but of a policy that is still at the beginning:
what two cores make in minutes. Networks of 64x64, 20,000 updates. Scores are normalised by what was measured here
(`mosaic datasets references`): 0 is chance, 100 is SAC's last policy, the best that the buffer knows of. They are
final, of 5 episodes; over seeds the interquartile mean counts, shown with its bootstrap interval of 95 %."""
ENV_ID, STEPS, UPDATES = "HalfCheetah-v5", 30_000, 20_000
EVALUATED = ("--n-episodes", "5")


def _task(algo: str, *flags: str) -> Task:
    return Task(algo, "replay", (*flags, *EVALUATED), updates=UPDATES, world="cheetah")


BC, IQL, TD3_BC, LOOSE = _task("bc"), _task("iql"), _task("td3_bc"), _task("td3_bc", "--alpha", "10")
TASKS = (BC, IQL, TD3_BC, LOOSE)
TITLES = tuple(task.title for task in TASKS)
CLAIMS = (
    Claim("IQL above BC on HalfCheetah's replay", IQL, BC, 0),
    Claim("TD3+BC above BC on HalfCheetah's replay", TD3_BC, BC, 0),
    Claim("TD3+BC (alpha 10) above BC on HalfCheetah's replay", LOOSE, BC, 0),
)


def run(*, quick: bool = False, lines: Sequence[str] = ()) -> Section:
    """One section of the benchmark page. `quick` trains one seed on what a shorter training saw."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cheetah-", dir=SCRATCH) as home:
        told = make_set(Path(home), STEPS // 5 if quick else STEPS)
        tasks = chosen(TASKS, lines, lambda one: one.title)
        found = measured(Path(home), SEEDS[:1] if quick else SEEDS, tasks, CLAIMS)
    references = [Line(f"return of {who}", [told["references"][who]]) for who in ("random", "expert")]
    return Section(NAME, TITLE, METHOD, [*found, *references])


def make_set(home: Path, steps: int) -> dict[str, Any]:
    """The dataset ``cheetah-replay`` below a data root, with its references; what is told of it."""
    _, last = sac_trained(home / "sac", ENV_ID, steps)
    _mosaic(home, "datasets", "from-run", str(last), "cheetah-replay", "--buffer")
    _mosaic(home, "datasets", "references", "cheetah-replay", "--from", str(last))
    told: dict[str, Any] = json.loads(_mosaic(home, "datasets", "show", "cheetah-replay", "--json"))
    return told


def _mosaic(home: Path, *words: str) -> str:
    environment = {**os.environ, "MOSAIC_HOME": str(home)}
    command = [sys.executable, "-m", "gym_gui.cli", *words]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise BenchmarkError(f"mosaic {' '.join(words)}: {ended.stderr.strip()[-300:]}")
    return ended.stdout
