"""Who did how well: estimates, who beats whom on the same seed, what an episode costs, what weakens it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations

import numpy as np

from gym_gui.services.arena.model import Arena, Entry, Kind
from gym_gui.services.arena.played import Played
from gym_gui.services.arena.seeds import shown_seeds
from gym_gui.services.compare import statistics as st
from gym_gui.services.compare.statistics import Estimate
from gym_gui.services.run_words import counted

OPTIMAL = "optimal"
"""The identity of the entry that others are measured by."""
HUMAN = "human"
"""The actor that a session writes down for its person."""
_FEW = 5
_LONGEST_LIST = 60


class Measure(StrEnum):
    """What is compared: of steps and gaps, fewer are better."""

    RETURN = "return"
    STEPS = "steps"
    GAP = "gap"
    """By how much the return falls short of the optimal policy's on the same seed."""


@dataclass(frozen=True)
class Cost:
    """Of an episode, on average; None where nobody knows."""

    seconds: float | None = None
    cpu_seconds: float | None = None
    tokens: float | None = None
    money: float | None = None


@dataclass(frozen=True)
class Standing:
    """One entry. ``estimates`` has ``iqm`` and ``mean``; it is empty where nothing was played."""

    entry: Entry
    played: Played
    values: Mapping[int, float]
    """Of the measure, by seed."""
    estimates: Mapping[str, Estimate]
    mean_steps: float | None
    cost: Cost
    is_person: bool


@dataclass(frozen=True)
class Standings:
    """``standings`` with the best first; ``improvements`` has for each ordered pair how probably the first does better
    on a seed that both played."""

    arena: Arena
    measure: Measure
    standings: Sequence[Standing]
    improvements: Mapping[tuple[str, str], Estimate]
    notes: Sequence[str]
    samples: int

    @property
    def is_complete(self) -> bool:
        return all(not one.played.missing(self.arena.seeds) for one in self.standings)

    def of(self, key: str) -> Standing | None:
        return next((one for one in self.standings if one.entry.key == key), None)


def standings_of(
    arena: Arena, played: Mapping[str, Played], measure: Measure = Measure.RETURN, *, samples: int = st.SAMPLES
) -> Standings:
    """``played`` by the keys of the entries."""
    optimal = next((played.get(one.key) for one in arena.entries if one.identity == OPTIMAL), None)
    found = [
        _standing(entry, played.get(entry.key, Played({})), measure, optimal, arena.seeds, samples)
        for entry in arena.entries
    ]
    found.sort(key=lambda one: _rank(one, measure))
    pairs = {}
    for one, other in permutations(found, 2):
        chance = _improvement(one.values, other.values, smaller_wins=measure is not Measure.RETURN, samples=samples)
        if chance is not None:
            pairs[one.entry.key, other.entry.key] = chance
    return Standings(arena, measure, found, pairs, list(_notes(arena, found)), samples)


def _rank(one: Standing, measure: Measure) -> tuple[bool, float, float]:
    iqm, mean = one.estimates.get("iqm"), one.estimates.get("mean")
    if iqm is None or mean is None:
        return True, 0.0, 0.0
    sign = -1.0 if measure is Measure.RETURN else 1.0
    return False, sign * iqm.value, sign * mean.value


def _standing(
    entry: Entry, played: Played, measure: Measure, optimal: Played | None, seeds: Sequence[int], samples: int
) -> Standing:
    values = _values(played, measure, optimal, seeds)
    estimates = {}
    if values:
        scores = [np.array(list(values.values()), dtype=np.float64)]
        aggregates: dict[str, st.Aggregate] = {"iqm": st.iqm, "mean": st.mean}
        estimates = {name: st.estimate(one, scores, samples=samples) for name, one in aggregates.items()}
    lengths = [result.length for result in played.results.values()]
    mean_steps = float(np.mean(lengths)) if lengths else None
    return Standing(entry, played, values, estimates, mean_steps, _cost(played), HUMAN in played.actors)


