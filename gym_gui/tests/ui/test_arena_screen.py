"""The Arena screen: an arena on the stage, its measures and seeds, and what is said where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from gym_gui.services.arena.model import Arena, Entry, Kind
from gym_gui.services.arena.played import new_part
from gym_gui.services.arena.standings import Measure
from gym_gui.services.arena.store import ArenaStore
from gym_gui.services.replay.open_replay import Gone, OpenReplay
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.arena.arenas_panel import ArenasPanel
from gym_gui.ui.arena.matrix import shown_chance
from gym_gui.ui.arena.screen import ArenaScreen
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from mosaic_protocol.steps.recordings import RUN, Recording
from mosaic_worker.recording.step_recorder import StepRecorder

HANG = 60_000
ENTRIES = (
    Entry("optimal", "Optimal", Kind.BASELINE, "optimal", "value iteration"),
    Entry("random", "Random", Kind.BASELINE, "random", "uniform"),
)


class Opened:
    """A window whose player stays hidden, so that no episode is simulated."""

    def __init__(self, make_cockpit: MakeCockpit) -> None:
        screens: list[ArenaScreen] = []

        def stage(cockpit: Cockpit) -> Stage:
            made = Stage(cockpit)
            screens.append(ArenaScreen(cockpit, made))
            return made

        parts = [
            Part("stage", "Stage", Place.STAGE, stage),
            Part("arenas", "Arena", Place.BOTTOM, lambda _: screens[0].make_panel()),
        ]
        app = make_cockpit(None, parts)
        self.cockpit = app.window.cockpit
        app.bridge.start()
        self.screen = screens[0]
        self.screen.page.side_by_side.hide()
        self.panel = app.window.findChild(ArenasPanel)
        self.stage = app.window.findChild(Stage)
        self.store = ArenaStore(self.cockpit.bridge.paths)

    def make_arena(self, returns: dict[str, list[float]]) -> None:
        seeds = tuple(range(max(len(values) for values in returns.values())))
        arena = Arena("lake", "FrozenLake-v1", {}, seeds, 1.0, {}, ENTRIES)
        self.store.save(arena)
        for entry in ENTRIES:
            place = new_part(self.store.folder(arena, entry))
            recorder = StepRecorder(Recording.new(place, {"kind": RUN, "worker": "play"}).folder)
            lane = recorder.lane(actor="policy")
            for seed, value in enumerate(returns[entry.key]):
                lane.begin_episode(seed)
                lane.append(0, 1, value, terminated=True, final_observation=1)
            recorder.close()


@pytest.fixture
def opened(make_cockpit: MakeCockpit) -> Opened:
    return Opened(make_cockpit)


def test_an_arena_on_the_stage_tells_how_it_stands(opened: Opened, qtbot: QtBot) -> None:
    opened.make_arena({"optimal": [1.0, 1.0, 0.0], "random": [0.0, 1.0]})
    opened.screen.open("lake")
    desk, page = opened.screen.desk, opened.screen.page
    qtbot.waitUntil(lambda: desk.standings is not None, timeout=HANG)
    assert opened.stage.over is page
    assert page.name.text() == "2 entries on the same 3 seeds" and page.badge.word == "not complete"
    assert "Random played 2 of 3 seeds; missing are 2" in page.notes.text()
    assert "Optimal over Random: 0.75" in page.matrix.accessibleDescription()
    assert desk.seed == 0
    opened.cockpit.commands.action("arena-previous-seed").trigger()
    assert desk.seed == 2, "the seeds go round"
    desk.use_measure(Measure.GAP)
    qtbot.waitUntil(lambda: desk.standings is not None and desk.standings.measure is Measure.GAP, timeout=HANG)
    opened.screen.close()
    assert opened.stage.over is None and not opened.cockpit.commands.action("arena-close").isEnabled()


def test_a_picture_that_is_not_there_yet_says_so_and_one_that_never_comes_why(
    opened: Opened, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes: list[Callable[[Gone], None]] = []

    def of_episode(*words: Any) -> Any:
        takes.append(words[-1])
        return SimpleNamespace(seek=lambda place: None, close=lambda: None)

    monkeypatch.setattr(OpenReplay, "of_episode", of_episode)
    opened.make_arena({"optimal": [1.0], "random": [0.0]})
    side = opened.screen.page.side_by_side
    side.show()
    opened.screen.open("lake")
    qtbot.waitUntil(lambda: len(side.cells) == len(ENTRIES), timeout=HANG)
    assert {cell.view.words for cell in side.cells} == {"The environment is being started…"}
    takes[0](Gone("it cannot be simulated here"))
    qtbot.waitUntil(lambda: side.cells[0].end.text() == "it cannot be simulated here", timeout=HANG)
    assert [cell.view.words for cell in side.cells] == ["", "The environment is being started…"]


def test_the_line_that_begins_an_arena_is_whole_in_a_narrow_panel(opened: Opened) -> None:
    panel = opened.panel
    panel.setParent(None)
    panel.resize(515, 300)
    panel.show()
    measure = panel.env_id.fontMetrics().horizontalAdvance
    assert panel.width() == 515, "it needs no more"
    assert measure(panel.env_id.text()) + 16 <= panel.env_id.width() and panel.env_id.cursorPosition() == 0
    assert panel.entries.placeholderText() == "optimal random"
    assert measure(panel.entries.placeholderText()) + 8 <= panel.entries.width()
    panel.resize(900, 300)
    assert panel.entries.placeholderText() == "optimal random RUN steps:RUN"
    panel.close()
    panel.deleteLater()


def test_without_an_arena_the_panel_says_what_to_do(opened: Opened, qtbot: QtBot) -> None:
    with qtbot.waitSignal(opened.screen.desk.listed, timeout=HANG):
        opened.screen.desk.look_for_arenas()
    assert opened.panel.pages.currentWidget() is opened.panel.empty
    opened.panel.begin.click()
    assert opened.panel.told.text().startswith("Say who plays")


def test_the_list_goes_on_while_somebody_looks_at_it_and_keeps_their_place(
    opened: Opened, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = opened.panel.list

    def see(*expected: list[str]) -> None:
        """A look that was begun before may be answered first."""
        opened.panel._later.timeout.emit()
        qtbot.waitUntil(lambda: shown() == list(expected), timeout=HANG)

    def shown() -> list[list[str]]:
        items = [rows.topLevelItem(number) for number in range(rows.topLevelItemCount())]
        return [[item.text(0), item.text(4)] for item in items if item is not None]

    created = 1_700_000_000.0
    monkeypatch.setattr(time, "time", lambda: created + 90)
    for number, name in enumerate(("one", "two", "three")):
        opened.store.save(Arena(name, "FrozenLake-v1", {}, (number,), created - number, {}, ENTRIES))
    see(["one", "1m ago"], ["two", "1m ago"], ["three", "1m ago"])
    assert opened.panel._later.isActive()
    rows.setCurrentItem(rows.topLevelItem(1))
    monkeypatch.setattr(time, "time", lambda: created + 7300)
    see(["one", "2h ago"], ["two", "2h ago"], ["three", "2h ago"])
    chosen = rows.currentItem()
    assert chosen is rows.topLevelItem(1), "the row itself stays: it is not made again"
    opened.store.save(Arena("new", "FrozenLake-v1", {}, (9,), created + 7200, {}, ENTRIES))
    see(["new", "1m ago"], ["one", "2h ago"], ["two", "2h ago"], ["three", "2h ago"])
    chosen = rows.currentItem()
    assert chosen is not None and chosen.text(0) == "two"


def test_seeds_that_make_no_sense_are_told_where_they_were_typed(opened: Opened, qtbot: QtBot) -> None:
    opened.panel.seeds.setText("0-4,4")
    opened.panel.entries.setText("random")
    opened.panel.begin.click()
    qtbot.waitUntil(lambda: "seed 4 is named twice" in opened.panel.told.text(), timeout=HANG)
    assert opened.panel.begin.isEnabled() and not opened.store.names()


def test_a_chance_has_two_digits() -> None:
    assert [shown_chance(value) for value in (0.0, 0.126, 0.5, 1.0)] == ["0", ".13", ".50", "1"]
