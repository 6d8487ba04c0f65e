"""Curves over steps, times, the time of day, CPU time or a metric that only grows; and their extremes."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_metrics_panel import opened
from gym_gui.ui.plots.axis_choice import AxisChoice
from gym_gui.ui.plots.axis_text import clock_text
from gym_gui.ui.plots.drawing import Curve, PlotOptions, draw, extent, value_at
from gym_gui.ui.plots.run_metrics import MetricBatch, RunMetrics
from mosaic_protocol.headline import CPU_TAG

RETURN, EPISODES, LOSS = "charts/episodic_return", "charts/episodes", "losses/value_loss"
HANG = 20_000


def metrics(name: str = "run", *, cpu: bool = True) -> RunMetrics:
    """Ten returns, one every ten steps and seconds; CPU time and episodes at some of the steps."""
    made, steps = RunMetrics(name), np.arange(10.0, 110, 10)
    columns = {RETURN: (steps, 1000 + steps, steps % 50), LOSS: (steps, 1000 + steps, 100 - steps)}
    some = np.array([50.0, 100.0])
    if cpu:
        columns[CPU_TAG] = (some, 1000 + some, np.array([5.0, 20.0]))
    columns[EPISODES] = (some, 1000 + some, np.array([3.0, 9.0]))
    made.take(MetricBatch(1, columns))
    return made


def test_each_axis_places_the_points_in_ascending_order() -> None:
    run = metrics()
    assert run.x(RETURN, "clock").tolist() == (1000 + np.arange(10.0, 110, 10)).tolist()
    assert run.x(RETURN, "cpu").tolist() == pytest.approx([1, 2, 3, 4, 5, 8, 11, 14, 17, 20])
    assert run.x(RETURN, EPISODES).tolist() == pytest.approx([3, 3, 3, 3, 3, 4.2, 5.4, 6.6, 7.8, 9])
    assert run.x(RETURN, EPISODES) is run.x(RETURN, EPISODES), "a million points are placed once"
    more = np.array([110.0])
    run.take(MetricBatch(2, {RETURN: (more, more, more), EPISODES: (more, more, np.array([12.0]))}))
    assert run.x(RETURN, EPISODES)[-1] == 12.0


def test_only_what_never_falls_is_an_axis() -> None:
    run = metrics()
    assert [tag for tag, series in run.series.items() if series.is_axis] == [CPU_TAG, EPISODES]
    again = np.array([120.0])
    run.take(MetricBatch(2, {EPISODES: (again, again, np.array([1.0]))}))
    assert not run.series[EPISODES].is_axis
    constant = RunMetrics("constant")
    constant.take(MetricBatch(1, {"a/b": (np.arange(3.0), np.arange(3.0), np.ones(3))}))
    assert not constant.series["a/b"].is_axis


def test_a_run_that_does_not_know_an_axis_is_left_out_there() -> None:
    knows, does_not = Curve("a", "a", 0, (metrics(),)), Curve("b", "b", 1, (metrics(cpu=False),))
    options = PlotOptions(x="cpu")
    assert extent([knows, does_not], RETURN, options) == (1.0, 20.0)
    assert draw(does_not, RETURN, 0, 100, options) is None and value_at(does_not, RETURN, 5, options) is None
    assert value_at(knows, RETURN, 20.0, options) == 0.0
    seeds = Curve("c", "c", 0, (metrics(), metrics(cpu=False), metrics()))
    assert len(seeds.having(RETURN, "cpu")) == 2 and draw(seeds, RETURN, 1, 20, options) is not None


def test_extremes_are_of_every_point_that_came() -> None:
    run = metrics()
    curve = Curve("a", "a", 0, (run,))
    assert curve.best(RETURN, lowest=False) == (40.0, 90.0) or curve.best(RETURN, lowest=False) == (40.0, 40.0)
    assert curve.best(LOSS, lowest=True) == (0.0, 100.0)
    at = np.array([200.0])
    run.take(MetricBatch(2, {RETURN: (at, at, np.array([np.nan])), LOSS: (at, at, np.array([-7.0]))}))
    assert curve.best(LOSS, lowest=True) == (-7.0, 200.0) and curve.best("no/such", lowest=True) is None


def test_the_time_of_day_is_told_as_finely_as_needed() -> None:
    noon = datetime(2026, 11, 18, 12, 5, 30).timestamp()  # noqa: DTZ001 - as the clock on the wall has it
    assert [clock_text(noon, spacing) for spacing in (1, 300, 86_400)] == ["12:05:30", "12:05", "18 Nov"]
    assert clock_text(1e300) == ""


def test_a_metric_that_was_chosen_stays_offered(qtbot: QtBot) -> None:
    choice = AxisChoice()
    qtbot.addWidget(choice)
    told: list[str] = []
    choice.chosen.connect(told.append)
    choice.offer([EPISODES, "a/b"])
    choice.choose(EPISODES)
    choice.offer([])
    assert choice.choice == EPISODES and choice.count() == 5 and told == [EPISODES]
    choice.choose("step")
    choice.offer([])
    assert choice.count() == 4
    choice.choose("nonsense")
    assert choice.choice == "step"


def test_the_panel_draws_over_what_is_chosen_and_says_the_extremes(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    _, panel = opened(make_cockpit, None)
    panel.grid.set_curves([Curve("a", "run-a", 0, (metrics("a", cpu=False),))])
    panel._tell_empty()
    qtbot.waitUntil(lambda: len(panel.grid.cards) == 3, timeout=HANG)
    panel.grid.arranger.move_first(LOSS)
    card = panel.grid.cards[LOSS]
    qtbot.waitUntil(lambda: card.span.text() == "min 0 at 100 · max 90 at 10", timeout=HANG)
    panel.grid.arranger.move_first(RETURN)
    panel.toolbar.horizontal.choose(EPISODES)
    qtbot.waitUntil(lambda: panel.grid.cards[RETURN].plot._span() == (3.0, 9.0), timeout=HANG)
    panel.toolbar.horizontal.choose("cpu")
    hint = panel.grid.cards[RETURN]._hint
    qtbot.waitUntil(lambda: hint.isVisible() and "no CPU time was recorded" in hint.text(), timeout=HANG)
    panel.toolbar.log_x.setChecked(True)
    panel.toolbar.horizontal.choose("clock")
    assert not panel.toolbar.options.log_x and not panel.toolbar.log_x.isEnabled()
    low = Curve("b", "run-b", 1, (metrics("b"),))
    members = low.members[0]
    panel.grid.arranger.move_first(LOSS)
    members.take(MetricBatch(2, {LOSS: (np.array([500.0]),) * 2 + (np.array([-3.0]),)}))
    panel.grid.set_curves([Curve("a", "run-a", 0, (metrics("a"),)), low])
    qtbot.waitUntil(lambda: card.span.text() == "best -3 at 500 · run-b", timeout=HANG)
