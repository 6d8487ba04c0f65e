"""Every curve on the stage: the same panel, moved there and back, whatever else wants the stage."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QLabel, QLineEdit
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.dock_arrangement import LAYOUT_VERSION, text_of
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.widgets.empty_page import EmptyPage


def test_the_metrics_go_to_the_stage_and_back_and_leave_it_to_whatever_comes(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=None).window
    stage, dock = window.findChild(Stage), window.docks["metrics"]
    assert stage is not None
    panel = dock.widget()
    assert isinstance(panel, MetricsPanel)
    command, before = window.cockpit.commands.action("metrics-on-stage"), stage.pages.currentWidget()
    command.trigger()
    assert stage.pages.currentWidget() is panel and dock.widget() is not panel and command.isChecked()
    assert dock.windowTitle() == "Metrics"
    command.trigger()
    assert dock.widget() is panel and stage.pages.currentWidget() is before and not command.isChecked()
    command.trigger()
    replay = QLabel("a replay")
    stage.show_over(replay)
    assert dock.widget() is panel and stage.pages.currentWidget() is replay and not command.isChecked()
    stage.end_over(replay)
    assert stage.pages.currentWidget() is before
    command.trigger()
    window.close()
    assert dock.widget() is panel


def test_the_keyboard_goes_with_the_metrics(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    with qtbot.waitActive(window):
        window.activateWindow()
    panel = window.docks["metrics"].widget()
    assert isinstance(panel, MetricsPanel)
    command = window.cockpit.commands.action("metrics-on-stage")
    command.trigger()
    line = panel.findChild(QLineEdit)
    assert line is not None
    line.setFocus()
    command.trigger()
    assert QApplication.focusWidget() is line
    command.trigger()
    away = window.docks["metrics"].widget()
    assert isinstance(away, EmptyPage)
    away.button.setFocus()
    qtbot.keyClick(away.button, Qt.Key.Key_Space)
    focused = QApplication.focusWidget()
    assert focused is not None and panel.isAncestorOf(focused)


def test_the_curves_have_the_width_of_the_window_and_give_it_back(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    window.resize(1280, 800)
    train, side, runs = (window.docks[name] for name in ("train", "metrics", "runs"))
    qtbot.waitUntil(lambda: window.width() == 1280 and not window.arrangement.is_narrow)
    panel = side.widget()
    assert isinstance(panel, MetricsPanel)
    widths, before = (train.width(), side.width()), text_of(window.saveState(LAYOUT_VERSION))
    window.cockpit.commands.action("metrics-on-stage").trigger()
    qtbot.waitUntil(lambda: panel.width() > 1200)
    assert train.isHidden() and side.isHidden() and not runs.isHidden(), "other runs are chosen there"
    window.remember()
    assert window.cockpit.preferences.get("window.state", "") == before, "killed now, it opens with its docks"
    assert panel.toolbar.leave.isVisible()
    qtbot.mouseClick(panel.toolbar.leave, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: (train.width(), side.width()) == widths)
    assert side.widget() is panel and panel.toolbar.leave.isHidden()


def test_a_window_that_becomes_wider_meanwhile_gives_the_curves_all_of_it(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    window = make_cockpit(parts=None).window
    window.resize(1024, 700)
    qtbot.waitUntil(lambda: window.width() == 1024 and window.arrangement.is_narrow)
    panel = window.docks["metrics"].widget()
    assert isinstance(panel, MetricsPanel)
    command = window.cockpit.commands.action("metrics-on-stage")
    window.show_part("metrics")
    qtbot.waitUntil(lambda: not window.docks["metrics"].visibleRegion().isEmpty())
    command.trigger()
    qtbot.waitUntil(lambda: panel.width() > 950)
    assert not window.docks["runs"].visibleRegion().isEmpty(), "where the curves were in front, the runs are now"
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: panel.width() > 1200)
    command.trigger()
    shown = [window.docks[name] for name in ("train", "metrics", "run")]
    qtbot.waitUntil(lambda: not any(dock.isHidden() for dock in shown) and not window.arrangement.is_narrow)


def test_in_a_low_window_the_curves_have_all_of_it(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    """Between the runs and the choices above them no plot would be left."""
    window = make_cockpit(parts=None).window
    window.setMinimumSize(900, 560)  # the screen of tests is smaller
    window.resize(1024, 600)
    qtbot.waitUntil(lambda: window.height() == 600 and window.arrangement.is_narrow)
    panel, runs = window.docks["metrics"].widget(), window.docks["runs"]
    assert isinstance(panel, MetricsPanel)
    command = window.cockpit.commands.action("metrics-on-stage")
    command.trigger()
    qtbot.waitUntil(lambda: panel.height() > 450)
    assert runs.isHidden()
    command.trigger()
    qtbot.waitUntil(lambda: not runs.visibleRegion().isEmpty())
