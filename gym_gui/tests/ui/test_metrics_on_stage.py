"""Every curve on the stage: the same panel, moved there and back, whatever else wants the stage."""

from __future__ import annotations

from PyQt6.QtWidgets import QLabel

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.stage import Stage


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
