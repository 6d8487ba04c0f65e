"""What is said of a sweep before it starts holds, whatever its trials turn out to be worth."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gym_gui.services.run_estimate import Estimate
from gym_gui.services.sweeps.cost import SweepCost, cost
from gym_gui.services.sweeps.model import SeedPhase, Sweep, SweepState, TrialState
from gym_gui.tests.support.made_sweeps import made_spec
from gym_gui.tests.trainer.sweeps.test_decisions import STOPPED, Story

MEASURED = Estimate(seconds=40.0, steps_per_second=100.0, runs=3, same_environment=True, bytes=1_000_000)


def cost_of(**changes: Any) -> SweepCost:
    found = cost(made_spec(**changes), MEASURED)
    assert found is not None
    return found


def trained(spec: Any, dice: random.Random, worth: str) -> int:
    """The steps of a sweep that is played to its end, one run at a time. ``worth``: what its trials are like."""
    story = Story(Sweep("S1", "sweep", spec, budget=spec.trials)).obeyed()
    steps = 0
    while story.sweep.state is not SweepState.COMPLETED:
        trial, index = next(
            (one, place)
            for one in story.sweep.trials
            for place, seed in enumerate(one.seeds)
            if seed.phase is SeedPhase.RUNNING
        )
        value = {"random": dice.random(), "rising": trial.number, "falling": -trial.number}[worth]
        if index:
            steps += spec.total_steps
            story.ends(trial.number, value, index=index)
            continue
        here = trial.last_rung
        for end in [one for one in (*spec.rungs, spec.total_steps) if one > here]:
            steps, here = steps + end - here, end
            if end == spec.total_steps:
                story.ends(trial.number, value)
            elif story.reaches(trial.number, end, value).trial(trial.number).state is TrialState.PRUNING:
                story.ends(trial.number, outcome=STOPPED)
                break
    return steps


@pytest.mark.parametrize("worth", ["random", "rising", "falling"])
@pytest.mark.parametrize("pruner", ["asha", "median", "none"])
def test_no_sweep_trains_less_or_more_than_its_bounds(pruner: str, worth: str) -> None:
    for trials in (1, 2, 5, 12):
        rungs = (1000, 2000) if pruner != "none" else ()
        spec = made_spec(trials=trials, pruner=pruner, rungs=rungs, parallel=1)
        found = cost(spec, None)
        assert found is not None
        for seed in range(5):
            steps = trained(spec, random.Random(seed), worth)
            assert found.least_steps <= steps <= found.most_steps, (trials, seed)


def test_time_and_disk_are_told_from_those_of_one_run() -> None:
    whole = cost_of(pruner="none", rungs=(), trials=10, seeds=(1,), parallel=1)
    assert (whole.steps_told(), whole.brief()) == (
        "40,000 in 10 runs",
        "about 7 min for the whole sweep, up to 10.0 MB of disk",
    )
    assert "each run about 40 s at 100 steps/s, 1.0 MB of disk (3 earlier runs" in whole.sentence()
    pruned = cost_of(trials=10, seeds=(1, 2), parallel=1)
    assert pruned.steps_told() == "27,000 to 80,000, as the pruner finds, in up to 20 runs"
    assert pruned.brief() == "about 4 min to 13 min for the whole sweep, up to 20.0 MB of disk"
    assert cost_of(trials=10, parallel=4).most_seconds == pytest.approx(pruned.most_steps / 400)
    beside = cost(made_spec(trials=10, parallel=8), MEASURED, 2)
    assert beside is not None and beside.lanes == 2, "the machine has room for two"


def test_a_sweep_of_days_is_warned_of_and_nothing_is_made_up() -> None:
    assert not cost_of(trials=6).warning
    assert cost_of(trials=5000, pruner="none", rungs=()).warning.startswith("this sweep may take 2.3 days: try fewer")
    unknown = cost(made_spec(), None)
    assert unknown is not None and (unknown.brief(), unknown.sentence(), unknown.warning) == ("", "", "")
    config = {"metadata": {"worker": {"config": {"algo": "ppo"}}}}
    assert cost(made_spec(config=config), MEASURED) is None, "the script alone knows how long a run is"


def test_a_population_trains_every_member_to_the_end() -> None:
    found = cost_of(pruner="pbt", seeds=(1,), trials=8)
    assert found.least_steps == found.most_steps == 8 * 4000
