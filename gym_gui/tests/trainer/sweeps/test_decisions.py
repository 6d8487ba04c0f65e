"""The life of a sweep, decided purely: stories of single sweeps, and what holds in any story."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gym_gui.services.sweeps.model import (
    ACTIVE,
    OPEN,
    SeedPhase,
    Sweep,
    SweepSpec,
    SweepState,
    Trial,
    TrialState,
    decode_sweep,
    decode_trials,
    encode_sweep,
    encode_trial,
)
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.trainer.errors import WrongStateError
from gym_gui.services.trainer.sweeps import decisions as dc
from gym_gui.services.trainer.sweeps import events as ev
from gym_gui.services.trainer.sweeps import instructions as todo
from mosaic_protocol.states import Outcome

SPACE = {"lr": Dimension("float", 0.1, 1.0)}
DONE, BROKEN, STOPPED = Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELED


def sweep_of(**changes: Any) -> Sweep:
    asked = {"trials": 4, "parallel": 2, "metric": "return", **changes}
    spec = SweepSpec(config={}, space=SPACE, **asked)
    return Sweep("S1", "sweep", spec, budget=spec.trials)


class Story:
    """A sweep and a world that does what it is asked to, one instruction at a time."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.submitted: dict[str, int] = {}
        """Runs that the world has accepted, by the request they were accepted for."""
        self.telling: list[tuple[int, TrialState]] = []

    def after(self, event: ev.Event) -> Story:
        self.sweep = dc.decide(self.sweep, event).sweep
        return self

    def obeyed(self) -> Story:
        """Follow what is outstanding until nothing is but what the world has to answer."""
        while instruction := next(iter(self._obeyable()), None):
            self._obey(instruction)
        return self

    def _obeyable(self) -> Iterator[todo.Instruction]:
        return (one for one in todo.outstanding(self.sweep) if not isinstance(one, todo.Cancel | todo.Evaluate))

    def _obey(self, one: todo.Instruction) -> None:
        match one:
            case todo.Ask(number):
                self.after(ev.Asked({"lr": number / 10}))
            case todo.Start(number, index):
                seed = self.trial(number).seeds[index]
                request = f"{number}-{index}-{len(seed.runs)}"
                assert request not in self.submitted, f"{request} was submitted twice"
                self.submitted[request] = number
                self.after(ev.Submitted(number, index, request))
            case todo.Find(number, index):
                self.after(ev.Withdrawn(number, index))
            case todo.Halt(number, index):
                self.after(ev.EvaluationHalted(number, index))
            case todo.Hold(number, index, held):
                self.after(ev.HoldChanged(number, index, held))
            case todo.Tell(number):
                self.telling.append((number, self.trial(number).state))
                self.after(ev.Told(number))

    def trial(self, number: int) -> Trial:
        return self.sweep.trials[number]

    def ends(self, number: int, value: float | None = 1.0, outcome: Outcome = DONE, index: int = 0) -> Story:
        return self.after(ev.RunEnded(number, index, outcome, "so it goes", value, steps=100)).obeyed()

    def reaches(self, number: int, step: int, value: float | None) -> Story:
        return self.after(ev.RungReached(number, step, value)).obeyed()

    def evaluates(self, number: int, value: float | None, index: int = 0) -> Story:
        assert todo.Evaluate(number, index) in todo.outstanding(self.sweep)
        return self.after(ev.Evaluated(number, index, value)).obeyed()

    @property
    def states(self) -> list[str]:
        return [str(trial.state) for trial in self.sweep.trials]

    @property
    def cancels(self) -> list[str]:
        return [one.run_id for one in todo.outstanding(self.sweep) if isinstance(one, todo.Cancel)]


def array_of(sweep: Sweep) -> bytes:
    return b"[" + b",".join(map(encode_trial, sweep.trials)) + b"]"


def begun(**changes: Any) -> Story:
    return Story(sweep_of(**changes)).obeyed()


