"""Expressions in the filter above the runs, and what differs between the selected ones on the stage."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from gym_gui.services.run_diff import compared
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.test_runs_panel import PARTS, names, panel_of
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.run_differences import RunDifferences
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.widgets.run_filters import RunFilters
from gym_gui.ui.widgets.value_chips import FILLED, OUTLINED, chip_of

HANG = 60_000
STAGE = [Part("stage", "Stage", Place.STAGE, Stage)]


def labelled(number: int, **fields: Any) -> Any:
    settings = {"seed": number, "extras": {"algo_params": {"learning_rate": 10.0**-number}}}
    config = {"metadata": {"worker": {"config": settings}}}
    return made(number, config=config, tags=["odd" if number % 2 else "even"], **fields)


def filled(make_cockpit: MakeCockpit) -> CockpitApp:
    app = make_cockpit(None, PARTS)
    app.window.cockpit.runs.take([labelled(number) for number in range(1, 6)])
    return app


# ---- the filter --------------------------------------------------------------------------------------------------


def test_an_expression_filters_and_plain_words_still_do(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = panel_of(filled(make_cockpit))
    qtbot.keyClicks(panel.filters.text, "tag=odd lr<1e-2")
    qtbot.waitUntil(lambda: sorted(names(panel)) == ["run-3", "run-5"], timeout=HANG)
    assert not panel.filters.problem.isVisible() and panel.filters.is_narrow
    panel.filters.text.clear()
    qtbot.keyClicks(panel.filters.text, "run-4")
    qtbot.waitUntil(lambda: names(panel) == ["run-4"], timeout=HANG)
    panel.filters.clear()
    assert len(names(panel)) == 5


def test_a_run_comes_and_goes_with_what_an_expression_asks(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = filled(make_cockpit)
    panel = panel_of(app)
    panel.filters.text.setText("state=running seed<3")
    qtbot.waitUntil(lambda: sorted(names(panel)) == ["run-1", "run-2"], timeout=HANG)
    app.window.cockpit.runs.take([labelled(2, state="TERM", outcome="completed"), labelled(0)])
    qtbot.waitUntil(lambda: sorted(names(panel)) == ["run-0", "run-1"], timeout=HANG)


def test_a_mistake_is_shown_below_and_the_last_filter_stays(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = panel_of(filled(make_cockpit))
    problem = panel.filters.problem
    for text, words in (
        ("tag=odd seed<", "needs a value"),
        ("tag=odd learnin_rate<1", "did you mean 'learning_rate'?"),
    ):
        panel.filters.text.setText("tag=odd")
        qtbot.waitUntil(lambda: len(names(panel)) == 3 and not problem.isVisible(), timeout=HANG)
        panel.filters.text.setText(text)
        qtbot.waitUntil(lambda words=words: problem.isVisible() and words in problem.text(), timeout=HANG)
        assert len(names(panel)) == 3
        assert words in panel.filters.text.accessibleDescription()
    assert problem.y() >= panel.bar.geometry().bottom()


def test_an_expression_is_remembered(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = filled(make_cockpit)
    panel_of(app).filters.text.setText("tag=even")
    qtbot.waitUntil(lambda: len(names(panel_of(app))) == 2, timeout=HANG)
    again = RunFilters(app.window.cockpit)
    qtbot.addWidget(again)
    assert again.wanted.text == "tag=even"


# ---- differences -------------------------------------------------------------------------------------------------


def shown(differences: RunDifferences) -> dict[str, list[str]]:
    """What the table says, by name."""
    found = {}
    for section in range(differences.list.topLevelItemCount()):
        head = differences.list.topLevelItem(section)
        assert head is not None
        for number in range(head.childCount()):
            item = head.child(number)
            assert item is not None
            found[item.text(0)] = [item.text(column) for column in range(2, 2 + len(differences._runs))]
    return found


def test_what_differs_between_selected_runs_is_shown_and_copied(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    runs = [daemon.submit(name=f"run {seed}", seed=seed, total_timesteps=10 * seed) for seed in (1, 2)]
    for run_id in runs:
        daemon.wait_over(run_id)
    cockpit = make_cockpit(daemon, STAGE)
    context = cockpit.window.cockpit
    stage = cockpit.window.findChild(Stage)
    assert stage is not None
    qtbot.waitUntil(lambda: len(context.runs) == 2, timeout=HANG)
    compare = context.commands.action("compare-settings")
    context.selection.select(runs[:1])
    assert not compare.isEnabled() and "two runs" in compare.toolTip()
    context.selection.select(runs)
    differences = stage.compared.differences
    assert not differences.isVisible()
    compare.trigger()
    qtbot.waitUntil(lambda: shown(differences).get("seed") == ["1", "2"], timeout=HANG)
    assert differences.isVisible() and not stage.compared.plot.isVisible()
    header = differences.list.headerItem()
    assert header is not None and [header.text(column) for column in (2, 3, 4)] == ["A · run 1", "B · run 2", "B − A"]
    for width in (1600, 1250):
        cockpit.window.resize(width, 900)
        columns = differences.list.header()
        qtbot.waitUntil(lambda width=width: differences.width() in range(width - 100, width + 1), timeout=HANG)
        assert columns is not None and columns.length() <= columns.width(), "the last column is not cut off"
    assert shown(differences)["steps"] == ["10", "20"] and "host" not in shown(differences)
    differences.only.setChecked(False)
    assert len(set(shown(differences)["host"])) == 1
    differences.only.setChecked(True)
    differences.list.setFocus()
    qtbot.keyClick(differences.list, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    clipboard = QGuiApplication.clipboard()
    assert clipboard is not None and "settings\tseed\t\t1\t2\n" in clipboard.text()
    head = differences.list.topLevelItem(0)
    assert head is not None
    line = head.child(0)
    assert line is not None
    differences.list.setCurrentItem(line)
    qtbot.keyClick(differences.list, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard.text().count("\n") == 1 and clipboard.text().startswith(line.text(0))
    stage.compared.views.choose("curves")
    assert stage.compared.plot.isVisible() and not differences.isVisible()


def test_differences_follow_what_is_selected(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(None, STAGE)
    context = cockpit.window.cockpit
    stage = cockpit.window.findChild(Stage)
    assert stage is not None
    cockpit.bridge._timer.start()
    context.runs.take([labelled(number) for number in range(1, 4)])
    ids = [f"{number:026d}" for number in range(1, 4)]
    context.selection.select(ids[:2])
    stage.compared.compare_settings()
    differences = stage.compared.differences
    qtbot.waitUntil(lambda: shown(differences).get("learning_rate") == ["0.1", "0.01"], timeout=HANG)
    context.selection.select(ids)
    qtbot.waitUntil(lambda: shown(differences).get("seed") == ["1", "2", "3"], timeout=HANG)
    differences.search.setFixedWidth(90)
    qtbot.waitUntil(lambda: differences.search.placeholderText() == "Find")
    assert differences.search.accessibleName() == "Find a setting"


def test_lines_are_found_folded_and_marked_as_changed_or_default(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(None, STAGE)
    context = cockpit.window.cockpit
    stage = cockpit.window.findChild(Stage)
    assert stage is not None
    context.runs.take([labelled(1), labelled(2)])
    context.selection.select([f"{number:026d}" for number in (1, 2)])
    stage.compared.compare_settings()
    differences = stage.compared.differences
    manifests = [{"defaults": {"learning_rate": 0.1, "gamma": 0.9}, "resolved": {"gamma": 0.9}}] * 2
    differences._take(compared(differences._runs, manifests))
    heads = [differences.list.topLevelItem(place) for place in range(differences.list.topLevelItemCount())]
    titles = {head.text(0): head.isExpanded() for head in heads if head is not None}
    assert titles["Different settings · 2"] and not titles["As the script has them · 1"]
    (rate,) = differences.list.findItems("learning_rate", Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchRecursive)
    assert [chip_of(rate, column) for column in (2, 3)] == [OUTLINED, FILLED]
    assert [rate.text(column) for column in (1, 4)] == ["0.1", "× 0.1"]
    qtbot.keyClicks(differences.search, "gam")
    assert list(shown(differences)) == ["gamma"]
    qtbot.keyClicks(differences.search, "x")
    assert shown(differences) == {} and "Nothing here" in differences.note.text()


def test_one_run_is_launched_with_the_settings_of_another(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit = make_cockpit(None, PARTS)
    context = cockpit.window.cockpit
    context.runs.take([labelled(1, env_id="A"), labelled(2), labelled(3, algo="dqn")])
    ids = [f"{number:026d}" for number in range(1, 4)]
    borrow, actions = context.commands.action("run-borrow"), panel_of(cockpit).actions_on_runs
    context.selection.select(ids[:1])
    assert not borrow.isEnabled() and "Select two runs." in borrow.toolTip()
    context.selection.select([ids[0], ids[2]])
    assert not borrow.isEnabled() and "different algorithms" in borrow.toolTip()
    context.selection.select(ids[:2])
    with qtbot.waitSignal(actions.duplicate_requested) as asked:
        borrow.trigger()
    settings = asked.args[0]["metadata"]["worker"]["config"]
    assert (settings["seed"], settings["params"]["learning_rate"]) == (1, 0.01)
    context.commands.action("run-swap").trigger()
    assert context.selection.ids == [ids[1], ids[0]]
