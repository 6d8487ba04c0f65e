"""The mind inspector of a replay, on recordings: what the agent believed at the step under the scrubber."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.replay.screen import ReplayScreen
from mosaic_protocol.mind import MIND, Belief, Considered, Intention, MindRecord, Said
from mosaic_protocol.steps.recordings import RUN, Recording
from mosaic_worker.recording.step_recorder import StepRecorder

ABOUT = {"kind": RUN, "worker": "nobody has it", "env_id": "FrozenLake-v1", "run_name": "bdi"}
WHOLE = MindRecord(
    whole=True,
    plan="explore",
    goal="episode",
    confidence=0.25,
    added=[Belief("slippery", (), "person"), Belief("at", (0,), "percept")],
    intentions=[
        Intention("learn", "keep_learning", "!!learn"),
        Intention("episode", "explore", ".run_episode(explore)"),
    ],
    considered=[Considered("reuse", "policy(cached)", "policy(cached) is not believed"), Considered("explore")],
    messages=[Said("in", "person", "tell", "slippery")],
)


def record(folder: Path) -> None:
    """An episode with a mind at three of its five steps, and one of a worker without beliefs."""
    minds = {
        0: WHOLE,
        2: MindRecord(added=[Belief("at", (4,), "percept")], removed=[Belief("at", (0,), "percept")]),
        3: MindRecord(plan="exploit", confidence=0.75, values=[0.1, 0.9, 0.1, 0.0]),
    }
    with closing(StepRecorder(Recording.new(folder, ABOUT).folder)) as recorder:
        lane = recorder.lane("learner", "agent")
        for number in range(2):
            lane.begin_episode(number)
            for place in range(5):
                extras = {MIND: minds[place].to_extra()} if number == 0 and place in minds else None
                lane.append(place, 1, 0.0, place == 4, extras=extras, final_observation=place + 1)


@pytest.fixture
def screen(make_cockpit: MakeCockpit, tmp_path: Path) -> ReplayScreen:
    made: list[ReplayScreen] = []

    def stage(cockpit: Cockpit) -> Stage:
        found = Stage(cockpit)
        made.append(ReplayScreen(cockpit, found))
        return found

    parts = [Part("stage", "Stage", Place.STAGE, stage), Part("run", "Run", Place.RIGHT, lambda cockpit: QWidget())]
    cockpit = make_cockpit(parts=parts)
    cockpit.bridge._timer.start()  # answers of threads are handed on, as in a window that is connected
    cockpit.window.resize(1280, 800)
    record(tmp_path / "recording")
    return made[0]


def test_the_mind_is_read_at_the_step_under_the_scrubber(screen: ReplayScreen, qtbot: QtBot, tmp_path: Path) -> None:
    screen.open_folder(tmp_path / "recording", 0)
    pane, mind, desk = screen.pane, screen.pane.mind, screen.desk
    qtbot.waitUntil(lambda: len(mind.minds) == 3, timeout=HANG)
    assert pane.isVisible() and pane.front.isVisible() and pane.pages.currentWidget() is mind
    assert mind.plan.text() == "explore for episode" and mind.confidence.confidence == 0.25
    assert [one.title for one in mind.intentions.list.entries] == ["explore", "keep_learning"]
    assert mind.why.list.entries[1].text == "policy(cached) is not believed"
    assert [one.title for one in mind.messages.list.entries] == ["← you"]
    held = lambda: [(row.mark, row.name, row.value) for row in mind.beliefs.table.rows]  # noqa: E731
    assert held() == [("", "at", "0"), ("", "slippery", "")]
    desk.seek(1)
    assert held() == [("", "at", "0"), ("", "slippery", "")] and mind.since.text() == "recorded at step 0"
    desk.seek(2)
    assert held() == [("−", "at", "0"), ("+", "at", "4"), ("", "slippery", "")] and mind.since.text() == ""
    desk.seek(3)
    assert mind.plan.text() == "exploit for episode"
    assert [(row.name, row.text) for row in mind.values.rows if row.strong] == [("down", ".90")]
    desk.seek(0)
    assert mind.confidence.confidence == 0.25, "back in time, too"
    pane.front.buttons["step"].setFocus()
    qtbot.keyClick(pane.front.buttons["step"], Qt.Key.Key_Space)
    assert pane.pages.currentWidget() is pane.step
    assert MIND not in {row.name for row in pane.step.extras.rows}, "it is not told twice"


def test_an_episode_without_a_mind_has_its_steps_alone(screen: ReplayScreen, qtbot: QtBot, tmp_path: Path) -> None:
    screen.open_folder(tmp_path / "recording", 1)
    qtbot.waitUntil(lambda: screen.desk.current is not None and screen.desk.current.record is not None, timeout=HANG)
    assert not screen.pane.front.isVisible() and screen.pane.pages.currentWidget() is screen.pane.step


def test_a_mind_that_cannot_be_put_together_says_why(screen: ReplayScreen, qtbot: QtBot, tmp_path: Path) -> None:
    with closing(StepRecorder(Recording.new(tmp_path / "broken", ABOUT).folder)) as recorder:
        lane = recorder.lane("learner", "agent")
        lane.begin_episode(0)
        lane.append(0, 1, 0.0, True, extras={MIND: {"plan": 5}}, final_observation=1)
    screen.open_folder(tmp_path / "broken")
    qtbot.waitUntil(lambda: bool(screen.pane.mind.problem), timeout=HANG)
    assert "cannot be put together" in screen.pane.mind.empty.text.text()