def test_as_many_trials_run_at_once_as_there_are_slots_and_no_more_than_the_budget() -> None:
    story = begun(trials=3, parallel=2)
    assert story.states == ["running", "running"]
    story.ends(0).ends(1)
    assert story.states == ["complete", "complete", "running"]
    story.ends(2)
    assert (story.sweep.state, len(story.sweep.trials)) == (SweepState.COMPLETED, 3)


def test_a_crashed_trial_is_tried_again_and_then_failed() -> None:
    story = begun(trials=1, retries=2)
    story.ends(0, outcome=BROKEN).ends(0, outcome=Outcome.LOST)
    assert (story.states, len(story.trial(0).seeds[0].runs)) == (["running"], 3)
    story.ends(0, outcome=BROKEN)
    assert (story.states, story.trial(0).reason) == (["failed"], "so it goes")
    assert story.sweep.state is SweepState.FAILED, "nothing else was tried"


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_a_sweep_of_which_everything_fails_ends_long_before_its_budget(parallel: int) -> None:
    story = begun(trials=100, parallel=parallel, retries=0)
    number = 0
    while story.sweep.state is SweepState.RUNNING:
        story.ends(number, outcome=BROKEN)
        number += 1
    assert story.sweep.state is SweepState.FAILED
    assert number == todo.HOPELESS + parallel - 1, "what was under way ended too, and nothing began beside it"
    assert f"all {number} trials failed; the last one: so it goes" in story.sweep.reason


def test_a_trial_that_was_under_way_when_all_others_had_failed_may_show_that_the_search_is_worth_it() -> None:
    story = begun(trials=9, parallel=2, retries=0)
    for number in (0, 2, 3, 4, 5):  # number 1 goes on
        story.ends(number, outcome=BROKEN)
    assert (len(story.sweep.trials), story.states[1]) == (6, "running"), "nothing begins beside it"
    story.ends(1, 2.0)
    assert story.sweep.state is SweepState.RUNNING
    assert story.states[6:] == ["running", "running"]


def test_a_number_at_a_rung_shows_that_a_search_is_worth_it() -> None:
    story = begun(trials=9, parallel=2, retries=0, pruner="asha", rungs=(100,)).reaches(1, 100, 1.0)
    for number in (0, 2, 3, 4, 5):
        story.ends(number, outcome=BROKEN)
    assert len(story.sweep.trials) == 7


def test_more_budget_gives_a_sweep_that_failed_another_chance() -> None:
    story = begun(trials=100, parallel=1, retries=0)
    for number in range(todo.HOPELESS):
        story.ends(number, outcome=BROKEN)
    story.after(ev.ResumeAsked(more=3)).obeyed()
    assert (story.sweep.state, story.states[-1]) == (SweepState.RUNNING, "running"), "what was wrong may be mended"
    story.ends(todo.HOPELESS, outcome=BROKEN)
    assert story.sweep.state is SweepState.RUNNING
    assert story.ends(todo.HOPELESS + 1, 2.0).sweep.state is SweepState.RUNNING


@pytest.mark.parametrize("outcome", [STOPPED, Outcome.TIMED_OUT])
def test_a_run_that_a_person_or_a_clock_ended_is_not_tried_again(outcome: Outcome) -> None:
    story = begun(trials=1).ends(0, outcome=outcome)
    assert story.states == ["failed"]


def test_a_run_without_the_metric_fails_its_trial() -> None:
    story = begun(trials=1).ends(0, None)
    assert "logged no number under 'return'" in story.trial(0).reason


def test_a_metric_that_a_run_did_not_log_comes_with_the_nearest_that_it_did() -> None:
    ended = ev.RunEnded(0, 0, DONE, "so it goes", logged=("eval/returns", "losses/value_loss", "returns"))
    reason = begun(trials=1).after(ended).trial(0).reason
    assert reason.endswith("logged no number under 'return'; did you mean 'returns'?")


