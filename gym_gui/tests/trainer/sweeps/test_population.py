"""Population-based training, decided purely: who waits, who becomes a copy of whom, and with which settings."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gym_gui.services.sweeps.model import (
    SeedPhase,
    Sweep,
    SweepState,
    decode_sweep,
    decode_trials,
    encode_sweep,
    lineage,
)
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.trainer.sweeps import events as ev
from gym_gui.services.trainer.sweeps.population import explored
from gym_gui.tests.trainer.sweeps.test_decisions import BROKEN, STOPPED, Story, array_of, begun, sweep_of


def population(**changes: Any) -> Story:
    return begun(**{"trials": 4, "parallel": 2, "pruner": "pbt", "rungs": (100, 200), **changes})


def at_rung(story: Story, number: int, step: int, value: float | None) -> Story:
    """The member passes its rung, and its run ends with a checkpoint."""
    story.reaches(number, step, value)
    assert story.trial(number).seeds[0].runs[-1] in story.cancels, "it is stopped at its rung"
    return story.ends(number, outcome=STOPPED)


def first_generation(story: Story, *values: float | None) -> Story:
    for number, value in enumerate(values):
        at_rung(story, number, 100, value)
    return story


def test_members_take_turns_at_the_slots_and_wait_at_their_rung_for_the_others() -> None:
    story = population()
    at_rung(story, 0, 100, 5.0)
    assert (story.trial(0).seeds[0].phase, story.states) == (SeedPhase.IDLE, ["running"] * 3), "its slot is another's"
    at_rung(story, 1, 100, 1.0)
    at_rung(story, 2, 100, 4.0)
    assert [trial.turns for trial in story.sweep.trials] == [()] * 4, "the last one is missing"
    assert [trial.seeds[0].seed for trial in story.sweep.trials] == [1, 2, 3, 4], "each has a seed of its own"


def test_the_worst_goes_on_as_a_copy_of_the_best_with_settings_near_its_own() -> None:
    story = first_generation(population(resample=0.0, perturb=1.25), 5.0, 1.0, 4.0, 3.0)
    copy = story.trial(1)
    assert [(turn.step, turn.source) for turn in copy.turns] == [(100, 0)]
    assert copy.params["lr"] in (pytest.approx(0.1), pytest.approx(0.1 * 1.25)), "0 / 1.25 is fitted into the space"
    assert [trial.copies for trial in story.sweep.trials] == [0, 1, 0, 0]
    assert [trial.params["lr"] for trial in story.sweep.trials if not trial.copies] == [0.0, 0.2, 0.3]
    assert copy.first_params == {"lr": 0.1}
    assert [len(trial.seeds[0].runs) for trial in story.sweep.trials] == [2, 2, 1, 1], "two slots, two at a time"


def test_the_runs_of_a_copy_are_those_of_the_better_one_up_to_the_copy() -> None:
    story = first_generation(population(parallel=4), 5.0, 1.0, 4.0, 3.0)
    assert lineage(story.sweep, 1) == ("0-0-0", "1-0-1")
    assert lineage(story.sweep, 0) == ("0-0-0", "0-0-1")
    for number, value in enumerate([1.0, 9.0, 8.0, 7.0]):
        at_rung(story, number, 200, value)
    assert story.trial(0).turns[-1].source == 1
    assert lineage(story.sweep, 0) == ("0-0-0", "1-0-1", "0-0-2"), "what it knows came from a copy of itself"
    for number in range(4):
        story.ends(number, float(number))
    assert (story.sweep.state, story.sweep.best()) == (SweepState.COMPLETED, story.trial(3))


def test_before_its_first_run_a_copy_goes_on_from_the_better_one() -> None:
    """What is submitted is derived from the rows: a daemon may have died between deciding and submitting."""
    story = first_generation(population(parallel=1), 5.0, 1.0, 4.0, 3.0)
    assert story.trial(1).seeds[0].phase is SeedPhase.IDLE
    assert lineage(story.sweep, 1) == ("0-0-0",)


def test_a_member_without_a_number_is_neither_replaced_nor_copied_and_equals_are_left_alone() -> None:
    story = first_generation(population(), 5.0, None, 4.0, None)
    assert [trial.copies for trial in story.sweep.trials] == [0, 0, 1, 0]
    equal = first_generation(population(), 5.0, 5.0, 5.0, 5.0)
    assert [trial.copies for trial in equal.sweep.trials] == [0, 0, 0, 0]


def test_what_is_minimized_is_copied_from_the_lowest() -> None:
    story = first_generation(population(direction="minimize"), 5.0, 1.0, 4.0, 3.0)
    assert [trial.turns[0].source for trial in story.sweep.trials] == [1, 1, 2, 3]


def test_the_population_does_not_wait_for_a_member_that_failed_or_reached_the_end() -> None:
    story = population(parallel=4, retries=0).ends(3, outcome=BROKEN)
    story.ends(2, 50.0)
    at_rung(at_rung(story, 0, 100, 5.0), 1, 100, 1.0)
    assert story.states == ["running", "running", "complete", "failed"]
    assert story.trial(1).turns[0].source == 0


def test_a_member_that_crashes_at_its_rung_instead_of_stopping_is_judged_all_the_same() -> None:
    story = population(parallel=4, trials=2, retries=1)
    story.reaches(0, 100, 5.0).ends(0, outcome=BROKEN)
    assert (story.trial(0).seeds[0].phase, story.trial(0).seeds[0].failures) == (SeedPhase.IDLE, 1)
    at_rung(story, 1, 100, 1.0)
    assert story.trial(1).turns[0].source == 0


def test_members_are_judged_by_evaluations_of_the_checkpoints_they_stopped_with() -> None:
    story = population(trials=2, evaluate=10)
    for number in (0, 1):
        at_rung(story, number, 100, 999.0)
    assert [trial.rungs for trial in story.sweep.trials] == [((100, None),)] * 2, "not by their training"
    story.evaluates(0, 3.0).evaluates(1, 8.0)
    assert [trial.turns[0].source for trial in story.sweep.trials] == [1, 1]
    assert story.trial(0).rungs == ((100, 3.0),)
    story.ends(0).ends(1).evaluates(0, 4.0).evaluates(1, 9.0)
    assert [trial.value for trial in story.sweep.trials] == [4.0, 9.0]


def test_a_stop_between_rung_and_evaluation_loses_neither() -> None:
    story = population(trials=2, evaluate=10).reaches(0, 100, 1.0).after(ev.StopAsked())
    story.ends(0, outcome=STOPPED).ends(1, outcome=STOPPED)
    assert (story.sweep.state, story.trial(0).seeds[0].phase) == (SweepState.STOPPED, SeedPhase.UNMEASURED)
    story.after(ev.ResumeAsked()).obeyed().evaluates(0, 3.0)
    at_rung(story, 1, 100, None).evaluates(1, 8.0)
    assert story.trial(0).turns[0].source == 1


def test_a_stopped_population_goes_on_with_as_many_at_once_as_there_are_slots() -> None:
    story = population(parallel=2, trials=4)
    at_rung(at_rung(story, 0, 100, 5.0), 1, 100, 1.0)
    story.after(ev.StopAsked()).ends(2, outcome=STOPPED).ends(3, outcome=STOPPED)
    assert story.sweep.state is SweepState.STOPPED
    story.after(ev.ResumeAsked()).obeyed()
    assert [trial.seeds[0].phase for trial in story.sweep.trials] == [SeedPhase.IDLE] * 2 + [SeedPhase.RUNNING] * 2


def test_more_budget_adds_members_that_are_judged_among_themselves_and_throws_nothing_away() -> None:
    story = first_generation(population(trials=2, rungs=(100,)), 5.0, 1.0).ends(0, 6.0).ends(1, 7.0)
    before = story.sweep.trials
    story.after(ev.ResumeAsked(more=2)).obeyed()
    at_rung(at_rung(story, 2, 100, 1.0), 3, 100, 2.0)
    assert [turn.source for trial in story.sweep.trials[2:] for turn in trial.turns] == [3, 3]
    assert story.ends(2, 1.0).ends(3, 1.0).sweep.trials[:2] == before


def test_a_decision_that_a_crash_undid_is_made_again_with_the_same_result_in_any_order() -> None:
    values = [5.0, 1.0, 4.0, 3.0, 2.0, 6.0, 7.0, 8.0]
    told = []
    for order in (range(8), reversed(range(8))):
        story = population(trials=8, parallel=8, quantile=0.5)
        for number in order:
            at_rung(story, number, 100, values[number])
            trials = decode_trials(array_of(story.sweep))
            story.sweep = replace(decode_sweep(encode_sweep(story.sweep)), trials=trials)
        told.append([(trial.params, trial.turns[0].source) for trial in story.sweep.trials])
    assert told[0] == told[1]


# ---- settings ----------------------------------------------------------------------------------------------------

SPACE = {
    "rate": Dimension("float", 1e-5, 1e-1, log=True),
    "grain": Dimension("float", 0.1, 0.35, step=0.05),
    "epochs": Dimension("int", 1, 10),
    "odd": Dimension("int", 1, 8, step=2),
    "mode": Dimension("choice", choices=("a", "b", "c")),
}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(1.01, 50))
def test_settings_of_a_copy_are_always_within_the_space(seed: int, resample: float, perturb: float) -> None:
    spec = replace(sweep_of().spec, space=SPACE, resample=resample, perturb=perturb)
    dice = random.Random(seed)
    params: dict[str, Any] = {name: one.ends()[seed % 2] for name, one in SPACE.items()}
    params["odd"], params["grain"] = 7 if seed % 2 else 1, 0.35 if seed % 2 else 0.1
    for _ in range(5):
        params = explored(spec, params, dice)
        found: dict[str, Any] = {**params}
        assert 1e-5 <= found["rate"] <= 1e-1
        assert min(abs(found["grain"] - (0.1 + 0.05 * place)) for place in range(6)) < 1e-9
        assert found["epochs"] in range(1, 11)
        assert found["odd"] in (1, 3, 5, 7)
        assert found["mode"] in ("a", "b", "c")
        assert type(found["epochs"]) is type(found["odd"]) is int


def test_a_whole_number_moves_even_where_the_factor_is_smaller_than_its_step() -> None:
    spec = replace(sweep_of().spec, space={"epochs": Dimension("int", 1, 10)}, resample=0.0, perturb=1.1)
    assert {explored(spec, {"epochs": 3}, random.Random(seed))["epochs"] for seed in range(20)} == {2, 4}


def test_sweeps_that_were_stored_before_there_were_populations_are_still_read() -> None:
    (old,) = decode_trials(b'[{"number":0,"params":{"lr":0.1},"seeds":[{"seed":1,"phase":"over","runs":["R"]}]}]')
    assert (old.turns, old.seeds[0].trained) == ((), False)
    sweep = Sweep("S", "s", sweep_of().spec, trials=(old,))
    assert lineage(sweep, 0) == ("R",)
