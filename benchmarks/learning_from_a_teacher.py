"""Whether QDagger's student passes the teacher that it begins from."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bare_scripts import BareScript
from benchmarks.learning import AT_ONCE, SEEDS, evaluated_return
from benchmarks.report import Line, Section, Target

NAME = "learning_from_a_teacher"
TITLE = "What QDagger's student makes of its teacher"
METHOD = """\
A teacher is trained with `dqn` for too short a time, then a student with `qdagger_dqn_atari_impalacnn` from the
teacher's checkpoint, 3 seeds, mean ± standard deviation over them. Both are evaluated greedily over 100 episodes, as
`mosaic eval` does. MinAtar's Breakout stands for Atari: pictures of 10x10 cells, learnt on a CPU in minutes."""

MINATAR = "MinAtar==1.0.15"
INSTALL = f"MinAtar is not installed: `pip install --no-deps {MINATAR}` brings it"


@dataclass(frozen=True)
class Lesson:
    """A teacher and its student on one environment."""

    title: str
    env_id: str
    teacher_flags: str
    student_flags: str


LESSONS = (
    Lesson(
        "CartPole-v1",
        "CartPole-v1",
        "--total-timesteps 25000 --learning-starts 2000 --exploration-fraction 0.4",
        "--teacher-steps 4000 --offline-steps 2000 --total-timesteps 12000 --learning-starts 500 --learning-rate 1e-3 "
        "--batch-size 128 --buffer-size 10000 --target-network-frequency 500 --start-e 0.2 --end-e 0.02 "
        "--exploration-fraction 0.4",
    ),
    Lesson(
        "MinAtar Breakout",
        "benchmarks.minatar_games:MinAtar/Breakout-v1",
        "--total-timesteps 60000 --learning-rate 1e-3 --learning-starts 2000 --buffer-size 50000 --train-frequency 4 "
        "--exploration-fraction 0.3 --batch-size 32",
        "--teacher-steps 10000 --offline-steps 4000 --total-timesteps 30000 --learning-starts 1000 "
        "--learning-rate 3e-4 --train-frequency 2 --start-e 0.3 --end-e 0.02 --exploration-fraction 0.25 "
        "--target-network-frequency 500 --temperature 0.1",
    ),
)


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page; `quick` gives one lesson in each."""
    if find_spec("minatar") is None:
        return Section(NAME, TITLE, METHOD, problem=INSTALL)
    jobs = [(lesson, seed) for lesson in LESSONS for seed in (SEEDS[:1] if quick else SEEDS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        returns = list(pool.map(lambda job: teach(*job), jobs))
    lines = []
    for lesson in LESSONS:
        pairs = [pair for (one, _), pair in zip(jobs, returns, strict=True) if one is lesson]
        gains = [student - teacher for teacher, student in pairs]
        lines += [
            Line(f"{lesson.title}: return of the teacher", [teacher for teacher, _ in pairs], over_seeds=True),
            Line(f"{lesson.title}: return of the student", [student for _, student in pairs], over_seeds=True),
            Line(f"{lesson.title}: student − teacher", gains, target=Target(">", 0), over_seeds=True),
        ]
    return Section(NAME, TITLE, METHOD, lines)


def teach(lesson: Lesson, seed: int) -> tuple[float, float]:
    """Returns of a teacher and of its student. Raises BenchmarkError."""
    common = ["--env-id", lesson.env_id, "--seed", str(seed), "--checkpoint-every", "0"]
    teacher, student = BareScript.ours("dqn"), BareScript.ours("qdagger_dqn_atari_impalacnn")
    with teacher.started([*common, *lesson.teacher_flags.split()]) as (child, folder):
        teacher.require_success(child)
        taught = _last_checkpoint(folder)
        words = [*common, "--teacher-policy", str(taught), *lesson.student_flags.split()]
        with student.started(words) as (learner, place):
            student.require_success(learner)
            found = evaluated_return(taught), evaluated_return(_last_checkpoint(place))
    print(f"  {lesson.title}, seed {seed}: teacher {found[0]:.2f}, student {found[1]:.2f}", file=sys.stderr, flush=True)
    return found


def _last_checkpoint(folder: Path) -> Path:
    return max(folder.glob("runs/*/checkpoints/step-*"))