def test_seeds_are_added_to_trials_that_reach_the_end_and_the_objective_is_over_all() -> None:
    story = begun(trials=2, parallel=1, seeds=(1, 2, 3, 4), objective="iqm")
    assert [seed.seed for seed in story.trial(0).seeds] == [1]
    story.ends(0, 10.0).ends(0, 20.0, index=1).ends(0, 30.0, index=2)
    assert len(story.sweep.trials) == 1, "what is under way comes before what is new"
    story.ends(0, 400.0, index=3)
    assert (story.trial(0).state, story.trial(0).value) == (TrialState.COMPLETE, 25.0)
    mean = begun(trials=1, seeds=(1, 2), objective="mean").ends(0, 10.0).ends(0, 20.0, index=1)
    assert mean.trial(0).value == 15.0


def test_asha_stops_a_running_trial_at_its_rung_and_frees_its_slot_when_it_is_gone() -> None:
    story = begun(trials=4, pruner="asha", rungs=(100, 200))
    story.reaches(0, 100, 10.0)
    assert (story.states[0], story.cancels) == ("running", []), "the first at a rung goes on"
    story.reaches(1, 100, 5.0)
    assert (story.states[1], story.cancels) == ("pruning", ["1-0-0"])
    assert "number 2 of 2 there, and the best 1 go on" in story.trial(1).reason
    assert len(story.sweep.trials) == 2
    story.ends(1, outcome=STOPPED)
    assert story.states == ["running", "pruned", "running"]
    assert story.telling == [(1, TrialState.PRUNED)]


def test_a_pruned_trial_that_turns_out_to_be_among_the_best_goes_on_where_it_was() -> None:
    story = begun(trials=4, parallel=1, pruner="asha", rungs=(100,), eta=2)
    story.reaches(0, 100, 10.0).ends(0, 50.0)
    story.reaches(1, 100, 9.0).ends(1, outcome=STOPPED)
    story.reaches(2, 100, 1.0).ends(2, outcome=STOPPED)
    assert story.states == ["complete", "pruned", "pruned", "running"]
    story.reaches(3, 100, 2.0).ends(3, outcome=STOPPED)
    assert story.states == ["complete", "running", "pruned", "pruned"], "two of four go on, and it is the second"
    assert (story.trial(1).seeds[0].runs, story.trial(1).promotions) == (("1-0-0", "1-0-1"), 1)
    story.reaches(1, 100, 3.0)
    assert story.trial(1).rungs == ((100, 9.0),), "a rung is judged once"
    story.ends(1, 60.0)
    assert (story.sweep.state, story.sweep.best()) == (SweepState.COMPLETED, story.trial(1))
    assert story.telling[-1] == (1, TrialState.COMPLETE), "the study hears of it once more"


def test_a_run_that_ends_before_it_can_be_stopped_counts() -> None:
    story = begun(trials=2, pruner="asha", rungs=(100,)).reaches(0, 100, 10.0).reaches(1, 100, 5.0).ends(1, 99.0)
    assert (story.trial(1).state, story.trial(1).value, story.trial(1).reason) == (TrialState.COMPLETE, 99.0, "")


def test_a_trial_without_a_number_at_a_rung_goes_on() -> None:
    story = begun(pruner="asha", rungs=(100,)).reaches(0, 100, 10.0).reaches(1, 100, None)
    assert story.states == ["running", "running"]


def test_the_median_stops_only_where_enough_others_were_and_nothing_is_promoted() -> None:
    story = begun(trials=7, parallel=1, pruner="median", rungs=(100,))
    for number, value in enumerate([10.0, 1.0, 9.0, 2.0]):
        story.reaches(number, 100, value).ends(number, value)
    story.reaches(4, 100, 5.0)
    assert (story.states[4], story.cancels) == ("pruning", ["4-0-0"])
    story.ends(4, outcome=STOPPED).reaches(5, 100, 6.0)
    assert story.states == ["complete"] * 4 + ["pruned", "running"]


def test_what_is_minimized_is_judged_the_other_way_round() -> None:
    story = begun(trials=2, pruner="asha", rungs=(100,), direction="minimize")
    story.reaches(0, 100, 10.0).reaches(1, 100, 5.0)
    assert story.states == ["running", "running"]
    assert story.ends(0, 3.0).ends(1, 2.0).sweep.best() == story.trial(1)


