"""What a checkpoint costs the training."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from benchmarks.daemon import BenchmarkError
from benchmarks.machine import SCRATCH
from benchmarks.report import Line, Section, Target

NAME = "checkpoint_cost"
TITLE = "What a checkpoint costs"
METHOD = """\
A training with frequent checkpoints, without a replay buffer in them. Held up: how long the training thread takes to
copy the state and hand it over. Written: how long a thread beside it then takes to write, sync and hash the files."""


@dataclass(frozen=True)
class Case:
    """One training, and how the report names it."""

    title: str
    algo: str
    flags: tuple[str, ...]


CASES = (
    Case("PPO on CartPole-v1", "ppo", ("--total-timesteps", "40000", "--checkpoint-every", "2000")),
    Case(
        "DQN on CartPole-v1",
        "dqn",
        ("--total-timesteps", "20000", "--learning-starts", "1000", "--no-save-buffer", "--checkpoint-every", "1000"),
    ),
    Case(
        "SAC on Pendulum-v1",
        "sac_continuous_action",
        (
            *("--env-id", "Pendulum-v1", "--total-timesteps", "2000", "--learning-starts", "500"),
            *("--no-save-buffer", "--checkpoint-every", "100"),
        ),
    ),
    Case(
        "PPO on Pong",
        "ppo_atari",
        ("--env-id", "PongNoFrameskip-v4", "--total-timesteps", "8192", "--checkpoint-every", "1024"),
    ),
)
TARGET = Target("<", 100)


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page; `quick` leaves Atari out."""
    lines = []
    for case in CASES[:-1] if quick else CASES:
        found = probed(case)
        lines.append(Line(f"{case.title}: training held up", found["held_up"], "ms", TARGET))
        lines.append(Line(f"{case.title}: written beside it", found["written"], "ms", TARGET))
    return Section(NAME, TITLE, METHOD, lines)


def probed(case: Case) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=SCRATCH) as folder:
        command = [sys.executable, "-m", "benchmarks.checkpoint_probe", case.algo, *case.flags]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{case.algo} exited with status {done.returncode}: {done.stderr.strip()[-300:]}")
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found
