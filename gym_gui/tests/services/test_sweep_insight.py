"""What screens say of a sweep: order, status, budget, axes, filters and importance. Pure."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from msgspec.structs import replace

from gym_gui.services.sweeps.axes import OBJECTIVE, Axis, axes_of, filter_text, places_of, within
from gym_gui.services.sweeps.importance import FEWEST, importance_of
from gym_gui.services.sweeps.insight import (
    beside_default,
    budget_of,
    by_worth,
    history,
    interval_of,
    runs_of,
    seconds_left,
    slice_points,
    status_of,
    steps_of,
    with_live,
    worth,
)
from gym_gui.services.sweeps.model import WORST, SweepState, TrialState, decode_trials, encode_trial
from gym_gui.tests.support.made_sweeps import large_sweep, made_spec, made_sweep, made_trial, usual_sweep

# ---- trials ------------------------------------------------------------------------------------------------------


def test_trials_stand_by_worth_and_those_without_any_last() -> None:
    assert [trial.number for trial in by_worth(usual_sweep())] == [2, 0, 4, 3, 1, 5]
    least = usual_sweep(spec=made_spec(direction="minimize"))
    assert [trial.number for trial in by_worth(least)] == [1, 3, 4, 0, 2, 5]


def test_a_metric_that_was_no_number_is_worth_nothing() -> None:
    assert worth(made_trial(0, TrialState.COMPLETE, -WORST)) is None
    assert worth(made_trial(0, TrialState.PRUNED, rungs=((1000, None),))) is None


def test_the_status_names_the_rung() -> None:
    sweep = usual_sweep()
    said = [status_of(trial, sweep.spec).text for trial in sweep.trials]
    assert said == ["completed", "pruned at 1k", "completed", "pruned at 2k", "promoted to 2k", "running"]


def test_runs_of_a_trial_are_all_of_all_seeds() -> None:
    assert runs_of(usual_sweep().trials[0]) == ["run-0-1", "run-0-2"]


def test_an_interval_needs_two_seeds() -> None:
    spec = made_spec()
    assert interval_of(made_trial(0, TrialState.COMPLETE, 5.0), spec) is None
    found = interval_of(usual_sweep().trials[0], spec)
    assert found is not None and found.value == 100.0
    assert found.low is not None and found.high is not None and 90 <= found.low < 100 < found.high <= 110


def test_history_keeps_the_best_complete_value() -> None:
    found = history(usual_sweep())
    assert found.best == ((0, 100.0), (2, 200.0))
    assert [(one.number, one.standing) for one in found.points] == [
        (0, "kept"),
        (1, "pruned"),
        (2, "kept"),
        (3, "pruned"),
        (4, "open"),
    ]
    assert [point.number for _, point in slice_points(usual_sweep(), "num_steps")] == [0, 1, 2, 3, 4]


def test_settings_beside_the_default_prefer_what_the_sweep_was_given() -> None:
    sweep = usual_sweep(spec=made_spec(fixed={"gamma": 0.99}))
    rows = {one.setting: one for one in beside_default(sweep, sweep.trials[0], {"learning_rate": 2.5e-4, "gamma": 1})}
    assert rows["gamma"].default == 0.9 and rows["gamma"].differs
    assert rows["learning_rate"].default == 2.5e-4
    assert not rows["num_steps"].is_known


# ---- the budget --------------------------------------------------------------------------------------------------


def test_the_budget_counts_steps_by_what_became_of_them() -> None:
    found = budget_of(usual_sweep(), {"run-4-1": 1500})
    assert (found.finished, found.pruned, found.going_on) == (16_000, 3_000, 1_500)
    assert found.left == 2_500 + 4_000
    assert found.saved == 16_000 - 11_000  # of the judged seeds of the four that are over
    assert found.used + found.left == found.whole
    sweep = usual_sweep()
    assert with_live(budget_of(sweep), sweep.trials[4:], {"run-4-1": 1500}) == found


def test_a_sweep_that_is_over_has_nothing_left() -> None:
    over = usual_sweep(state=SweepState.STOPPED, budget=50)
    assert budget_of(replace(over, trials=over.trials[:4])).left == 0


def test_without_a_length_of_runs_the_budget_is_in_trials() -> None:
    spec = made_spec(pruner="none")
    spec.config["metadata"]["worker"]["config"] = {}
    found = budget_of(usual_sweep(spec=spec, budget=9))
    assert (found.finished, found.going_on, found.pruned, found.left) == (2, 2, 2, 3) and not found.in_steps


def test_the_time_left_follows_from_what_trials_took() -> None:
    sweep = usual_sweep(budget=10)
    took = (20 + 10 + 20 + 10) / 4
    assert seconds_left(sweep) == pytest.approx((4 + 1) * took / 2)
    assert seconds_left(replace(sweep, state=SweepState.PAUSED)) is None
    assert seconds_left(made_sweep()) is None


def test_a_run_that_goes_on_from_another_counts_its_steps_once() -> None:
    trial = made_trial(0, TrialState.RUNNING, steps=1000)
    assert steps_of(trial, {"run-0-1": 1500}) == 1500 and steps_of(trial) == 1000


# ---- axes --------------------------------------------------------------------------------------------------------


def test_places_on_axes() -> None:
    axes = axes_of(usual_sweep())
    assert [axis.name for axis in axes] == ["learning_rate", "num_steps", "update_epochs", OBJECTIVE]
    assert axes[0].place(1e-3) == pytest.approx(0.5) and axes[0].value(0.5) == pytest.approx(1e-3)
    assert [axes[1].place(one) for one in (32, 64, 128)] == [0.0, 0.5, 1.0]
    assert math.isnan(axes[1].place(33)) and math.isnan(axes[0].place("x"))
    places = places_of(axes, by_worth(usual_sweep()))
    assert places.shape == (6, 4) and places[0, 3] == 1.0 and math.isnan(places[5, 3])


def test_a_choice_of_true_is_not_the_number_one() -> None:
    axis = Axis("norm_adv", "norm_adv", choices=(True, False))
    assert axis.place(True) == 0.0 and math.isnan(axis.place(1)) and axis.text(0.0) == "true"


def test_a_filter_passes_what_is_within_every_range() -> None:
    axes, trials = axes_of(usual_sweep()), by_worth(usual_sweep())
    places, names = places_of(axes, trials), [axis.name for axis in axes]
    passed = within(places, names, {OBJECTIVE: (0.4, 1.0)})
    assert [trials[row].number for row in np.flatnonzero(passed)] == [2, 0]
    assert within(places, names, {}).all()
    assert (
        filter_text(axes, {OBJECTIVE: (0.5, 1.0), "num_steps": (0.0, 0.5)}) == "num_steps up to 64, IQM return from 110"
    )


def test_ticks_have_the_ends_of_the_axis() -> None:
    for axis in axes_of(usual_sweep()):
        places = [place for place, _ in axis.ticks()]
        assert places[0] == 0.0 and places[-1] == 1.0 and all(text for _, text in axis.ticks())


# ---- importance --------------------------------------------------------------------------------------------------


def test_the_setting_that_decides_is_the_most_important() -> None:
    found = importance_of(large_sweep(200))
    assert found[0].setting == "learning_rate" and found[0].share > 0.6
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert all(one.spread >= 0 for one in found)


def test_of_few_trials_nothing_is_said() -> None:
    assert importance_of(large_sweep(FEWEST - 1)) == []
    assert importance_of(usual_sweep()) == []


@pytest.mark.nightly
def test_ten_thousand_trials_are_read_and_ordered_in_a_moment() -> None:
    """Measured at some 60 ms on a quiet machine; this fails only when it is another kind of work."""
    sweep = large_sweep(10_000)
    array = b"[" + b",".join(map(encode_trial, sweep.trials)) + b"]"
    begun = time.process_time()
    by_worth(replace(sweep, trials=decode_trials(array)))
    assert time.process_time() - begun < 1.0
