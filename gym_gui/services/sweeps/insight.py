"""What a sweep looks like so far: its trials by worth, how they stand, the best over time, and what of the budget is
used. Pure: from a sweep to numbers and words for screens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from gym_gui.services.run_words import compact, quantity
from gym_gui.services.sweeps.model import OPEN, WORST, Sweep, SweepSpec, SweepState, Trial, TrialState
from gym_gui.services.sweeps.report import cost_of

if TYPE_CHECKING:
    from gym_gui.services.compare.statistics import Estimate

Standing: TypeAlias = Literal["kept", "pruned", "open"]
STATE_COLOURS = {
    SweepState.RUNNING: "accent",
    SweepState.PAUSED: "warning",
    SweepState.STOPPING: "warning",
    SweepState.STOPPED: "idle",
    SweepState.COMPLETED: "good",
    SweepState.FAILED: "bad",
}
"""The theme's colour for each state of a sweep."""


# ---- one trial ---------------------------------------------------------------------------------------------------


def worth(trial: Trial) -> float | None:
    """The trial's value; of one that is not complete what was seen of it last. None without any, and where the metric
    was no number."""
    found = trial.value if trial.value is not None else next((value for _, value in reversed(trial.rungs)), None)
    return found if found is not None and math.isfinite(found) and abs(found) < WORST else None


def standing(trial: Trial) -> Standing:
    """Whether its worth is final, was seen at a rung that it did not get beyond, or may still change."""
    if trial.state is TrialState.COMPLETE:
        return "kept"
    return "open" if trial.state in OPEN else "pruned"


@dataclass(frozen=True)
class Status:
    """A word or three, and the theme's colour for them."""

    text: str
    colour: str


def status_of(trial: Trial, spec: SweepSpec) -> Status:
    """How a trial stands: "pruned at 300k", "promoted to 900k"."""
    match trial.state:
        case TrialState.COMPLETE:
            return Status("completed", "good")
        case TrialState.PRUNED:
            return Status(f"pruned at {compact(trial.last_rung)}", "idle")
        case TrialState.PRUNING:
            return Status(f"stopping at {compact(trial.last_rung)}", "warning")
        case TrialState.FAILED:
            return Status("failed", "bad")
        case TrialState.STOPPED:
            return Status("stopped", "idle")
    if trial.promotions or trial.last_rung:
        beyond = [step for step in (*spec.rungs, spec.total_steps) if step > trial.last_rung]
        return Status(f"promoted to {compact(beyond[0])}" if beyond else "promoted", "accent")
    return Status("running", "accent")


def steps_of(trial: Trial, live: Mapping[str, int] | None = None) -> int:
    """Steps that its runs have trained. ``live``: the last step of runs that go on, which the sweep does not know
    yet; a run that goes on from another one counts its steps from there."""
    known = live or {}
    return sum(max(seed.steps, known.get(seed.runs[-1], 0) if seed.runs else 0) for seed in trial.seeds)


def runs_of(trial: Trial) -> list[str]:
    """Ids of all its runs, the newest of the first seed first."""
    return [run_id for seed in trial.seeds for run_id in reversed(seed.runs)]


def interval_of(trial: Trial, spec: SweepSpec) -> Estimate | None:
    """The value over its seeds with a 95 % interval; None where it has fewer than two seeds: none is invented."""
    values = tuple(seed.value for seed in trial.seeds if seed.value is not None and abs(seed.value) < WORST)
    return _interval(values, spec.objective) if len(values) > 1 else None


@lru_cache(maxsize=20_000)
def _interval(values: tuple[float, ...], objective: str) -> Estimate | None:
    import numpy as np

    from gym_gui.services.compare import statistics as st

    found = st.estimate(st.iqm if objective == "iqm" else st.mean, [np.array(values)], samples=500)
    return found if found.low is not None else None


# ---- all of them -------------------------------------------------------------------------------------------------


def by_worth(sweep: Sweep) -> list[Trial]:
    """Best first; what has no value yet stands last, the newest of it first."""
    sign = sweep.spec.sign()

    def key(trial: Trial) -> tuple[bool, float]:
        value = worth(trial)
        return (True, -trial.number) if value is None else (False, -sign * value)

    return sorted(sweep.trials, key=key)


@dataclass(frozen=True)
class Point:
    number: int
    value: float
    standing: Standing


@dataclass(frozen=True)
class History:
    """Every trial that has a value, by number, and (number, best value so far) wherever a complete one was better."""

    points: tuple[Point, ...]
    best: tuple[tuple[int, float], ...]


def history(sweep: Sweep) -> History:
    sign = sweep.spec.sign()
    points, best = [], list[tuple[int, float]]()
    for trial in sweep.trials:
        value = worth(trial)
        if value is None:
            continue
        points.append(Point(trial.number, value, standing(trial)))
        if trial.state is TrialState.COMPLETE and (not best or sign * value > sign * best[-1][1]):
            best.append((trial.number, value))
    return History(tuple(points), tuple(best))