def test_a_sweep_ends_early_when_nothing_gets_better() -> None:
    story = begun(trials=50, parallel=1, patience=3).ends(0, 5.0).ends(1, 6.0)
    for number in (2, 3, 4):
        story.ends(number, 6.0)
    assert (story.sweep.state, story.sweep.reason) == (
        SweepState.COMPLETED,
        "nothing got better in the last 3 trials",
    )


def test_more_budget_goes_on_with_all_that_is_known() -> None:
    story = begun(trials=2, parallel=1, patience=2).ends(0).ends(1)
    with pytest.raises(WrongStateError, match=r"--budget \+50%"):
        story.after(ev.ResumeAsked())
    story.after(ev.ResumeAsked(more=1)).obeyed()
    assert (story.sweep.state, story.states) == (SweepState.RUNNING, ["complete", "complete", "running"])
    assert story.ends(2).sweep.state is SweepState.COMPLETED


def test_a_paused_sweep_holds_its_runs_and_begins_nothing() -> None:
    story = begun(trials=4).after(ev.PauseAsked())
    assert list(todo.outstanding(story.sweep)) == [todo.Hold(0, 0, held=True), todo.Hold(1, 0, held=True)]
    story.obeyed().ends(0)
    assert story.states == ["complete", "running"], "one that could not pause went to its end"
    story.after(ev.ResumeAsked())
    assert todo.Hold(1, 0, held=False) in todo.outstanding(story.sweep)
    assert len(story.obeyed().sweep.trials) == 3


def test_a_stopped_sweep_ends_its_runs_and_goes_on_with_them_when_it_is_resumed() -> None:
    story = begun(trials=4).after(ev.StopAsked())
    assert (story.sweep.state, story.cancels) == (SweepState.STOPPING, ["0-0-0", "1-0-0"])
    with pytest.raises(WrongStateError, match="is being stopped"):
        story.after(ev.ResumeAsked())
    story.ends(0, outcome=STOPPED).ends(1, 7.0)
    assert (story.sweep.state, story.states) == (SweepState.STOPPED, ["stopped", "complete"])
    story.after(ev.ResumeAsked()).obeyed()
    assert story.states == ["running", "complete", "running"]
    assert story.trial(0).seeds[0].runs == ("0-0-0", "0-0-1")


def test_a_run_that_a_dead_daemon_had_submitted_is_stopped_too() -> None:
    """It died between submitting and saying so; then somebody stops the sweep."""
    story = Story(sweep_of(trials=1)).after(ev.Asked({"lr": 0.1})).after(ev.StopAsked())
    assert list(todo.outstanding(story.sweep)) == [todo.Find(0, 0)]
    story.after(ev.Submitted(0, 0, "R"))
    assert story.cancels == ["R"]
    assert story.ends(0, outcome=STOPPED).sweep.state is SweepState.STOPPED


def test_settings_that_make_no_run_fail_their_trial_alone() -> None:
    story = Story(sweep_of(trials=2)).after(ev.Asked({"lr": 0.1})).after(ev.SubmissionRefused(0, 0, "lr is odd"))
    assert (story.trial(0).state, story.trial(0).reason) == (TrialState.FAILED, "lr is odd")
    assert story.sweep.state is SweepState.RUNNING


def test_a_grid_that_is_used_up_ends_the_sweep() -> None:
    story = begun(trials=9, parallel=1)
    story.sweep = replace(story.sweep, trials=story.sweep.trials[:1])
    story.after(ev.NothingLeft("all 1 points of the grid were tried")).ends(0)
    assert (story.sweep.state, len(story.sweep.trials)) == (SweepState.COMPLETED, 1)


def test_a_sweep_is_not_over_before_its_study_has_heard_of_every_end() -> None:
    """A daemon that is killed in between would leave it untold for good: nobody takes up a sweep that is over."""
    story = begun(trials=1).after(ev.RunEnded(0, 0, DONE, value=1.0))
    assert (story.sweep.state, list(todo.outstanding(story.sweep))) == (SweepState.RUNNING, [todo.Tell(0)])
    assert story.after(ev.Told(0)).sweep.state is SweepState.COMPLETED


