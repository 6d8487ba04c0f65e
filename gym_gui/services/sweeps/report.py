"""What a sweep found, and what it cost. Pure: from a sweep to numbers and sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from gym_gui.services.run_words import counted
from gym_gui.services.sweeps.model import Sweep, SweepSpec, SweepState, Trial, TrialState, turns_told

_FEW = 5
"""Fewer survivors than this say nothing about how well a rung foretells the end."""


@dataclass(frozen=True)
class Cost:
    """What was trained. ``full``: what the judged seed of every trial that ended would have taken without pruning."""

    judged: int
    full: int
    more_seeds: int
    failed: int
    seconds: float

    @property
    def saved(self) -> float | None:
        """The part of the judged seeds' training that pruning saved; None where nothing ended."""
        return 1 - self.judged / self.full if self.full else None


def cost_of(sweep: Sweep) -> Cost:
    ended = [trial for trial in sweep.trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    whole = sweep.spec.total_steps or max((trial.seeds[0].steps for trial in ended), default=0)
    failed = [trial for trial in sweep.trials if trial.state is TrialState.FAILED]
    return Cost(
        judged=sum(trial.seeds[0].steps for trial in ended),
        full=whole * len(ended),
        more_seeds=sum(seed.steps for trial in ended for seed in trial.seeds[1:]),
        failed=sum(seed.steps for trial in failed for seed in trial.seeds),
        seconds=sum(seed.seconds for trial in sweep.trials for seed in trial.seeds),
    )


def foretold(sweep: Sweep) -> dict[int, float]:
    """For each rung how well its order agrees with the order at the end (Spearman's rank correlation), where enough
    trials went on from it to the end."""
    done = [trial for trial in sweep.trials if trial.state is TrialState.COMPLETE]
    found = {}
    for step in sweep.spec.rungs:
        pairs = [(early, trial.seeds[0].value) for trial in done if (early := trial.at_rung(step)) is not None]
        known = [(early, late) for early, late in pairs if late is not None]
        if len(known) >= _FEW:
            found[step] = _rank_correlation([one for one, _ in known], [other for _, other in known])
    return found


def _rank_correlation(one: list[float], other: list[float]) -> float:
    first, second = _ranks(one), _ranks(other)
    middle = (len(one) - 1) / 2
    above = sum((x - middle) * (y - middle) for x, y in zip(first, second, strict=True))
    spread = sum((x - middle) ** 2 for x in first) * sum((y - middle) ** 2 for y in second)
    return above / spread**0.5 if spread else 0.0


def _ranks(values: list[float]) -> list[float]:
    """Equal values share the mean of their places."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def report_of(sweep: Sweep) -> dict[str, Any]:
    """Everything, for programs; :func:`sentences` says it for people."""
    cost, best = cost_of(sweep), sweep.best()
    return {
        "sweep": sweep.name,
        "id": sweep.sweep_id,
        "state": str(sweep.state),
        "reason": sweep.reason,
        "trials": dict(Counter(str(trial.state) for trial in sweep.trials)),
        "budget": sweep.budget,
        "best": trial_object(best) if best else None,
        "steps_trained": {"first_seed": cost.judged, "more_seeds": cost.more_seeds, "failed_trials": cost.failed},
        "steps_without_pruning": cost.full,
        "saved_by_pruning": cost.saved,
        "seconds_trained": cost.seconds,
        "promotions": sum(trial.promotions for trial in sweep.trials),
        "copies": sum(trial.copies for trial in sweep.trials),
        "objective": objective_told(sweep.spec),
        "rank_correlation": {str(step): value for step, value in foretold(sweep).items()},
        "notes": sentences(sweep),
    }


def trial_object(trial: Trial) -> dict[str, Any]:
    """A trial as ``--json`` prints it."""
    return {
        "number": trial.number,
        "state": str(trial.state),
        "value": trial.value,
        "params": trial.params,
        "rungs": [{"step": step, "value": value} for step, value in trial.rungs],
        "seeds": [
            {"seed": seed.seed, "value": seed.value, "runs": list(seed.runs), "steps": seed.steps}
            for seed in trial.seeds
        ],
        "promotions": trial.promotions,
        "turns": turns_told(trial),
        "reason": trial.reason,
    }


def objective_told(spec: SweepSpec) -> str:
    """What is searched for, in words."""
    if not spec.evaluate:
        return f"{spec.direction} {spec.metric}, mean of the last {spec.last}"
    figure = "IQM" if spec.objective == "iqm" else "mean"
    return f"{spec.direction} the {figure} of {counted(spec.evaluate, 'evaluated episode')} ({spec.evaluate_mode})"


def sentences(sweep: Sweep) -> list[str]:
    """What a reader has to know to judge the result."""
    cost, notes = cost_of(sweep), list[str]()
    if sweep.state in (SweepState.RUNNING, SweepState.PAUSED, SweepState.STOPPING):
        notes.append("The sweep is not over: these numbers will change.")
    if sweep.spec.is_population:
        notes += _on_population(sweep)
    elif sweep.spec.pruner != "none" and cost.saved is not None:
        notes.append(
            f"Pruning saved {cost.saved:.0%} of the judged seed's steps: {cost.judged:,} were trained instead of "
            f"{cost.full:,}. Steps of further seeds ({cost.more_seeds:,}) and of failed trials ({cost.failed:,}) come "
            "on top and were not saved."
        )
        notes.append(_on_pruning(sweep))
    for step, value in foretold(sweep).items():
        word = "well" if value >= 0.7 else "roughly" if value >= 0.4 else "badly"
        notes.append(
            f"Of the trials that went on, the order at step {step:,} foretold the order at the end {word} (rank "
            f"correlation {value:.2f}). Trials that were pruned there are not in it."
        )
    if failed := sum(trial.state is TrialState.FAILED for trial in sweep.trials):
        last = next(trial for trial in reversed(sweep.trials) if trial.state is TrialState.FAILED)
        notes.append(f"{counted(failed, 'trial')} failed; the last one (trial {last.number}): {last.reason}")
    if sweep.best() is not None:
        notes.append(
            "The value of the best trial is too good to be true: it is the highest of many noisy numbers. "
            f"`mosaic sweep best {sweep.name}` measures it on fresh seeds beside the default settings."
        )
    return notes


def _on_population(sweep: Sweep) -> list[str]:
    copies, best = sum(trial.copies for trial in sweep.trials), sweep.best()
    told = (
        f"{counted(copies, 'time')} a member went on as a copy of a better one. No steps were saved: members train to "
        "the end, and those that are copies of each other are not independent."
    )
    if best is None or not best.turns:
        return [told]
    last = (
        f"The settings shown for trial {best.number} are its last ones: it may have had others before, or be a copy of "
        "a trial that had. A run that has them from the beginning is another one."
    )
    return [told, last]


def _on_pruning(sweep: Sweep) -> str:
    pruned = sum(trial.state is TrialState.PRUNED for trial in sweep.trials)
    return (
        f"{counted(pruned, 'trial')} did not go on, and nobody knows what would have become of them: settings that "
        "begin slowly and end well are lost this way. With enough compute a search without pruning may find better."
    )
