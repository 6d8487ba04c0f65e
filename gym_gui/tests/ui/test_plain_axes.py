"""What axes say: whole numbers where only these mean something, numbers that stand clear of each other, and nothing
where nothing was measured."""

from __future__ import annotations

from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.ui.play.steps_chart import ReturnChart, ReturnCurve
from gym_gui.ui.plots.axes import ValueAxis
from gym_gui.ui.theme import Themes


def test_trials_are_numbered_by_whole_numbers(qapp: QApplication) -> None:
    few, many = (ValueAxis("bottom", counts=True).tickSpacing(0, most, 300)[0][0] for most in (1, 400))
    assert few == 1
    assert many > 1 and many.is_integer()
    assert ValueAxis("bottom").tickSpacing(0, 1, 300)[0][0] < 1


def test_numbers_of_a_logarithmic_axis_need_more_room_beside_each_other_than_below(qapp: QApplication) -> None:
    beside, below = (len(ValueAxis(side).logTickValues(-4.0, -3.6, 300, [])[0][1]) for side in ("bottom", "left"))
    assert 1 <= beside <= 300 / 60
    assert beside < below


def test_a_chart_of_the_return_without_a_line_has_no_numbers(qtbot: QtBot, qapp: QApplication) -> None:
    curve = ReturnCurve()
    chart = ReturnChart(curve, Themes(qapp))
    qtbot.addWidget(chart)

    def has_numbers() -> list[bool]:
        return [chart.getPlotItem().getAxis(side).style["showValues"] for side in ("left", "bottom")]

    assert has_numbers() == [False, False]
    for step, shown in ((1, False), (2, True)):
        curve.add(0, step, float(step), "human")
        chart.refresh()
        assert has_numbers() == [shown, shown]
    curve.clear()
    chart.refresh()
    assert has_numbers() == [False, False]
