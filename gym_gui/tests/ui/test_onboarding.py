"""The first start: offered once, closed for good, and the tour stays inside the window."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.onboarding import Hint, Tour, Welcome
from gym_gui.ui.parts import Part, Place


def test_the_welcome_is_offered_once(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit()
    welcome = Welcome(cockpit.window, cockpit.preferences)
    welcome.offer()
    assert welcome.isVisible()
    with qtbot.waitSignal(welcome.demo_wanted):
        qtbot.mouseClick(welcome.demo, Qt.MouseButton.LeftButton)
    assert not welcome.isVisible()
    again = Welcome(cockpit.window, cockpit.preferences)
    again.offer()
    assert not again.isVisible()


def test_the_tour_goes_through_its_hints_inside_the_window(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    parts = [Part("runs", "Runs", Place.BOTTOM, lambda _: QLabel("runs"))]
    window = make_cockpit(parts=parts).window
    tour = Tour(window, [Hint("runs", "Runs", "All of them."), Hint("nowhere", "Later", "Not there yet.")])
    tour.start()
    for expected in ("Runs", "Later"):
        assert tour._title.text() == expected
        assert window.rect().contains(tour.geometry())
        if expected == "Runs":
            qtbot.mouseClick(tour.next, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(tour.finished):
        qtbot.mouseClick(tour.next, Qt.MouseButton.LeftButton)
    assert not tour.isVisible()