def _values(played: Played, measure: Measure, optimal: Played | None, seeds: Sequence[int]) -> dict[int, float]:
    found: dict[int, float] = {}
    for seed in seeds:
        result = played.results.get(seed)
        if result is None:
            continue
        if measure is Measure.RETURN:
            found[seed] = result.total
        elif measure is Measure.STEPS:
            found[seed] = float(result.length)
        elif optimal is not None and seed in optimal.results:
            found[seed] = optimal.results[seed].total - result.total
    return {seed: value for seed, value in found.items() if np.isfinite(value)}


def _cost(played: Played) -> Cost:
    told = [result.spent for result in played.results.values()]

    def average(name: str) -> float | None:
        known = [one[name] for one in told if name in one]
        return float(np.mean(known)) if known else None

    return Cost(average("seconds"), average("cpu_seconds"), average("tokens"), average("money"))


def _improvement(
    one: Mapping[int, float], other: Mapping[int, float], *, smaller_wins: bool, samples: int
) -> Estimate | None:
    """Paired by seed: the same seed is the same beginning. A draw counts half."""
    shared = [seed for seed in one if seed in other]
    if not shared:
        return None
    mine, theirs = (np.array([values[seed] for seed in shared]) for values in (one, other))
    if smaller_wins:
        mine, theirs = -mine, -theirs
    wins = (mine > theirs) + 0.5 * (mine == theirs)
    return st.estimate(st.mean, [wins.astype(np.float64)], samples=samples)


# ---- what weakens it ---------------------------------------------------------------------------------------------


def _notes(arena: Arena, found: Sequence[Standing]) -> Iterator[str]:
    for one in found:
        yield from _notes_on(arena, one)
    if len(arena.seeds) < _FEW:
        yield f"{counted(len(arena.seeds), 'seed')}: intervals of fewer than {_FEW} are rough"


def _notes_on(arena: Arena, one: Standing) -> Iterator[str]:
    label, played = one.entry.label, one.played
    if one.entry.problem:
        yield f"{label} cannot play: {one.entry.problem}"
    missing = played.missing(arena.seeds)
    if missing and played.results:
        yield f"{label} played {len(played.results)} of {len(arena.seeds)} seeds; missing are {_brief(missing)}"
    if played.others:
        times = counted(len(played.others), "episode")
        yield f"{label} also played other seeds ({_brief(played.others)}): {times} that do not count"
    if played.again:
        yield f"{label} played {_brief(played.again)} more than once: the first episode of each counts"
    yield from _verdict_notes(label, played)
    limit, own = arena.rules.get("max_episode_steps"), played.rules.get("max_episode_steps")
    if played.rules and limit != own:
        yield f"{label} may make {_limit(own)} an episode, the arena allows {_limit(limit)}"
    trained_on = one.entry.source.get("env_id", arena.env_id)
    if one.entry.kind is Kind.CHECKPOINT and trained_on != arena.env_id:
        yield f"{label} was trained on {trained_on}"


def _verdict_notes(label: str, played: Played) -> Iterator[str]:
    results = played.results.values()
    if unsure := [one.seed for one in results if one.verdict is None]:
        yield f"{label}: {counted(len(unsure), 'episode')} not verified yet"
    bad = [one for one in results if one.verdict is not None and not one.verdict.is_good]
    moody = [one.seed for one in bad if one.verdict is not None and one.verdict.repeats_itself is False]
    if moody:
        yield (
            f"{label}: the environment is not deterministic; simulated twice from the same seed it differs from itself "
            f"(seeds {_brief(moody)}), so equal seeds do not mean equal beginnings"
        )
    if others := [one for one in bad if one.seed not in moody]:
        first = others[0].verdict
        why = first.sentence if first is not None and first.sentence else "steps could not be compared"
        yield f"{label}: a replay does not confirm the seeds {_brief([one.seed for one in others])}: {why}"


def _brief(seeds: Sequence[int]) -> str:
    text = shown_seeds(set(seeds))
    return text if len(text) <= _LONGEST_LIST else f"{text[: _LONGEST_LIST - 1]}…"


def _limit(steps: object) -> str:
    return "any number of steps" if steps is None else f"{steps} steps"
