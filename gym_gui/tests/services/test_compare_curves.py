"""Curves and profiles of groups: a common grid, nothing invented where runs are short, crashed or not a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gym_gui.services.compare.comparison import Comparison, Question, compared
from gym_gui.services.compare.curves import GRID_POINTS, curves_of, profiles_of
from gym_gui.services.compare.measures import Axis, By, Curve, Measured, points_of
from gym_gui.services.compare.statistics import Reference
from gym_gui.tests.services.test_compare import made, scored
from mosaic_protocol.headline import CPU_TAG, RETURN_TAG
from mosaic_protocol.proto import trainer_pb2 as pb


def rising(number: int, ends: int, *, height: float = 1.0, seconds: float | None = None, **about: Any) -> Measured:
    """A run whose return is its step, by ten steps."""
    steps = np.arange(10.0, ends + 1, 10.0)
    took = None if seconds is None else np.linspace(seconds / len(steps), seconds, len(steps))
    return Measured(made(number, seed=number, last_step=ends, **about), 1.0, curve=Curve(steps, height * steps, took))


def found(**groups: Sequence[Measured]) -> Comparison:
    return compared(groups, Question(samples=200))


def test_a_curve_goes_as_far_as_all_its_runs_and_says_so() -> None:
    curves = curves_of(found(A=[rising(1, 500), rising(2, 1000)]))
    curve = curves.groups["A"]
    assert (curve.at[0], curve.at[-1], len(curve.at)) == (10.0, 500.0, GRID_POINTS - 1)
    assert curve.iqm[-1] is not None and curve.iqm[-1].value == 500.0
    assert curves.notes == ["A: the curve ends at 500 steps with its shortest run; the longest goes on to 1,000 steps"]


def test_groups_share_a_grid_and_each_ends_where_it_ends() -> None:
    curves = curves_of(found(A=[rising(n, 1000) for n in range(3)], B=[rising(n, 400) for n in range(3)]))
    long, short = curves.groups["A"].at, curves.groups["B"].at
    assert set(short) < set(long) and (long[-1], short[-1]) == (1000.0, 400.0)


def test_a_group_that_is_too_short_for_the_grid_is_named() -> None:
    curves = curves_of(found(A=[rising(1, 100_000), rising(2, 100_000)], B=[rising(3, 500)]))
    assert list(curves.groups) == ["A"] and curves.notes == ["B has no curve: it is too short beside the others"]


def test_a_return_that_is_no_number_is_a_gap() -> None:
    broken = rising(1, 1000)
    assert broken.curve is not None
    broken.curve.values[30:40] = [math.nan, math.inf, -math.inf, *[math.nan] * 7]
    curves = curves_of(found(A=[broken, *(rising(n, 1000) for n in range(2, 6))]))
    missing = [float(at) for at, one in zip(curves.groups["A"].at, curves.groups["A"].iqm, strict=True) if one is None]
    assert missing == [float(step) for step in range(310, 401, 10)]
    assert "A: 10 of 100 points are missing, where a return is not a number" in curves.notes


def test_one_run_has_a_line_and_no_band() -> None:
    curves = curves_of(found(A=[rising(1, 100)]))
    points = [one for one in curves.groups["A"].iqm if one is not None]
    assert points and all(one.low is None and one.high is None for one in points)
    assert "A: of one run there is no band" in curves.notes


def test_curves_over_time_need_times_of_every_run() -> None:
    timed = [rising(1, 100, seconds=20), rising(2, 100, seconds=40)]
    curves = curves_of(found(A=timed, B=[rising(3, 100), rising(4, 100, seconds=5)]), Axis.TIME)
    assert list(curves.groups) == ["A"] and curves.groups["A"].at[-1] == pytest.approx(20.0)
    assert "B has no curve: no time of its points is stored for 1 run" in curves.notes
    assert curves_of(found(A=timed), Axis.CPU).notes == ["no curve over CPU time: it is not stored"]


def test_an_evaluation_has_no_curve() -> None:
    comparison = compared({"A": scored([1, 2])}, Question(By.EVALUATION))
    assert not curves_of(comparison).groups


def test_several_environments_are_put_together_by_their_references() -> None:
    runs = [rising(1, 1000), rising(2, 1000), *(rising(n, 1000, height=-1, env="Acrobot-v1") for n in (3, 4))]
    references = {"CartPole-v1": Reference(0, 1000), "Acrobot-v1": Reference(0, -1000)}
    comparison = compared({"A": runs}, Question(references=references, samples=100))
    last = curves_of(comparison).groups["A"].iqm[-1]
    assert last is not None and last.value == pytest.approx(1.0)


def test_a_profile_falls_from_all_runs_to_none() -> None:
    comparison = compared({"A": scored([1, 2, 3, 4]), "B": scored([10])}, Question(samples=200))
    profiles = profiles_of(comparison)
    heights = [one.value for one in profiles.groups["A"]]
    assert heights[0] == 1.0 and heights[-1] == 0.0 and heights == sorted(heights, reverse=True)
    assert set(heights) == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert all(one.low is None for one in profiles.groups["B"])


class Client:
    """What a daemon has stored of one run, by tag: steps, values, wall times."""

    def __init__(self, **stored: tuple[list[int], list[float], list[float]]) -> None:
        self._stored = stored

    def metrics(self, run_id: str, tags: Sequence[str], *, max_points: int) -> list[pb.MetricSeries]:
        name = {RETURN_TAG: "returns", CPU_TAG: "cpu"}[tags[0]]
        steps, values, times = self._stored.get(name, ([], [], []))
        return [pb.MetricSeries(tag=tags[0], steps=steps, values=values, wall_times=times, total_points=len(steps))]


def test_points_have_their_times_and_the_cpu_time_between_those_that_were_recorded() -> None:
    client: Any = Client(
        returns=([30, 10, 20], [3.0, 1.0, 2.0], [103.0, 101.0, 100.5]), cpu=([20, 40], [2.0, 6.0], [0.0, 0.0])
    )
    run: Any = SimpleNamespace(run_id="R", started_at=100.0)
    points = points_of(client, run, RETURN_TAG)
    assert points is not None and points.seconds is not None and points.cpu is not None
    assert (points.steps.tolist(), points.values.tolist()) == ([10, 20, 30], [1, 2, 3])
    assert points.seconds.tolist() == [1.0, 1.0, 3.0], "a clock that was set back stands still"
    assert points.cpu.tolist() == [1.0, 2.0, 4.0]


def test_a_run_that_recorded_no_cpu_time_has_none() -> None:
    run: Any = SimpleNamespace(run_id="R", started_at=0.0)
    client: Any = Client(returns=([1], [1.0], [5.0]))
    points = points_of(client, run, RETURN_TAG)
    assert points is not None and points.cpu is None and points.seconds is None
    assert points_of(Client(), run, RETURN_TAG) is None  # type: ignore[arg-type]
