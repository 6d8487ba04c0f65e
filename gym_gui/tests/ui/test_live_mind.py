"""The mind of a run that trains, on the stage and in its tab, against agents who think in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from PyQt6.QtCore import QEvent, QSize, Qt
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.thinking_agent import thinking
from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.commands import Command
from gym_gui.ui.mind.mind_feed import EpisodesShown, MindFeeds
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.presenters.workers.registry import default_presenters
from gym_gui.ui.presenters.workers.spade_bdi import SpadeBdiWorkerPresenter
from gym_gui.ui.tab_order import stops
from gym_gui.ui.workers.spade_bdi.mind_stage import MindStage
from gym_gui.ui.workers.spade_bdi.mind_tab import MindTab
from mosaic_protocol.proto import trainer_pb2 as pb

RUN_ID = "01K9ZQ3V7X0000000000000000"
WORKER = "spade_bdi_rl_worker"


def a_run(**changes: Any) -> pb.Run:
    fields = {"run_id": RUN_ID, "name": "bdi", "state": "EXEC", "algo": "q_learning", "env_id": "FrozenLake-v1"}
    return pb.Run(**{**fields, "worker_type": WORKER, "seed": 2, **changes})


class Thinking:
    """A cockpit with the stage and the tabs of a run, whose agents think beside it."""

    def __init__(self, cockpit: CockpitApp) -> None:
        self.cockpit, self.context = cockpit, cockpit.window.cockpit
        stage = cockpit.window.findChild(Stage)
        assert stage is not None
        self.stage = stage
        self._process = ExitStack()

    def begin(self, *options: str) -> None:
        folder = self.context.bridge.paths.run(RUN_ID).directory
        self._process.enter_context(thinking(folder, "--episodes", "900", *options))
        self.context.runs.take([a_run()])
        self.context.selection.select([RUN_ID])

    def end(self) -> None:
        self._process.close()

    @property
    def page(self) -> MindStage:
        assert isinstance(self.stage.own, MindStage)
        return self.stage.own

    @property
    def tab(self) -> MindTab:
        found = self.cockpit.window.findChild(MindTab)
        assert found is not None
        return found


@pytest.fixture
def mind(make_cockpit: MakeCockpit) -> Iterator[Thinking]:
    presenters = default_presenters()
    presenter = presenters.presenter_for(WORKER)
    assert isinstance(presenter, SpadeBdiWorkerPresenter)
    parts = [
        Part("stage", "Stage", Place.STAGE, lambda cockpit: Stage(cockpit, presenters.stage_view_for)),
        Part("run", "Run", Place.RIGHT, lambda cockpit: RunTabs(cockpit, lambda run: presenter.bootstrap_live_tabs())),
    ]
    cockpit = make_cockpit(parts=parts)
    cockpit.window.resize(1280, 800)
    cockpit.window.cockpit.commands.add(Command("run-pause", "Pause", "Run"), lambda: None)
    made = Thinking(cockpit)
    yield made
    made.end()


def test_a_running_mind_is_shown_as_it_changes_and_can_be_told_something(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin()
    qtbot.waitUntil(lambda: mind.page.feed.agent is not None, timeout=HANG)
    page, tab = mind.page, mind.tab
    assert mind.stage.pages.currentWidget() is page and tab.feed is page.feed
    grid = page.values.grid
    assert grid is not None and grid.cells[14].best == ("right",) and page.values.span.high > 0.5
    assert "ε" in page.about.text() and page.confidence.confidence > 0.6
    assert [one.title for one in page.intentions.list.entries] == ["exploit", "keep_learning"]
    assert [one.plan for one in page.strip.spans] == ["explore", "exploit"]
    assert [one.aside for one in tab.why.list.entries] == ["chosen", "", ""]
    assert "policy(cached) is not believed" in tab.why.list.entries[1].text
    assert tab.badge.word == "live · 0 missed" and not tab.which.isVisible()
    # A belief that a person tells is believed, recorded as a message, and marked as new.
    tab.tell_row.field.setFocus()
    qtbot.keyClicks(tab.tell_row.field, "slippery")
    qtbot.keyClick(tab.tell_row.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "Heard: slippery" in tab.tell_row.said.text(), timeout=HANG)
    rows = {(row.mark, row.name, row.source) for row in tab.beliefs.table.rows}
    assert ("+", "slippery", "person") in rows and any(mark == "−" for mark, _, _ in rows)
    assert tab.messages.list.entries[0].title == "← you" and tab.tell_row.field.text() == ""
    # What is refused is said where it was typed, and stays there.
    qtbot.keyClicks(tab.tell_row.field, "Not a term!")
    tab.tell_row.button.click()
    qtbot.waitUntil(lambda: "is no term" in tab.tell_row.said.text(), timeout=HANG)
    assert tab.tell_row.said.text().endswith("such as rest(5)"), "without the caret, which needs a line of its own"
    assert tab.tell_row.said.property("role") == "error" and tab.tell_row.field.text() == "Not a term!"


def test_bars_without_room_for_a_heading_say_what_they_are(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin()
    qtbot.waitUntil(lambda: mind.page.feed.agent is not None, timeout=HANG)
    page, headings = mind.page, mind.page._headings
    for low, says in ((600, False), (240, True)):
        page.fit(QSize(690, low))
        assert [one.isVisibleTo(page) for one in headings] == [not says] * 2
        assert (page.scale.says_its_name, page.confidence.says_its_name) == (says, says)
        page.confidence.resize(230, 20)
        pictures = [page.confidence.grab().toImage()]
        page.confidence.say_its_name(not says)
        pictures.append(page.confidence.grab().toImage())
        assert pictures[0] != pictures[1], "the name is drawn"


def test_episodes_that_went_by_unseen_are_counted(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin("--fast")
    qtbot.waitUntil(lambda: mind.page.feed.missed > 40, timeout=HANG)
    assert mind.tab.badge.word == f"live · {mind.page.feed.missed:,} missed"
    assert "All are recorded" in mind.tab.badge.toolTip()
    counter = EpisodesShown()
    for episode in (5, 6, 6, 10):
        counter.take(episode)
    assert counter.missed == 3


def test_of_several_agents_one_is_looked_at_and_values_without_a_grid_are_a_table(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin("--agents", "learner", "scout", "--table")
    qtbot.waitUntil(lambda: mind.page.feed.agent is not None, timeout=HANG)
    page, tab = mind.page, mind.tab
    assert page.which.isVisible() and [tab.tell_row.to.itemText(n) for n in range(3)] == ["all", "learner", "scout"]
    assert page.values.grid is None and page.values.table is not None
    page.which.setFocus()
    qtbot.keyClick(page.which, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: tab.feed.chosen == "scout", timeout=HANG)
    assert tab.feed.agent is not None and tab.feed.agent.name == "scout" and tab.which.currentText() == "scout"
    tab.tell_row.to.setCurrentIndex(2)
    qtbot.keyClicks(tab.tell_row.field, "hole(5)")
    tab.tell_row.button.click()
    qtbot.waitUntil(lambda: len(tab.messages.list.entries) == 1, timeout=HANG)
    tab.feed.choose("learner")
    assert tab.messages.list.entries == [], "the other one was not told"


def test_everything_is_reached_by_keyboard_and_values_are_read_with_the_arrows(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin()
    qtbot.waitUntil(lambda: mind.page.feed.agent is not None, timeout=HANG)
    page, tab = mind.page, mind.tab
    reached = {*stops(page), *stops(tab)}
    assert {page.curves, page.values, page.intentions.list, page.strip} <= reached
    row = tab.tell_row
    assert {tab.beliefs.view, tab.beliefs.only_changes, tab.why.list, row.kind, row.field} <= reached
    for widget in (page.curves, page.scale, page.confidence, row.kind, row.field, row.button, tab.beliefs.only_changes):
        assert widget.toolTip()
    page.values.setFocus()
    page.values.point_at(14)
    qtbot.keyClick(page.values, Qt.Key.Key_Up)
    assert (
        page.reading.text().startswith("state 10 · left") and page.values.accessibleDescription() == page.reading.text()
    )
    qtbot.keyClick(page.values, Qt.Key.Key_Escape)
    assert page.values.pointed_state is None


def test_the_curves_are_one_press_away_and_the_end_of_a_run_is_said(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin()
    qtbot.waitUntil(lambda: mind.page.feed.agent is not None, timeout=HANG)
    feed = mind.page.feed
    mind.page.curves.click()
    assert mind.stage.pages.currentWidget() is mind.stage.headline and mind.stage.headline.own_view.text() == "Mind"
    mind.stage.headline.own_view.click()
    assert mind.stage.pages.currentWidget() is mind.page
    mind.context.runs.take([a_run(state="TERM", outcome="completed", reason="all steps are made")])
    qtbot.waitUntil(lambda: feed.ended == "all steps are made", timeout=HANG)
    assert mind.stage.pages.currentWidget() is mind.page, "what was seen last stays"
    assert mind.tab.badge.word == "over" and not mind.tab.tell_row.field.isEnabled()
    mind.context.selection.select([])
    assert mind.stage.own is None and not feed.is_live
    mind.context.selection.select([RUN_ID])
    assert mind.stage.pages.currentWidget() is mind.stage.headline, "a run that is over shows its curves"
    assert not mind.stage.headline.own_view.isVisible()
    mind.context.selection.select([])
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    mind.cockpit.themes.toggle()
    mind.context.commands.enable("run-pause", False, "there is no run")
    assert mind.cockpit.reporter.reports == [], "what is gone hears nothing of a change of look"


def test_nobody_is_connected_while_nobody_looks(mind: Thinking, qtbot: QtBot) -> None:
    mind.begin()
    qtbot.waitUntil(lambda: mind.page.feed.is_live, timeout=HANG)
    feed = MindFeeds.feed(mind.context, RUN_ID)
    assert feed is mind.page.feed
    mind.cockpit.window.hide()
    assert not feed.is_live
    mind.cockpit.window.show()
    qtbot.waitUntil(lambda: feed.is_live, timeout=HANG)


def test_the_cockpit_imports_no_interpreter_of_agents_and_no_torch() -> None:
    """agentspeak is under the GPL, and lives in the worker's process alone."""
    code = (
        "import sys; from gym_gui.ui.composition import Composition; Composition()\n"
        "assert 'gym_gui.ui.workers.spade_bdi.presenter' in sys.modules\n"
        "names = ('agentspeak', 'spade', 'spade_bdi', 'slixmpp', 'torch', 'spade_bdi_rl_worker')\n"
        "print([name for name in names if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=300)
    assert found.stdout.strip() == "[]", found.stderr
