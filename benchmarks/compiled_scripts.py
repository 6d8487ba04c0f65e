"""Compiled scripts, against their twins in PyTorch: speed while they train, whole runs, and what they learn."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bare_scripts import BareScript
from benchmarks.daemon_overhead import Speed
from benchmarks.report import Line, Section, Target, chosen, interleaved, ratios

NAME = "compiled_scripts"
TITLE = "Compiled scripts, against their twins in PyTorch"
METHOD = """\
Both of `cleanrl_worker/cleanrl`, with the same hyper-parameters (the defaults unless a flag is named), one thread,
run bare and interleaved as ABBA; a ratio belongs to one pair. Speed is the steps between the first and the last point
of `charts/SPS` by the CPU time of the process between them, so starting and compiling count for neither. A whole run
is counted from the start of the process to its end, by CPU time, with the program in the cache. Returns are the mean
of the last 100 episodes in training, over seeds. Of several seeds in one program the steps of all count. Targets of
SAC and TD3 are what stable-baselines-jax was measured at against the twins, and a tenth more."""
SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Pair:
    """A compiled script, its twin, and how much faster it is to be."""

    compiled: str
    twin: str
    env_id: str
    steps: int
    asked: float
    whole_steps: int = 0
    """Of whole runs; 0 measures none."""
    whole_asked: float = 1.0
    return_asked: float = 0.0
    flags: tuple[str, ...] = ()
    seeds: int = 1
    """How many the compiled script trains at once; its speed is that of all together."""

    @property
    def title(self) -> str:
        many = f" with {self.seeds} seeds" if self.seeds > 1 else ""
        return f"{self.compiled}{many}, {self.env_id}"

    @property
    def own_flags(self) -> list[str]:
        """Of the compiled script alone."""
        return ["--seeds", str(self.seeds)] if self.seeds > 1 else []

    def words(self, steps: int, *more: str) -> list[str]:
        return ["--env-id", self.env_id, "--total-timesteps", str(steps), *self.flags, *more]


_EARLY = ("--learning-starts", "1000")
PAIRS = (
    Pair("ppo_jax", "ppo", "CartPole-v1", 200_000, 6.0, 500_000, 0.2, 500.0),
    Pair("ppo_jax", "ppo", "CartPole-v1", 100_000, 8.0, seeds=16),
    Pair("dqn_jax", "dqn", "CartPole-v1", 60_000, 2.0),
    Pair("c51_jax", "c51", "CartPole-v1", 60_000, 2.0),
    Pair("sac_jax", "sac_continuous_action", "Pendulum-v1", 2_500, 1.4, flags=_EARLY),
    Pair("td3_jax", "td3_continuous_action", "Pendulum-v1", 2_500, 1.2, flags=_EARLY),
)
TITLES = tuple(pair.title for pair in PAIRS)


def run(*, quick: bool = False, lines: Sequence[str] = ()) -> Section:
    """One section of the benchmark page. `quick` makes one pair and trains one seed."""
    found: list[Line] = []
    for pair in chosen(PAIRS, lines, lambda pair: pair.title):
        found += lines_of(pair, 1 if quick else 3, SEEDS[:1] if quick else SEEDS)
    return Section(NAME, TITLE, METHOD, found)


def lines_of(pair: Pair, count: int, seeds: Sequence[int]) -> list[Line]:
    ours, theirs = BareScript.ours(pair.compiled), BareScript.ours(pair.twin)
    whole_run(ours, pair.words(1_100 if pair.flags else 1, *pair.own_flags))  # compiles, once it learns
    words = pair.words(pair.steps, "--seed", "1")
    mine = partial(ours.speed, [*words, *pair.own_flags])
    speeds: list[tuple[Speed, Speed]] = interleaved(count, mine, partial(theirs.speed, words))
    by_cpu = ratios([(pair.seeds * one.per_cpu_second, other.per_cpu_second) for one, other in speeds])
    found = [
        Line(f"{pair.title}: steps per CPU second ÷ {pair.twin}", by_cpu, target=Target("≥", pair.asked)),
        Line(f"{pair.title}: steps per CPU second", [pair.seeds * one.per_cpu_second for one, _ in speeds], "/s"),
        Line(f"{pair.title}: steps per CPU second of {pair.twin}", [other.per_cpu_second for _, other in speeds], "/s"),
    ]
    if pair.whole_steps:
        words = pair.words(pair.whole_steps)
        wholes = interleaved(min(count, 2), partial(whole_run, ours, words), partial(whole_run, theirs, words))
        what = f"{pair.title}: CPU time of a whole run of {pair.whole_steps:,} steps"
        shorter = Target("≤", pair.whole_asked)
        found.append(Line(f"{what} ÷ {pair.twin}", ratios([(a.cpu, b.cpu) for a, b in wholes]), target=shorter))
        found.append(Line(what, [one.cpu for one, _ in wholes], "s"))
        returns = [whole_run(ours, [*words, "--seed", str(seed)]).mean_return for seed in seeds]
        asked = Target("≥", pair.return_asked)
        found.append(Line(f"{pair.title}: return in training", returns, target=asked, over_seeds=True))
    return found


@dataclass(frozen=True)
class Whole:
    """One run from the start of its process to the end."""

    seconds: float
    cpu: float
    mean_return: float


def whole_run(script: BareScript, words: Sequence[str]) -> Whole:
    """Raises BenchmarkError."""
    before, began = _cpu_of_children(), time.monotonic()
    with script.started(words) as (child, folder):
        script.require_success(child)
        seconds = time.monotonic() - began
        checkpoint = max(folder.glob("runs/**/checkpoints/step-*"))
        metrics = json.loads((checkpoint / "checkpoint.json").read_text())["metrics"]
    return Whole(seconds, _cpu_of_children() - before, float(metrics.get("mean_return") or 0.0))


def _cpu_of_children() -> float:
    """CPU time of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
