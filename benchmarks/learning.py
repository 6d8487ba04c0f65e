"""Whether our scripts learn what they should: several seeds each, judged by what the issue of learning is, returns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare_scripts import BareScript
from benchmarks.daemon import BenchmarkError
from benchmarks.report import Line, Section, Target, chosen

NAME = "learning"
TITLE = "What our scripts learn"
METHOD = """\
Each script bare, with default hyper-parameters unless a flag is named, 3 seeds, mean ± standard deviation over them. In
training: the mean return of the last 100 episodes. Evaluated: 100 episodes of the last checkpoint with
`python -m cleanrl_worker.evaluate --seed 7`, as `mosaic eval` does, deterministic."""

SEEDS = (1, 2, 3)
AT_ONCE = 2
"""Trainings side by side: returns do not depend on the time they take."""


@dataclass(frozen=True)
class Task:
    """One training and the return that is asked of it, in training or when evaluated."""

    algo: str
    env_id: str
    steps: int
    asked: float
    evaluated: bool = False
    flags: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        flags = f" {' '.join(self.flags)}" if self.flags else ""
        return f"{self.algo}{flags}, {self.env_id}, {self.steps:,} steps"


TASKS = (
    Task("ppo", "CartPole-v1", 500_000, 485),
    Task("dqn", "CartPole-v1", 500_000, 480),
    Task("c51", "CartPole-v1", 500_000, 475),
    Task("ppo", "Acrobot-v1", 500_000, -90),
    Task("sac_continuous_action", "Pendulum-v1", 20_000, -170, evaluated=True, flags=("--learning-starts", "1000")),
    Task("td3_continuous_action", "Pendulum-v1", 20_000, -170, evaluated=True, flags=("--learning-starts", "1000")),
    Task("ppo_continuous_action", "InvertedPendulum-v5", 300_000, 900),
)


TITLES = tuple(task.title for task in TASKS)


@dataclass(frozen=True)
class Outcome:
    """What one seed came to."""

    in_training: float
    evaluated: float


def run(*, quick: bool = False, lines: Sequence[str] = ()) -> Section:
    """One section of the benchmark page, of all tasks or those whose title has one of the words in `lines`.

    `quick` trains one seed.
    """
    seeds = SEEDS[:1] if quick else SEEDS
    tasks = chosen(TASKS, lines, lambda task: task.title)
    jobs = [(task, seed) for task in tasks for seed in seeds]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = dict(zip(jobs, pool.map(lambda job: train(*job), jobs), strict=True))
    found = [line for task in tasks for line in lines_of(task, [outcomes[task, seed] for seed in seeds])]
    return Section(NAME, TITLE, METHOD, found)


def lines_of(task: Task, outcomes: list[Outcome]) -> list[Line]:
    target = Target("≥", task.asked)
    training = Line(
        f"{task.title}: return in training",
        [one.in_training for one in outcomes],
        target=None if task.evaluated else target,
        over_seeds=True,
    )
    evaluated = Line(
        f"{task.title}: return evaluated",
        [one.evaluated for one in outcomes],
        target=target if task.evaluated else None,
        over_seeds=True,
    )
    return [training, evaluated]


def train(task: Task, seed: int) -> Outcome:
    """Train one seed to its end and evaluate what it came to. Raises BenchmarkError."""
    script = BareScript.ours(task.algo)
    flags = ["--env-id", task.env_id, "--seed", str(seed), "--total-timesteps", str(task.steps), *task.flags]
    with script.started(flags) as (child, folder):
        script.require_success(child)
        checkpoint = max(folder.glob("runs/*/checkpoints/step-*"))
        metrics = json.loads((checkpoint / "checkpoint.json").read_text())["metrics"]
        outcome = Outcome(metrics["mean_return"], evaluated_return(checkpoint))
    print(f"  {task.title}, seed {seed}: {outcome}", file=sys.stderr, flush=True)
    return outcome


def evaluated_return(checkpoint: Path) -> float:
    command = [sys.executable, "-m", "cleanrl_worker.evaluate", "--checkpoint", str(checkpoint)]
    answer = subprocess.run(
        [*command, "--mode", "deterministic", "--episodes", "100", "--seed", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BenchmarkError(f"{checkpoint.name} could not be evaluated: {answer.stderr.strip()[-300:]}")
    result = json.loads(answer.stdout.splitlines()[-1])
    return float(result["results"]["deterministic"]["mean"])
