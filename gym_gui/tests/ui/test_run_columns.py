"""Settings, metrics and tags as columns; views that are kept; runs that are pinned, hidden and coloured; the CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from gym_gui.services.metric_spans import Span, spans_of
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_index import HANG, labelled
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.test_runs_panel import PARTS, cell, names, panel_of
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.models.extra_columns import MetricColumn, column_named
from gym_gui.ui.models.run_rows import COLUMNS
from gym_gui.ui.panels.runs_panel import RunsPanel
from mosaic_protocol.headline import MEAN_RETURN
from mosaic_protocol.proto import trainer_pb2 as pb

RATE = "setting:learning_rate"
BEST = MetricColumn(MEAN_RETURN, "best").name
IDS = [f"{number:026d}" for number in range(6)]


def filled(make_cockpit: MakeCockpit) -> tuple[CockpitApp, RunsPanel]:
    app = make_cockpit(None, PARTS)
    app.window.cockpit.runs.take([labelled(number) for number in range(1, 6)])
    return app, panel_of(app)


def shown_cell(panel: RunsPanel, run_id: str, column: str) -> str:
    return str(panel.table.index_of(run_id).siblingAtColumn(panel.table.number_of(column)).data())


# ---- columns -----------------------------------------------------------------------------------------------------


def test_a_setting_is_found_ticked_shown_sorted_and_taken_away_again(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    _, panel = filled(make_cockpit)
    panel._show_columns()
    qtbot.keyClicks(panel.chooser.query, "learning")
    assert panel.chooser.names() == [RATE]
    qtbot.keyClick(panel.chooser.query, Qt.Key.Key_Return)
    assert shown_cell(panel, IDS[2], RATE) == "0.01"
    shown = panel.list.columns.shown
    assert shown.index(RATE) == shown.index("return") + 1, "where it is seen without scrolling"
    panel.list.sortByColumn(panel.table.number_of(RATE), Qt.SortOrder.AscendingOrder)
    assert names(panel) == ["run-5", "run-4", "run-3", "run-2", "run-1"]
    qtbot.keyClick(panel.chooser.query, Qt.Key.Key_Return)
    assert RATE not in panel.list.columns.shown and panel.table.columnCount() == len(COLUMNS)
    assert panel.table.view.sort == "created"
    panel.chooser.hide()


def test_numbers_and_words_of_one_setting_sort_and_what_is_missing_comes_last(make_cockpit: MakeCockpit) -> None:
    app = make_cockpit(None, PARTS)
    values: list[Any] = [3, "auto", None, 0.5]
    for number, value in enumerate(values):
        config = {"metadata": {"worker": {"config": {"x": value}}}}
        app.window.cockpit.runs.take([made(number, config=config)])
    panel = panel_of(app)
    panel.list.columns.show("setting:x", True)
    for order, expected in (
        (Qt.SortOrder.AscendingOrder, ["run-3", "run-0", "run-1", "run-2"]),
        (Qt.SortOrder.DescendingOrder, ["run-0", "run-3", "run-1", "run-2"]),
    ):
        panel.list.sortByColumn(panel.table.number_of("setting:x"), order)
        assert names(panel) == expected


def test_runs_are_grouped_by_a_setting_that_has_a_column(make_cockpit: MakeCockpit) -> None:
    app, panel = filled(make_cockpit)
    app.window.cockpit.runs.take([labelled(1, last_step=3)])
    panel.list.columns.show(RATE, True)
    panel.grouping.choose(RATE)
    assert names(panel)[:2] == ["[learning_rate = 0.0001]", "run-4"]
    panel.grouping.choose("tags")
    assert names(panel)[0] == "[even]" and "By learning_rate" in panel.grouping.itemText(5)
    panel.grouping.choose("nonsense")
    assert len(names(panel)) == 5


def test_columns_are_remembered_and_nonsense_is_not_believed(make_cockpit: MakeCockpit) -> None:
    _, panel = filled(make_cockpit)
    panel.list.columns.show(RATE, True)
    panel.list.columns.show("tags", True)
    layout = panel.list.columns.layout
    panel.list.columns.reset()
    assert RATE not in panel.list.columns.shown and "tags" not in panel.list.columns.shown
    panel.list.columns.apply(layout, {"column": RATE, "descending": False})
    assert {RATE, "tags"} <= set(panel.list.columns.shown) and panel.table.view.sort == RATE
    for strange in (
        {"extra": ["setting:", "metric:x:worst", 7, None], "order": [[]], "hidden": 3, "widths": []},
        {"extra": "x", "order": ["name", "name", "gone"]},
    ):
        panel.list.columns.apply(strange, {"column": 7})
        assert panel.table.extras == [] and panel.table.view.sort == "created"


# ---- metrics -----------------------------------------------------------------------------------------------------


class Metrics:
    """A daemon that has two curves of each run."""

    def metrics(self, run_id: str, tags: list[str], *, max_points: int) -> list[pb.MetricSeries]:
        curves = {"losses/value": [3.0, 1.0, float("nan"), 2.0], "charts/episodic_return": [500.0] + [0.0] * 99 + [7.0]}
        return [pb.MetricSeries(tag=tag, values=curves.get(tag, [])) for tag in tags]


def test_the_best_of_a_loss_is_its_lowest_and_a_lucky_beginning_is_no_best_mean() -> None:
    found = spans_of(Metrics(), ["a"], ["losses/value", MEAN_RETURN])["a"]  # type: ignore[arg-type]
    assert found["losses/value"] == Span(2.0, 1.0, 3.0)
    assert (found[MEAN_RETURN].low, found[MEAN_RETURN].high) == (0.07, 5.0)
    assert MetricColumn("losses/value", "best").is_lowest and not MetricColumn(MEAN_RETURN, "best").is_lowest
    assert column_named("metric:losses/value:worst") is None


def test_the_best_of_a_metric_is_read_beside_the_gui_and_sorts(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    runs = [daemon.submit(name=f"run {steps}", total_timesteps=steps, step_seconds=0) for steps in (10, 30, 20)]
    for run_id in runs:
        daemon.wait_over(run_id)
    app = make_cockpit(daemon, PARTS)
    panel = panel_of(app)
    qtbot.waitUntil(lambda: len(app.window.cockpit.runs) == 3, timeout=HANG)
    tag = "charts/episodic_return"
    for kind in ("best", "min"):
        panel.list.columns.show(MetricColumn(tag, kind).name, True)
    best = MetricColumn(tag, "best").name
    qtbot.waitUntil(lambda: all(shown_cell(panel, run_id, best) for run_id in runs), timeout=HANG)
    panel.list.sortByColumn(panel.table.number_of(best), Qt.SortOrder.DescendingOrder)
    assert names(panel) == ["run 30", "run 20", "run 10"]
    lowest = MetricColumn(tag, "min").name
    assert float(shown_cell(panel, runs[1], lowest)) < float(shown_cell(panel, runs[1], best))
    for name in (best, lowest):
        panel.list.columns.show(name, False)
    assert not panel.spans._timer.isActive()


# ---- views -------------------------------------------------------------------------------------------------------


def test_a_view_is_saved_used_from_the_palette_and_deleted_with_a_way_back(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    app, panel = filled(make_cockpit)
    panel.list.columns.show(RATE, True)
    panel.list.sortByColumn(panel.table.number_of(RATE), Qt.SortOrder.AscendingOrder)
    panel.filters.text.setText("tag=odd")
    panel.filters._tell()
    panel.grouping.choose("algorithm")
    menu = panel.views.menu_of_views()
    line = menu.findChild(QLineEdit)
    assert line is not None
    qtbot.keyClicks(line, "rates & odd")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    seen = names(panel)
    panel.list.columns.reset()
    panel.filters.clear()
    panel.grouping.choose("")
    assert len(names(panel)) == 5 and RATE not in panel.list.columns.shown
    commands = app.window.cockpit.commands
    commands.action("runs-view:rates & odd").trigger()
    assert names(panel) == seen == ["[ppo]", "run-5", "run-3", "run-1"] and RATE in panel.list.columns.shown
    panel.views.forget("rates & odd")
    assert panel.views.views() == {} and "runs-view:rates & odd" not in [one.name for one, _ in commands.all()]
    notice = app.window._snackbar._waiting[-1] if app.window._snackbar._waiting else app.window._snackbar.current
    assert notice is not None and notice.act is not None
    notice.act()
    assert list(panel.views.views()) == ["rates & odd"]


def test_the_first_view_is_named_by_keys_alone(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app, panel = filled(make_cockpit)
    with qtbot.waitActive(app.window):
        app.window.activateWindow()
    panel.views.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(panel.views, Qt.Key.Key_Space)
    line = panel.views.findChild(QLineEdit)
    assert line is not None
    menu = line.window()
    assert menu is not None and menu.focusWidget() is line
    qtbot.keyClicks(line, "mine")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert list(panel.views.views()) == ["mine"]


# ---- marks -------------------------------------------------------------------------------------------------------


def test_pinned_runs_stand_first_hidden_ones_are_away_and_both_are_remembered(make_cockpit: MakeCockpit) -> None:
    app, panel = filled(make_cockpit)
    context = app.window.cockpit
    context.selection.select([IDS[2]])
    context.commands.action("pin-runs").trigger()
    assert names(panel)[0] == "run-2"
    context.selection.select([IDS[4]])
    context.commands.action("hide-runs").trigger()
    assert "run-4" not in names(panel) and context.selection.ids == []
    assert context.preferences.get("runs.marks") == {"pinned": [IDS[2]], "hidden": [IDS[4]], "colours": {}}
    told = app.window._snackbar.current
    assert told is not None and told.text == "1 run is hidden."
    context.commands.action("show-hidden-runs").trigger()
    assert "run-4" in names(panel)
    context.selection.select([IDS[4]])
    context.commands.action("hide-runs").trigger()
    assert app.window._snackbar.current is None, "what is taken back is not said to be hidden"
    context.commands.action("show-hidden-runs").trigger()
    assert "run-4" in names(panel)
    context.selection.select([IDS[2]])
    context.commands.action("pin-runs").trigger()
    assert names(panel)[0] == "run-5" and context.preferences.get("runs.marks") is None


def test_a_colour_of_its_own_is_that_of_its_curves(make_cockpit: MakeCockpit) -> None:
    app, panel = filled(make_cockpit)
    store = MetricsStore.of(app.bridge)
    store.give_colours(IDS[1:3])
    panel.marks.marks.paint([IDS[2]], 5)
    assert (store.colour_number(IDS[1]), store.colour_number(IDS[2])) == (0, 5)
    panel.marks.marks.paint([IDS[2]], None)
    assert store.colour_number(IDS[2]) == 1


# ---- the table for others ----------------------------------------------------------------------------------------


def test_what_is_shown_is_exported_and_no_cell_is_a_formula(
    make_cockpit: MakeCockpit, qtbot: QtBot, tmp_path: Path
) -> None:
    app, panel = filled(make_cockpit)
    app.bridge._timer.start()
    app.window.cockpit.runs.take([labelled(1, name="=1+1", headline={MEAN_RETURN: 12.3456789})])
    panel.list.columns.show(RATE, True)
    panel.filters.text.setText("seed<3")
    panel.filters._tell()
    panel.export(tmp_path / "runs.csv")
    qtbot.waitUntil((tmp_path / "runs.csv").exists, timeout=HANG)
    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["run_id"]: row["learning_rate"] for row in rows} == {IDS[1]: "0.1", IDS[2]: "0.01"}
    renamed = next(row for row in rows if row["run_id"] == IDS[1])
    assert (renamed["Name"], renamed["Mean return"]) == ("'=1+1", "12.3456789")
    assert cell(panel, IDS[1], "return") == "12.35"


def test_the_palette_finds_settings_and_makes_them_columns(make_cockpit: MakeCockpit) -> None:
    app, panel = filled(make_cockpit)
    found = {one.text: one for one in app.window.palette_popup.findings("learning rate")}
    found["Column › learning_rate"].act()
    assert RATE in panel.list.columns.shown
    assert "Column › learning_rate" not in [one.text for one in app.window.palette_popup.findings("learning")]
    assert not [one for one in app.window.palette_popup.findings("") if one.text.startswith("Column")]


def test_the_list_is_sorted_from_the_palette_and_the_keyboard_is_in_it(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app, panel = filled(make_cockpit)
    for number, value in enumerate((30.0, 10.0, 50.0, 20.0, 40.0), start=1):
        app.window.cockpit.runs.take([labelled(number, headline={MEAN_RETURN: value})])
    best_first = app.window.palette_popup.findings("sort return")[0]
    assert best_first.text == "View › Runs › Best return first"
    for _ in range(2):
        best_first.act()
        view = panel.table.view
        assert (view.sort, view.descending) == ("return", True), "it says what comes first"
    panel.list.columns.sort_by("created")
    app.window.palette_popup.findings("sort return")[0].act()
    assert names(panel) == ["run-3", "run-5", "run-1", "run-4", "run-2"]
    qtbot.waitUntil(panel.list.hasFocus)
    found = {one.text: one for one in app.window.palette_popup.findings("sort")}
    found["Sort the runs › Mean return"].act()
    assert names(panel) == ["run-2", "run-4", "run-1", "run-5", "run-3"], "once more turns it round"
    found["Sort the runs › Name"].act()
    assert names(panel) == ["run-1", "run-2", "run-3", "run-4", "run-5"]


def test_what_is_not_ticked_in_the_chooser_is_a_box_that_can_be_seen(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app, panel = filled(make_cockpit)
    panel._show_columns()
    qtbot.keyClicks(panel.chooser.query, "learning")
    row = next(item for item in panel.chooser._items() if not item.isHidden())
    picture = panel.chooser.list.grab().copy(panel.chooser.list.visualItemRect(row)).toImage()
    edge = app.window.cockpit.themes.theme.colour("strong_border").rgb()
    seen = [picture.pixel(x, y) for x in range(30) for y in range(picture.height())]
    assert seen.count(edge) > 20
    panel.chooser.hide()


def test_the_steps_of_a_usual_training_are_read_whole(make_cockpit: MakeCockpit) -> None:
    _, panel = filled(make_cockpit)
    width = panel.list.columnWidth(panel.table.number_of("steps"))
    assert panel.list.fontMetrics().horizontalAdvance("205,820 / 500,000") + 16 <= width