def test_rows_hold_everything_that_is_decided_from() -> None:
    story = begun(trials=3, pruner="asha", rungs=(100,)).reaches(0, 100, 10.0).reaches(1, 100, 5.0)
    trials = decode_trials(array_of(story.sweep))
    assert replace(decode_sweep(encode_sweep(story.sweep)), trials=trials) == story.sweep


# ---- evaluations -------------------------------------------------------------------------------------------------


def test_a_seed_is_worth_what_its_evaluation_gave_and_holds_its_slot_until_then() -> None:
    story = begun(trials=2, parallel=1, evaluate=20, seeds=(1, 2), objective="mean").ends(0, 999.0)
    assert (list(todo.outstanding(story.sweep)), len(story.sweep.trials)) == ([todo.Evaluate(0, 0)], 1)
    story.evaluates(0, 10.0)
    assert [seed.seed for seed in story.trial(0).seeds] == [1, 2], "another seed is added to a survivor"
    story.ends(0, 999.0, index=1).evaluates(0, 20.0, index=1)
    assert (story.trial(0).state, story.trial(0).value) == (TrialState.COMPLETE, 15.0)


def test_an_evaluation_that_fails_is_made_again_and_then_its_trial_fails() -> None:
    story = begun(trials=2, evaluate=5, retries=1).ends(0).ends(1)
    story.after(ev.EvaluationFailed(0, 0, "it crashed"))
    assert todo.Evaluate(0, 0) in todo.outstanding(story.sweep)
    story.after(ev.EvaluationFailed(0, 0, "it crashed again")).obeyed()
    assert (story.trial(0).state, story.trial(0).reason) == (TrialState.FAILED, "it crashed again")
    story.after(ev.EvaluationFailed(1, 0, "there is no checkpoint", final=True)).obeyed()
    assert story.trial(1).reason == "there is no checkpoint"
    assert "gave no number" in begun(trials=1, evaluate=5).ends(0).evaluates(0, None).trial(0).reason


def test_a_stopped_sweep_waits_for_its_evaluations_to_be_ended_and_makes_them_when_it_goes_on() -> None:
    story = begun(trials=1, evaluate=5).ends(0).after(ev.StopAsked())
    assert (story.sweep.state, list(todo.outstanding(story.sweep))) == (SweepState.STOPPING, [todo.Halt(0, 0)])
    assert story.obeyed().sweep.state is SweepState.STOPPED
    story.after(ev.Evaluated(0, 0, 3.0))
    assert story.trial(0).seeds[0].value is None, "a word that comes too late changes nothing"
    story.after(ev.ResumeAsked()).obeyed().evaluates(0, 7.0)
    assert (story.sweep.state, story.trial(0).value, len(story.submitted)) == (SweepState.COMPLETED, 7.0, 1)


def test_a_paused_sweep_begins_no_evaluation() -> None:
    story = begun(trials=1, evaluate=5).after(ev.PauseAsked()).obeyed().ends(0)
    assert list(todo.outstanding(story.sweep)) == []
    assert story.after(ev.ResumeAsked()).evaluates(0, 1.0).sweep.state is SweepState.COMPLETED


# ---- any story ---------------------------------------------------------------------------------------------------


@st.composite
def stories(draw: st.DrawFn) -> tuple[Sweep, list[tuple[str, int, float]]]:
    pruner = draw(st.sampled_from(["none", "median", "asha", "pbt"]))
    sweep = sweep_of(
        trials=draw(st.integers(1, 6)),
        parallel=draw(st.integers(1, 3)),
        seeds=tuple(range(1 if pruner == "pbt" else draw(st.integers(1, 3)))),
        evaluate=draw(st.sampled_from([0, 5])) if pruner in ("none", "pbt") else 0,
        pruner=pruner,
        rungs=() if pruner == "none" else (100, 200),
        retries=draw(st.integers(0, 1)),
        patience=draw(st.sampled_from([0, 3])),
    )
    happening = st.sampled_from(["done", "broken", "canceled", "rung", "pause", "resume", "stop", "more", "crash"])
    moves = st.tuples(happening, st.integers(0, 20), st.floats(0, 100, allow_nan=False))
    return sweep, draw(st.lists(moves, max_size=60))


