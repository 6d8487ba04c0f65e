"""Every curve on the stage: the same panel, moved there and back, whatever else wants the stage."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QLabel, QLineEdit
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
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
