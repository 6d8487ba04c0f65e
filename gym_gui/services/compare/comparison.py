"""Groups side by side. Pure: from measured runs to estimates and sentences about what weakens them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from gym_gui.services.compare import statistics as st
from gym_gui.services.compare.groups import CompareError
from gym_gui.services.compare.measures import By, Measured
from gym_gui.services.compare.statistics import Array, Estimate, Reference
from gym_gui.services.run_words import counted

FEW_RUNS = 5
"""Below this an interval says little about the next run."""


@dataclass(frozen=True)
class Compared:
    """One group: its runs that count, by environment, those that do not, and what follows."""

    label: str
    counting: Mapping[str, Sequence[Measured]]
    left_out: Sequence[Measured]
    estimates: Mapping[str, Estimate]

    @property
    def runs(self) -> list[Measured]:
        return [one for members in self.counting.values() for one in members]


@dataclass(frozen=True)
class Comparison:
    """What a report shows. ``improvements`` has for each ordered pair of groups how probably a run of the first beats
    one of the second."""

    by: By
    at: int | None
    environments: Sequence[str]
    references: Mapping[str, Reference]
    groups: Sequence[Compared]
    improvements: Mapping[tuple[str, str], Estimate]
    notes: Sequence[str]
    samples: int
    seed: int = 0
    """Of the resamples."""

    @property
    def is_normalised(self) -> bool:
        return bool(self.references)


@dataclass
class Question:
    """What is to be compared, and how."""

    by: By = By.TRAINING
    at: int | None = None
    references: Mapping[str, Reference] = field(default_factory=dict)
    is_mixed: bool = False
    samples: int = st.SAMPLES
    seed: int = 0


def compared(measured: Mapping[str, Sequence[Measured]], question: Question) -> Comparison:
    """Raises CompareError for what cannot be compared honestly."""
    counting = {label: [one for one in runs if not one.why_not] for label, runs in measured.items()}
    empty = [
        f"nothing of {label!r} counts: {_reasons(measured[label])}" for label, runs in counting.items() if not runs
    ]
    counting = {label: runs for label, runs in counting.items() if runs}
    if not counting:
        raise CompareError("; ".join(empty))
    environments = _environments(counting, question)
    references = _references(environments, question)
    scores = {label: scores_of(runs, environments, references) for label, runs in counting.items()}
    groups = [
        _group(label, measured[label], counting[label], environments, scores[label], bool(references), question)
        for label in counting
    ]
    pairs = {
        (one, other): st.improvement_estimate(scores[one], scores[other], samples=question.samples, seed=question.seed)
        for one, other in permutations(counting, 2)
    }
    notes = [*empty, *_notes(groups, environments, question)]
    return Comparison(
        question.by, question.at, environments, references, groups, pairs, notes, question.samples, question.seed
    )


# ---- what is compared --------------------------------------------------------------------------------------------


def _environments(counting: Mapping[str, Sequence[Measured]], question: Question) -> list[str]:
    each = {label: {one.run.env_id for one in runs} for label, runs in counting.items()}
    common, everything = set.intersection(*each.values()), set.union(*each.values())
    if common == everything:
        return sorted(common)
    if not common:
        had = "; ".join(f"{label!r} {_some(sorted(found))}" for label, found in each.items())
        raise CompareError(f"these groups have no environment in common, so returns say nothing of each other: {had}")
    if not question.is_mixed:
        label, lacking = next((label, everything - found) for label, found in each.items() if everything - found)
        advice = "--mixed compares the environments that all groups have"
        raise CompareError(f"{label!r} has no runs of {_some(sorted(lacking))}, others have: {advice}")
    return sorted(common)


def _some(names: Sequence[str]) -> str:
    told = [name or "an unknown one" for name in names[:3]]
    return ", ".join(told) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _references(environments: Sequence[str], question: Question) -> dict[str, Reference]:
    """Those of the environments that are compared; none where a single one is compared as it is."""
    found = {name: question.references[name] for name in environments if name in question.references}
    lacking = [name for name in environments if name not in found]
    if lacking and (found or len(environments) > 1):
        raise CompareError(
            f"returns of different environments cannot be added up: say what counts as 0 and as 1 for {lacking[0]}, "
            f"as in --reference {lacking[0]}=LOW:HIGH"
        )
    return found


def scores_of(
    runs: Sequence[Measured], environments: Sequence[str], references: Mapping[str, Reference]
) -> list[Array]:
    """One array for each environment; between its references where there are some."""
    found = []
    for name in environments:
        scores = np.array([one.score for one in runs if one.run.env_id == name], dtype=np.float64)
        found.append(references[name].normalised(scores) if references else scores)
    return found


def _group(
    label: str,
    measured: Sequence[Measured],
    runs: Sequence[Measured],
    environments: Sequence[str],
    scores: Sequence[Array],
    is_normalised: bool,
    question: Question,
) -> Compared:
    aggregates: dict[str, st.Aggregate] = {"iqm": st.iqm, "mean": st.mean, "median": st.median}
    if is_normalised:
        aggregates["optimality_gap"] = st.optimality_gap(1.0)
    estimates = {
        name: st.estimate(aggregate, scores, samples=question.samples, seed=question.seed)
        for name, aggregate in aggregates.items()
    }
    ordered = sorted(runs, key=lambda one: (one.run.seed if one.run.HasField("seed") else math.inf, one.run.run_id))
    counting = {name: [one for one in ordered if one.run.env_id == name] for name in environments}
    left = [one for one in measured if one.why_not]
    return Compared(label, counting, left, estimates)


# ---- what weakens it ---------------------------------------------------------------------------------------------


def _notes(groups: Sequence[Compared], environments: Sequence[str], question: Question) -> Iterator[str]:
    for group in groups:
        if group.left_out:
            yield f"{group.label}: {counted(len(group.left_out), 'run')} left out ({_reasons(group.left_out)})"
        for name, members in group.counting.items():
            where = f" of {name}" if len(environments) > 1 else ""
            if len(members) < st.FEWEST_RUNS:
                yield f"{group.label} has one run{where}: no interval can be given"
            elif len(members) < FEW_RUNS:
                yield f"{group.label} has {len(members)} runs{where}: intervals of fewer than {FEW_RUNS} are rough"
            yield from _seed_notes(group.label, members)
    yield from _length_notes(groups, question)
    numbers = {len(group.runs) for group in groups}
    if len(numbers) > 1:
        yield f"groups have different numbers of runs: {', '.join(f'{one.label} {len(one.runs)}' for one in groups)}"


def _seed_notes(label: str, members: Sequence[Measured]) -> Iterator[str]:
    seeds = Counter(one.run.seed for one in members if one.run.HasField("seed"))
    again = sorted(seed for seed, times in seeds.items() if times > 1)
    if again:
        yield f"{label} has seed {', '.join(map(str, again[:5]))} more than once: those runs may be the same one again"
    without = sum(not one.run.HasField("seed") for one in members)
    if without:
        yield f"{label}: {counted(without, 'run')} without a seed"


def _length_notes(groups: Sequence[Compared], question: Question) -> Iterator[str]:
    if question.by is not By.TRAINING or question.at is not None:
        return
    steps = [one.run.last_step for group in groups for one in group.runs]
    if min(steps) < 0.98 * max(steps):
        yield (
            f"runs have different lengths, {min(steps):,} to {max(steps):,} steps: "
            f"`mosaic compare --at {min(steps)}` compares them at the same step"
        )


def _reasons(left: Sequence[Measured]) -> str:
    found = Counter(one.why_not.partition(": ")[0] for one in left)
    return ", ".join(f"{times} {reason}" for reason, times in found.most_common())
