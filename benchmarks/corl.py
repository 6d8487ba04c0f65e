"""What our offline algorithms learn from datasets that are made here."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.daemon import BenchmarkError
from benchmarks.machine import SCRATCH
from benchmarks.pendulum_sets import make_sets
from benchmarks.report import Line, Section, Target, chosen

NAME = "corl"
TITLE = "Offline learning"
METHOD = """\
SAC learns Pendulum-v1 for 8,000 steps. Its policy (expert), the one of half the way (medium) and chance play 20,000
rows each; the mix has 80 % of chance and 20 % of the expert, the replay set is what SAC saw. Networks of 64x64, 12,000
updates. Scores are normalised (0 chance, 100 the expert's mean of 50 episodes, measured here) and **final**: of the
last evaluation, 10 episodes, deterministic. Over seeds the interquartile mean counts, shown with its bootstrap interval
of 95 %. Online: 6,000 updates on the replay set, then 4,000 steps in the environment."""

SEEDS = (1, 2, 3)
AT_ONCE = 2


@dataclass(frozen=True)
class Task:
    """One algorithm on one dataset."""

    algo: str
    dataset: str
    flags: tuple[str, ...] = ()
    updates: int = 12_000
    online: int = 0
    world: str = "pendulum"

    @property
    def title(self) -> str:
        flags = f" {' '.join(self.flags)}" if self.flags else ""
        online = f", then {self.online:,} online" if self.online else ""
        return f"{self.algo}{flags} on {self.dataset}{online}"


@dataclass(frozen=True)
class Claim:
    """How much higher one task scores than another, or how near it is to the expert."""

    title: str
    higher: Task
    lower: Task | None
    bound: float


BC_MIX, BC_REPLAY, BC_EXPERT = (Task("bc", name) for name in ("mix", "replay", "expert"))
IQL_MIX = Task("iql", "mix")
TD3_BC_REPLAY = Task("td3_bc", "replay", ("--alpha", "10"))
TUNED = (
    Task("iql", "replay", updates=6_000, online=4_000),
    Task("cal_ql", "replay", ("--cql-alpha", "1", "--cql-alpha-online", "1"), updates=6_000, online=4_000),
)
OTHERS = (
    Task("bc", "mix", ("--best-fraction", "0.1")),
    Task("td3_bc", "mix", ("--alpha", "10")),
    Task("iql", "replay"),
    Task("iql", "expert"),
)
TASKS: tuple[Task, ...] = (BC_MIX, IQL_MIX, BC_REPLAY, TD3_BC_REPLAY, BC_EXPERT, *TUNED, *OTHERS)
TITLES = tuple(task.title for task in TASKS)
CLAIMS = (
    Claim("IQL above BC on 80 % chance and 20 % expert", IQL_MIX, BC_MIX, 40),
    Claim("TD3+BC (alpha 10) above BC on replay", TD3_BC_REPLAY, BC_REPLAY, 25),
    Claim("BC on expert data, score", BC_EXPERT, None, 95),
)


def run(*, quick: bool = False, lines: Sequence[str] = ()) -> Section:
    """One section of the benchmark page. `quick` trains one seed."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="corl-", dir=SCRATCH) as home:
        make_sets(Path(home))
        tasks = chosen(TASKS, lines, lambda one: one.title)
        return Section(NAME, TITLE, METHOD, measured(Path(home), SEEDS[:1] if quick else SEEDS, tasks, CLAIMS))


def measured(home: Path, seeds: Sequence[int], tasks: Sequence[Task], claims: Sequence[Claim]) -> list[Line]:
    """Train each task with each seed; its lines, and those of the claims about them. Raises BenchmarkError."""
    jobs = [(task, seed) for task in tasks for seed in seeds]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        curves = dict(zip(jobs, pool.map(lambda job: train(job[0], job[1], home), jobs), strict=True))
    found = [line for task in tasks for line in _lines(task, [curves[task, seed] for seed in seeds])]
    judged = [claim for claim in claims if set(_pair(claim)) <= set(tasks)]
    found += [_claimed(claim, [[curves[one, seed] for seed in seeds] for one in _pair(claim)]) for claim in judged]
    return found


def _pair(claim: Claim) -> list[Task]:
    return [claim.higher] if claim.lower is None else [claim.higher, claim.lower]


def _claimed(claim: Claim, scores: list[list[dict[int, float]]]) -> Line:
    finals = [[_final(curve) for curve in one] for one in scores]
    values = finals[0] if len(finals) == 1 else [one - other for one, other in zip(*finals, strict=True)]
    return Line(claim.title, values, "points", Target("≥", claim.bound), over_seeds=True, is_iqm=True)


def _lines(task: Task, curves: list[dict[int, float]]) -> list[Line]:
    final = Line(f"{task.title}: final score", [_final(curve) for curve in curves], over_seeds=True, is_iqm=True)
    if not task.online:
        return [final]
    gained = [_final(curve) - curve[task.updates] for curve in curves]
    lowest = [
        min(value for step, value in curve.items() if step > task.updates) - curve[task.updates] for curve in curves
    ]
    return [
        Line(f"{task.title}: score before", [curve[task.updates] for curve in curves], over_seeds=True, is_iqm=True),
        final,
        Line(f"{task.title}: gained online", gained, "points", Target("≥", 0), over_seeds=True, is_iqm=True),
        Line(f"{task.title}: lowest point online", lowest, "points", Target("≥", -20), over_seeds=True, is_iqm=True),
    ]


def _final(curve: dict[int, float]) -> float:
    return curve[max(curve)]


def train(task: Task, seed: int, home: Path) -> dict[int, float]:
    """Normalised scores by update. Raises BenchmarkError."""
    script = Path(__file__).resolve().parents[1] / "corl_worker" / "corl" / f"{task.algo}.py"
    words = ["--dataset", f"{task.world}-{task.dataset}", "--seed", str(seed), "--hidden-dim", "64", *task.flags]
    words += ["--total-timesteps", str(task.updates), "--eval-freq", "2000"]
    words += ["--online-steps", str(task.online)] if task.online else []
    environment = {**os.environ, "MOSAIC_HOME": str(home), "PYTHONPATH": str(script.parents[2]), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script), *words]
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise BenchmarkError(f"{task.title}: {ended.stderr.strip()[-300:]}")
        curve = _scores(Path(folder))
    print(f"  {task.title}, seed {seed}: {curve}", file=sys.stderr, flush=True)
    return curve


def _scores(folder: Path) -> dict[int, float]:
    from gym_gui.services.scalars.event_reader import EventFileReader

    (file,) = folder.glob("runs/*/events.out.tfevents.*")
    reader = EventFileReader(file)
    points = reader.read_all().points
    wanted = points.tag == reader.tags.index("charts/normalized_score")
    return dict(zip(points.steps[wanted].tolist(), points.values[wanted].tolist(), strict=True))
