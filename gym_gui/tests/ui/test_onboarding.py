"""The first start: the welcome stays until it was used or declined, and the tour points at what it speaks of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PyQt6.QtCore import QPoint, QRect, Qt
from PyQt6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.whole_window import HANG
from gym_gui.ui.onboarding import Hint, Tour, Welcome
from gym_gui.ui.panels.stage_empty import EmptyStage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.workers.cleanrl.demo import DEMO, DEMO_RETURN, PARAMS

CHECKOUT = Path(__file__).resolve().parents[3]


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


def test_the_tour_does_not_use_the_welcome_up(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(parts=None)
    steps = cockpit.first_steps
    assert steps is not None
    steps.welcome.offer()
    qtbot.mouseClick(steps.welcome.tour, Qt.MouseButton.LeftButton)
    assert steps.tour.isVisible() and not steps.welcome.isVisible()
    qtbot.keyClick(steps.tour, Qt.Key.Key_Escape)
    assert not steps.tour.isVisible() and steps.welcome.isVisible()
    qtbot.mouseClick(steps.welcome.later, Qt.MouseButton.LeftButton)
    steps.tour.start()
    qtbot.mouseClick(steps.tour.close_button, Qt.MouseButton.LeftButton)
    assert not steps.welcome.isVisible()


def test_the_welcome_covers_no_half_of_a_word(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(parts=None)
    window, steps = cockpit.window, cockpit.first_steps
    empty = window.findChild(EmptyStage)
    assert steps is not None and empty is not None
    window.setMinimumSize(900, 560)  # the screen of tests is smaller
    steps.welcome.offer()

    def covered() -> bool:
        here = QRect(empty.content.mapTo(window, QPoint(0, 0)), empty.content.size())
        return here.intersects(steps.welcome.geometry())

    for size in ((1024, 600), (1280, 1000), (900, 560)):
        window.resize(*size)
        qtbot.waitUntil(lambda: (window.width() < 1200) is window.arrangement.is_narrow)
        small = size[1] < 700
        qtbot.waitUntil(lambda small=small: empty.content.isHidden() is small and covered() is small)
    steps.welcome.put_away()
    assert not empty.content.isHidden()


def test_no_hint_covers_half_of_a_word_on_the_stage(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(parts=None)
    window, steps = cockpit.window, cockpit.first_steps
    empty = window.findChild(EmptyStage)
    assert steps is not None and empty is not None
    window.setMinimumSize(900, 560)  # the screen of tests is smaller
    window.resize(1024, 600)
    qtbot.waitUntil(lambda: window.arrangement.is_narrow)
    steps.tour.start()
    qtbot.waitUntil(empty.content.isHidden)
    steps.tour.put_away()
    steps.welcome.put_away()
    assert not empty.content.isHidden()


def test_every_hint_frames_what_it_explains_and_stays_inside_the_window(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    cockpit = make_cockpit(parts=None)
    window, steps = cockpit.window, cockpit.first_steps
    assert steps is not None
    window.setMinimumSize(900, 560)  # the screen of tests is smaller
    for size in ((900, 560), (1280, 800)):
        window.resize(*size)
        qtbot.waitUntil(lambda: (window.width() < 1200) is window.arrangement.is_narrow)
        steps.tour.start()
        for hint in steps.tour._hints:
            assert steps.tour._title.text() == hint.title
            about = window.findChild(QWidget, hint.about)
            assert about is not None, hint
            qtbot.waitUntil(lambda about=about: not about.visibleRegion().isEmpty())
            steps.tour.place(about)
            assert steps.tour.highlight.isVisible()
            assert steps.tour.highlight.geometry() == QRect(about.mapTo(window, QPoint(0, 0)), about.size())
            assert window.rect().contains(steps.tour.geometry())
            if hint.about in ("menu-bar", "use-trained"):
                stage = window.findChild(QWidget, "stage")
                assert stage is not None
                beside = QRect(stage.mapTo(window, QPoint(0, 0)), stage.size())
                assert beside.contains(steps.tour.geometry()), "words of other panels are not half covered"
            if about.height() < steps.tour.height():
                assert not steps.tour.geometry().intersects(steps.tour.highlight.geometry()), "small things stay seen"
            qtbot.keyClick(steps.tour.next, Qt.Key.Key_Return)
        assert not steps.tour.isVisible() and not steps.tour.highlight.isVisible()


def test_the_tour_goes_on_with_return_back_with_its_button_and_ends_with_escape(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    parts = [Part("runs", "Runs", Place.BOTTOM, lambda _: QLabel("runs"))]
    cockpit = make_cockpit(parts=parts)
    hints = [Hint("runs", "Runs", "All of them."), Hint("nowhere", "Later", "Not there yet.")]
    tour = Tour(cockpit.window, cockpit.themes, hints)
    tour.start()
    assert tour._title.text() == "Runs" and not tour.back.isEnabled()
    qtbot.keyClick(tour.next, Qt.Key.Key_Return)
    assert tour._title.text() == "Later" and not tour.highlight.isVisible()
    qtbot.mouseClick(tour.back, Qt.MouseButton.LeftButton)
    assert tour._title.text() == "Runs"
    with qtbot.waitSignal(tour.finished):
        qtbot.keyClick(tour.next, Qt.Key.Key_Escape)
    assert not tour.isVisible() and not tour.highlight.isVisible()


@pytest.mark.nightly
def test_the_demo_reaches_what_its_card_promises(tmp_path: Path) -> None:
    settings = DEMO.request.settings
    words = ["--env-id", settings["env_id"], "--seed", str(settings["seed"])]
    words += ["--total-timesteps", str(settings["total_timesteps"])]
    for name, value in PARAMS.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    script = CHECKOUT / "cleanrl_worker" / "cleanrl" / "ppo.py"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), *words], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    means = re.findall(r"return ([\d.]+) \(mean of the last \d+ episodes\)", done.stdout)
    assert float(means[0]) < 100 and float(means[-1]) >= DEMO_RETURN


def test_the_welcome_makes_room_for_a_run_that_somebody_looks_at(make_cockpit: MakeCockpit) -> None:
    cockpit = make_cockpit(parts=None)
    steps = cockpit.first_steps
    assert steps is not None
    steps.welcome.offer()
    assert steps.welcome.isVisible()
    cockpit.window.cockpit.selection.select(["01K9ZQ3V7X0000000000000000"])
    assert not steps.welcome.isVisible()


def test_the_demo_leaves_the_keyboard_with_the_runs(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(parts=None)
    assert cockpit.first_steps is not None
    with qtbot.waitActive(cockpit.window, timeout=HANG):
        cockpit.window.activateWindow()
    cockpit.first_steps.welcome.offer()
    cockpit.first_steps.welcome.demo.click()
    assert cockpit.window.docks["runs"].isAncestorOf(QApplication.focusWidget())


def test_a_card_stays_in_front_while_the_window_gets_narrow(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(parts=None)
    window, steps = cockpit.window, cockpit.first_steps
    assert steps is not None
    window.setMinimumSize(900, 560)  # the screen of tests is smaller
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: not window.arrangement.is_narrow)
    steps.tour.start()
    window.resize(900, 560)
    qtbot.waitUntil(lambda: window.arrangement.is_narrow)
    qtbot.waitUntil(lambda: _in_front(window, steps.tour))


def _in_front(window: QWidget, card: QWidget) -> bool:
    """Whether the window shows the card, and nothing else, at the card's middle."""
    there = window.childAt(card.geometry().center())
    return there is card or (there is not None and card.isAncestorOf(there))