def slice_points(sweep: Sweep, setting: str) -> list[tuple[object, Point]]:
    """(value of the setting, worth) of every trial that has both."""
    points = {point.number: point for point in history(sweep).points}
    return [
        (trial.params[setting], points[trial.number])
        for trial in sweep.trials
        if setting in trial.params and trial.number in points
    ]


# ---- the budget --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """Steps by what became of them; ``left`` is what the rest takes when nothing more is pruned. Where the length of a
    run is not known the unit is a trial, and nothing is known to be saved."""

    finished: int
    going_on: int
    pruned: int
    left: int
    saved: int
    in_steps: bool

    @property
    def used(self) -> int:
        return self.finished + self.going_on + self.pruned

    @property
    def whole(self) -> int:
        return self.used + self.left

    def shown(self, amount: int) -> str:
        return compact(amount) if self.in_steps else f"{amount:,}"


def budget_of(sweep: Sweep, live: Mapping[str, int] | None = None) -> Budget:
    whole = sweep.spec.total_steps
    begun, more = sweep.trials, max(0, sweep.budget - len(sweep.trials))
    if sweep.is_over:
        more = 0
    if not whole:
        return Budget(*_counts(begun), left=more, saved=0, in_steps=False)
    going_on = [trial for trial in begun if trial.state in OPEN]
    pruned = [trial for trial in begun if trial.state is TrialState.PRUNED]
    others = [trial for trial in begun if trial.state not in OPEN and trial.state is not TrialState.PRUNED]
    rest = sum(max(0, whole * len(trial.seeds) - steps_of(trial, live)) for trial in going_on)
    cost = cost_of(sweep)
    return Budget(
        finished=sum(map(steps_of, others)),
        going_on=sum(steps_of(trial, live) for trial in going_on),
        pruned=sum(map(steps_of, pruned)),
        left=rest + more * whole,
        saved=max(0, cost.full - cost.judged) if sweep.spec.pruner != "none" else 0,
        in_steps=True,
    )


def with_live(budget: Budget, open_trials: Iterable[Trial], live: Mapping[str, int]) -> Budget:
    """A budget that was counted without ``live``, as it is with it: only trials that are open are looked at."""
    more = sum(steps_of(trial, live) - steps_of(trial) for trial in open_trials) if budget.in_steps else 0
    return replace(budget, going_on=budget.going_on + more, left=max(0, budget.left - more))


def _counts(trials: Iterable[Trial]) -> tuple[int, int, int]:
    """How many are over, go on, were pruned."""
    states = [trial.state for trial in trials]
    going_on, pruned = sum(state in OPEN for state in states), states.count(TrialState.PRUNED)
    return len(states) - going_on - pruned, going_on, pruned


def ended(sweep: Sweep) -> int:
    return sum(trial.state not in OPEN for trial in sweep.trials)


def seconds_left(sweep: Sweep) -> float | None:
    """From what the trials that are over took: an open one counts half. None before the first is over, or when nobody
    trains."""
    took = [sum(seed.seconds for seed in trial.seeds) for trial in sweep.trials if trial.state not in OPEN]
    if not took or not sum(took) or sweep.state is not SweepState.RUNNING:
        return None
    going_on = len(sweep.trials) - len(took)
    rest = max(0, sweep.budget - len(sweep.trials)) + going_on / 2
    return rest * sum(took) / len(took) / max(1, sweep.spec.parallel)


# ---- settings ----------------------------------------------------------------------------------------------------


def shown_value(value: object) -> str:
    """A setting as people write it: ``0.00068``, ``1,024``, ``relu``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def objective_title(spec: SweepSpec) -> str:
    """What is searched for, in a word or two: ``IQM return``."""
    what = spec.metric.rpartition("/")[2].removeprefix("episodic_").replace("_", " ")
    word = {"iqm": "IQM", "mean": "mean"}.get(spec.objective, spec.objective)
    return f"{word} {what}" if len(spec.seeds) > 1 else what


def shown_worth(trial: Trial) -> str:
    value = worth(trial)
    return "–" if value is None else quantity(value)


@dataclass(frozen=True)
class Beside:
    """A setting of a trial beside what it is by default; ``default`` None where nobody knows."""

    setting: str
    value: object
    default: object
    is_known: bool

    @property
    def differs(self) -> bool:
        return not self.is_known or self.value != self.default


def beside_default(sweep: Sweep, trial: Trial, script: Mapping[str, object]) -> list[Beside]:
    """Every setting of a trial beside the default one: what the sweep was started with, or else the script's own."""
    given = sweep.spec.config.get("metadata", {}).get("worker", {}).get("config", {}).get("params") or {}
    known = {**script, **given}
    settings = {**sweep.spec.fixed, **trial.params}
    return [Beside(name, value, known.get(name), name in known) for name, value in settings.items()]
