"""Charts are moved and hidden by keys, menu and mouse, and stay where they were put."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PyQt6.QtCore import QMimeData, QPoint, QPointF, Qt
from PyQt6.QtGui import QAction, QContextMenuEvent, QDragMoveEvent, QDropEvent
from PyQt6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_metrics_panel import opened
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.plots.drag_title import CHART
from gym_gui.ui.plots.drawing import Curve
from gym_gui.ui.plots.plot_card import PlotCard
from gym_gui.ui.plots.plot_grid import PlotGrid
from gym_gui.ui.plots.run_metrics import MetricBatch, RunMetrics
from gym_gui.ui.preferences import Preferences
from gym_gui.ui.theme import Themes

HANG = 20_000
RETURN, SPS = "charts/episodic_return", "charts/SPS"
A, B, C = "losses/a", "losses/b", "losses/c"
TAGS = [RETURN, SPS, A, B, C]


def curves(*tags: str) -> list[Curve]:
    metrics, at = RunMetrics("run"), np.arange(1.0, 20)
    metrics.take(MetricBatch(1, dict.fromkeys(tags, (at, at, at))))
    return [Curve("run", "run", 0, (metrics,))]


@pytest.fixture
def preferences(tmp_path: Path) -> Preferences:
    return Preferences(tmp_path / "cockpit.json")


@pytest.fixture
def scroll(qtbot: QtBot) -> QScrollArea:
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    qtbot.addWidget(scroll)
    return scroll


@pytest.fixture
def grid(qtbot: QtBot, qapp: QApplication, preferences: Preferences, scroll: QScrollArea) -> PlotGrid:
    grid = PlotGrid(Themes(qapp), preferences)
    scroll.setWidget(grid)
    scroll.resize(760, 500)
    scroll.show()
    scroll.activateWindow()
    return filled(qtbot, grid)


def filled(qtbot: QtBot, grid: PlotGrid) -> PlotGrid:
    grid.set_curves(curves(*TAGS))
    qtbot.waitUntil(lambda: len(grid.cards) == len(TAGS), timeout=HANG)
    return grid


def entry(card: PlotCard, text: str) -> QAction:
    card.menu.aboutToShow.emit()
    found = [action for action in card.menu.actions() if action.text().startswith(text)]
    assert len(found) == 1, [action.text() for action in card.menu.actions()]
    return found[0]


def test_keys_move_a_chart_and_it_keeps_the_focus(qtbot: QtBot, grid: PlotGrid) -> None:
    card, alt = grid.cards[C], Qt.KeyboardModifier.AltModifier
    card.setFocus()
    qtbot.keyClick(card, Qt.Key.Key_Left, alt)
    assert grid.tags == [RETURN, SPS, A, C, B] and card.hasFocus()
    qtbot.keyClick(card, Qt.Key.Key_Right, alt)
    assert grid.tags == TAGS
    qtbot.keyClick(card, Qt.Key.Key_Home, alt)
    assert grid.tags == [C, RETURN, SPS, A, B] and grid.current == C
    qtbot.keyClick(card, Qt.Key.Key_Right, alt)
    assert grid.tags == [RETURN, SPS, C, A, B]


def test_arrow_keys_lead_from_chart_to_chart(qtbot: QtBot, grid: PlotGrid) -> None:
    qtbot.waitUntil(lambda: grid.cards[SPS].geometry().left() > grid.cards[RETURN].geometry().right(), timeout=HANG)
    grid.cards[RETURN].setFocus()
    way = (("Right", SPS), ("Down", B), ("Left", A), ("Down", C), ("Up", A), ("Up", RETURN), ("Left", RETURN))
    for key, tag in way:
        qtbot.keyClick(QApplication.focusWidget(), getattr(Qt.Key, f"Key_{key}"))
        assert grid.current == tag and grid.cards[tag].hasFocus(), key


def test_a_hidden_chart_comes_back_by_the_menu_of_another(qtbot: QtBot, grid: PlotGrid) -> None:
    grid.cards[A].setFocus()
    qtbot.keyClick(grid.cards[A], Qt.Key.Key_Delete)
    assert grid.tags == [RETURN, SPS, B, C] and grid.cards[B].hasFocus()
    assert grid.arranger.hidden == [A]
    entry(grid.cards[RETURN], "Hide chart").trigger()
    assert grid.tags == [SPS, B, C]
    below = entry(grid.cards[SPS], "Show hidden").menu()
    assert below is not None and [one.text() for one in below.actions()] == ["Episodic return", "A", "All of them"]
    below.actions()[1].trigger()
    assert grid.tags == [SPS, A, B, C]
    below = entry(grid.cards[SPS], "Show hidden").menu()
    assert below is not None and [one.text() for one in below.actions()] == ["Episodic return"]


def test_the_menu_moves_and_resets(grid: PlotGrid) -> None:
    assert not entry(grid.cards[RETURN], "Move first").isEnabled() and not entry(grid.cards[C], "Move down").isEnabled()
    assert not entry(grid.cards[B], "Reset order").isEnabled()
    entry(grid.cards[B], "Move first").trigger()
    entry(grid.cards[C], "Move up").trigger()
    entry(grid.cards[RETURN], "Move down").trigger()
    assert grid.tags == [B, SPS, RETURN, C, A]
    entry(grid.cards[B], "Reset order").trigger()
    assert grid.tags == TAGS


def test_a_right_click_anywhere_on_a_chart_opens_its_menu(qtbot: QtBot, grid: PlotGrid) -> None:
    card = grid.cards[A]
    place = card.plot.viewport().rect().center()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, card.plot.viewport().mapToGlobal(place))
    QApplication.sendEvent(card.plot.viewport(), event)
    qtbot.waitUntil(card.menu.isVisible, timeout=HANG)
    card.menu.close()
    card.setFocus()
    qtbot.keyClick(card, Qt.Key.Key_Return)
    qtbot.waitUntil(card.menu.isVisible, timeout=HANG)
    card.menu.close()


def dragged(grid: PlotGrid, tag: str, target: str, share: float) -> None:
    data = QMimeData()
    data.setData(CHART, tag.encode())
    box = grid.cards[target].geometry()
    place = QPoint(round(box.left() + share * box.width()), box.center().y())
    move, left, none = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    over = QDragMoveEvent(place, move, data, left, none)
    grid.dragMoveEvent(over)
    assert over.isAccepted() and grid._mark.isVisible()
    grid.dropEvent(QDropEvent(QPointF(place), move, data, left, none))
    assert not grid._mark.isVisible()


def test_a_chart_is_dropped_before_or_behind_another(qtbot: QtBot, grid: PlotGrid) -> None:
    qtbot.waitUntil(lambda: grid.cards[B].geometry().left() > grid.cards[A].geometry().right(), timeout=HANG)
    dragged(grid, C, A, 0.2)
    assert grid.tags == [RETURN, SPS, C, A, B]
    qtbot.waitUntil(lambda: grid.cards[A].geometry().left() > grid.cards[C].geometry().right(), timeout=HANG)
    dragged(grid, C, A, 0.8)
    assert grid.tags == [RETURN, SPS, A, C, B]
    dragged(grid, B, RETURN, 0.5)
    assert grid.tags == [B, RETURN, SPS, A, C]


def test_nothing_but_a_chart_of_the_grid_is_taken(grid: PlotGrid) -> None:
    data = QMimeData()
    data.setText(RETURN)
    place, box = Qt.DropAction.MoveAction, grid.cards[A].geometry().center()
    event = QDropEvent(QPointF(box), place, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    grid.dropEvent(event)
    assert grid.tags == TAGS


def test_the_order_survives_a_restart_and_new_tags_find_their_place(
    qtbot: QtBot, qapp: QApplication, grid: PlotGrid, preferences: Preferences
) -> None:
    grid.arranger.move_first(B)
    grid.arranger.move(C, -1)
    grid.arranger.hide(SPS)
    preferences.save()
    again = PlotGrid(Themes(qapp), Preferences(preferences._file))
    qtbot.addWidget(again)
    again.set_curves(curves(*TAGS, "losses/bb", "time/x"))
    assert again.tags == [B, RETURN, C, A, "losses/bb", "time/x"]
    again.arranger.show()
    again.arranger.reset()
    assert Preferences(preferences._file).get("metrics.charts", {}) != {}
    assert again.tags == [RETURN, SPS, A, B, "losses/bb", C, "time/x"]


# ---- in the panel ------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(make_cockpit: MakeCockpit, qtbot: QtBot) -> tuple[CockpitApp, MetricsPanel]:
    cockpit, panel = opened(make_cockpit, None)
    panel.grid.set_curves(curves(*TAGS))
    panel._tell_empty()
    qtbot.waitUntil(lambda: len(panel.grid.cards) == len(TAGS), timeout=HANG)
    return cockpit, panel


def test_commands_act_on_the_chart_that_had_the_focus(shown: tuple[CockpitApp, MetricsPanel]) -> None:
    cockpit, panel = shown
    act = cockpit.window.cockpit.commands.action
    act("metrics-chart-first").trigger()
    assert panel.grid.tags == TAGS, "no chart was looked at yet"
    panel.grid._go_to(panel.grid.cards[B])
    panel.toolbar.filter.setFocus()
    act("metrics-chart-first").trigger()
    assert panel.grid.tags == [B, RETURN, SPS, A, C]
    act("metrics-chart-down").trigger()
    act("metrics-chart-down").trigger()
    assert panel.grid.tags == [RETURN, SPS, A, B, C]
    act("metrics-chart-hide").trigger()
    assert panel.grid.tags == [RETURN, SPS, A, C] and "1 chart is hidden." in panel._note.text()
    act("metrics-charts-show").trigger()
    act("metrics-charts-reset").trigger()
    assert panel.grid.tags == TAGS and "hidden" not in panel._note.text()


def test_a_chart_that_moves_out_of_sight_is_followed(shown: tuple[CockpitApp, MetricsPanel], qtbot: QtBot) -> None:
    cockpit, panel = shown
    cockpit.window.resize(900, 500)
    bar = panel._scroll.verticalScrollBar()
    assert bar is not None
    panel.grid._go_to(panel.grid.cards[C])
    qtbot.waitUntil(lambda: bar.value() > 0 and not panel.grid.cards[C].visibleRegion().isEmpty(), timeout=HANG)
    panel.grid.arranger.move_first(C)
    qtbot.waitUntil(lambda: bar.value() < 60, timeout=HANG)


def test_where_every_chart_is_hidden_it_is_said_how_to_get_them_back(shown: tuple[CockpitApp, MetricsPanel]) -> None:
    cockpit, panel = shown
    cockpit.window.cockpit.selection.select(["run"])
    panel.grid.set_curves(curves(*TAGS))
    for tag in TAGS:
        panel.grid.arranger.hide(tag)
    assert panel.grid.tags == [] and "Show hidden charts" in panel._empty.text()