@settings(max_examples=150, deadline=None)
@given(stories())
def test_in_any_story_nothing_is_lost_or_doubled_and_the_sweep_comes_to_an_end(
    told: tuple[Sweep, list[tuple[str, int, float]]],
) -> None:
    story = Story(told[0]).obeyed()
    for what, pick, value in told[1]:
        _happens(story, what, pick, value)
        _check(story)
    for _ in range(500):  # the world is kind from here on
        if story.sweep.state is SweepState.PAUSED:
            story.after(ev.ResumeAsked()).obeyed()
        if story.sweep.is_over:
            break
        if waiting := _evaluations(story):
            story.evaluates(waiting[0].number, 1.0, waiting[0].index)
            continue
        number, index = _running(story)[0]
        cancelled = story.trial(number).seeds[index].runs[-1] in story.cancels
        story.ends(number, 1.0, STOPPED if cancelled else DONE, index)
        _check(story)
    assert story.sweep.is_over
    assert not _running(story)
    assert not list(todo.outstanding(story.sweep)), "nothing is left to do for a sweep that is over"


def _evaluations(story: Story) -> list[todo.Evaluate]:
    return [one for one in todo.outstanding(story.sweep) if isinstance(one, todo.Evaluate)]


def _running(story: Story) -> list[tuple[int, int]]:
    return [
        (trial.number, index)
        for trial in story.sweep.trials
        for index, seed in enumerate(trial.seeds)
        if seed.phase is SeedPhase.RUNNING
    ]


def _happens(story: Story, what: str, pick: int, value: float) -> None:
    asked: dict[str, ev.Event] = {
        "pause": ev.PauseAsked(),
        "resume": ev.ResumeAsked(),
        "stop": ev.StopAsked(),
        "more": ev.ResumeAsked(1),
    }
    if what in asked:
        try:
            story.after(asked[what]).obeyed()
        except WrongStateError:
            pass
        return
    if what == "crash":  # of the daemon: all that is left is what was stored
        trials = decode_trials(array_of(story.sweep))
        story.sweep = replace(decode_sweep(encode_sweep(story.sweep)), trials=trials)
        story.obeyed()
        return
    if evaluations := _evaluations(story):
        one = evaluations[pick % len(evaluations)]
        if what == "done":
            story.evaluates(one.number, value, one.index)
        elif what == "broken":
            story.after(ev.EvaluationFailed(one.number, one.index, "so it goes")).obeyed()
    running = _running(story)
    if not running:
        return
    number, index = running[pick % len(running)]
    if what == "rung":
        later = [step for step in story.sweep.spec.rungs if step > story.trial(number).last_rung]
        if later and index == 0:
            story.reaches(number, later[0], value)
        return
    outcome = {"done": DONE, "broken": BROKEN, "canceled": STOPPED}[what]
    story.ends(number, value if outcome is DONE else None, outcome, index)


def _check(story: Story) -> None:
    sweep = story.sweep
    assert [trial.number for trial in sweep.trials] == list(range(len(sweep.trials)))
    assert len(sweep.trials) <= sweep.budget
    live = sum(seed.phase in ACTIVE for trial in sweep.trials for seed in trial.seeds)
    assert live <= sweep.spec.parallel
    runs = [run for trial in sweep.trials for seed in trial.seeds for run in seed.runs]
    assert sorted(runs) == sorted(story.submitted), "every run that was submitted belongs to one seed"
    for trial in sweep.trials:
        assert (trial.value is not None) is (trial.state is TrialState.COMPLETE)
        assert trial.state in OPEN or trial.state is TrialState.COMPLETE or trial.reason
        assert len({step for step, _ in trial.rungs}) == len(trial.rungs)
