"""Aggregates and intervals, compared with those of rliable (``tools/comparison_oracle.py`` makes them again)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_gui.services.compare import statistics as st

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("comparison_oracle.json").read_text())
AGGREGATES: dict[str, st.Aggregate] = {
    "iqm": st.iqm,
    "mean": st.mean,
    "median": st.median,
    "gap": st.optimality_gap(1.0),
}
CLOSE = 0.1
"""Of the width of an interval: ends of two bootstraps differ by chance."""


def scores(rows: list[list[float]]) -> list[st.Array]:
    return [np.array(row) for row in rows]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_and_their_intervals_are_those_of_rliable(case: dict[str, Any], name: str) -> None:
    found = st.estimate(AGGREGATES[name], scores(case["one"]), samples=20_000)
    assert found.value == pytest.approx(case["aggregates"][name], abs=1e-9)
    low, high = case["intervals"][name]
    assert (found.low, found.high) == pytest.approx((low, high), abs=CLOSE * (high - low))


@pytest.mark.parametrize("case", CASES)
def test_the_probability_of_improvement_is_that_of_rliable(case: dict[str, Any]) -> None:
    one, other = scores(case["one"]), scores(case["other"])
    found = st.improvement_estimate(one, other, samples=20_000)
    assert found.value == pytest.approx(case["improvement"], abs=1e-9)
    low, high = case["improvement_interval"]
    assert (found.low, found.high) == pytest.approx((low, high), abs=CLOSE * (high - low))
    assert float(st.improvement(other, one)) == pytest.approx(1 - found.value)


def rows_are_close(found: list[st.Estimate], values: list[float], intervals: list[list[float]], spare: float) -> None:
    assert [one.value for one in found] == pytest.approx(values, abs=1e-9)
    for one, (low, high) in zip(found, intervals, strict=True):
        assert (one.low, one.high) == pytest.approx((low, high), abs=CLOSE * (high - low) + spare)


@pytest.mark.parametrize("case", CASES)
def test_a_curve_and_its_band_are_those_of_rliable(case: dict[str, Any]) -> None:
    along = case["along"]
    curves = [np.array(one) for one in along["curves"]]
    rows_are_close(st.estimates(st.iqm, curves, samples=20_000), along["iqm"], along["iqm_intervals"], 0.005)


@pytest.mark.parametrize("case", CASES)
def test_a_performance_profile_is_that_of_rliable(case: dict[str, Any]) -> None:
    along = case["along"]
    ends = [np.array(one)[-1] for one in along["curves"]]
    found = st.profile_estimates(ends, np.array(along["levels"]), samples=20_000)
    one_run = 1 / sum(map(len, ends))  # ends of an interval are multiples of it: two bootstraps may differ by one
    rows_are_close(found, along["profile"], along["profile_intervals"], one_run)


def test_a_curve_of_one_run_has_no_band() -> None:
    curve = np.array([[1.0], [2.0]])
    assert st.estimates(st.iqm, [curve]) == [st.Estimate(1.0), st.Estimate(2.0)]
    assert st.profile_estimates([np.array([1.0])], np.array([0.0, 1.0])) == [st.Estimate(1.0), st.Estimate(0.0)]


def test_one_run_has_no_interval() -> None:
    assert st.estimate(st.iqm, [np.array([3.0])]) == st.Estimate(3.0)
    assert st.improvement_estimate([np.array([3.0])], [np.array([1.0, 2.0])]) == st.Estimate(1.0)


def test_environments_may_have_different_numbers_of_runs() -> None:
    unequal = [np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])]
    assert float(st.mean(unequal)) == (2 + 15) / 2
    assert float(st.iqm(unequal)) == pytest.approx((2 + 3 + 10) / 3)


def test_of_a_single_environment_the_median_is_that_of_its_runs() -> None:
    assert float(st.median([np.array([1.0, 2.0, 30.0])])) == 2.0


def test_runs_that_are_all_equal_have_an_interval_of_no_width() -> None:
    assert st.estimate(st.iqm, [np.full(5, 500.0)]) == st.Estimate(500.0, 500.0, 500.0)


def test_the_same_question_has_the_same_answer() -> None:
    some = [np.random.default_rng(1).normal(size=20)]
    assert st.estimate(st.iqm, some) == st.estimate(st.iqm, some) != st.estimate(st.iqm, some, seed=1)


def test_many_runs_are_resampled_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [np.random.default_rng(1).normal(size=50)]
    whole = st.estimate(st.mean, some)
    monkeypatch.setattr(st, "_MOST_NUMBERS", 500)
    sliced = st.estimate(st.mean, some)
    assert (sliced.low, sliced.high) == pytest.approx((whole.low, whole.high), abs=0.05)
    assert st.improvement_estimate(some, some).value == 0.5


@pytest.mark.parametrize("ends", [(1.0, 1.0), (0.0, float("nan")), (float("inf"), 1.0)])
def test_a_reference_has_two_different_numbers(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="two different finite numbers"):
        st.Reference(*ends)


def test_scores_are_measured_between_the_two() -> None:
    assert st.Reference(-200.0, -100.0).normalised(np.array([-200.0, -150.0, -100.0, -50.0])).tolist() == [
        0,
        0.5,
        1,
        1.5,
    ]
