"""Steps and episodes in the cockpit, over the telemetry lane of a real daemon."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path

from PyQt6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from gym_gui.services.play_sessions import SessionWish
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.play.actors import HUMAN, POLICY
from gym_gui.ui.play.episodes_panel import EpisodesPanel
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.sessions import LiveSessions
from gym_gui.ui.play.steps_ring import MOST_ROWS
from gym_gui.ui.play.steps_tab import StepsTab
from gym_gui.ui.presenters.workers.registry import PresenterRegistry
from gym_gui.ui.workers.catalog import Catalog
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import End, Hello, State
from mosaic_protocol.worker_manifest import discover

FLOOD = {"total_timesteps": 10_000_000, "record": 400, "step_seconds": 0.01, "metrics": False}
"""Forty thousand steps a second, as far as the machine can."""


def opened(make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, run_id: str) -> tuple[CockpitApp, StepsTab]:
    cockpit = make_cockpit(daemon)
    tab = StepsTab(cockpit.window.cockpit, run_id)
    qtbot.addWidget(tab)
    tab.resize(360, 700)
    tab.show()
    return cockpit, tab


def test_the_newest_steps_stand_on_top_and_a_finished_run_is_read_to_its_end(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    run_id = daemon.submit(total_timesteps=4, record=300, step_seconds=0.01)
    daemon.wait_over(run_id)
    _, tab = opened(make_cockpit, daemon, qtbot, run_id)
    qtbot.waitUntil(lambda: tab.badge.word == "recorded" and tab.table.rowCount() == MOST_ROWS, timeout=HANG)
    assert [tab.table.row_at(place).step for place in range(3)] == [1199, 1198, 1197]
    assert tab.missed == 0 and tab.table.row_at(0).number is not None
    assert tab.table.data(tab.table.index(0, 0)) == str(tab.table.row_at(0).number)
    assert tab.curve.points, "the return of its last episode"
    tab.close_tab()


def test_a_flood_starves_the_table_honestly_and_never_the_window(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    run_id = daemon.submit(**FLOOD)
    _, tab = opened(make_cockpit, daemon, qtbot, run_id)
    beats: list[float] = []
    heart = QTimer(tab)
    heart.timeout.connect(lambda: beats.append(time.thread_time()))
    heart.start(20)
    qtbot.waitUntil(lambda: tab.missed > 10_000, timeout=HANG)
    qtbot.waitUntil(lambda: re.fullmatch(r"(STARVED|RESUMED) · .* missed", tab.badge.word) is not None, timeout=HANG)
    assert len(tab.ring.rows) <= MOST_ROWS and tab.table.rowCount() <= MOST_ROWS
    newest = tab.ring.rows[-1].step
    qtbot.waitUntil(lambda: tab.ring.rows[-1].step > newest + 10_000, timeout=HANG)
    steps = [row.step for row in tab.ring.rows]
    assert steps == sorted(set(steps)), "thinned, and never doubled or out of order"
    # What the GUI's own thread worked between two beats; the rest is the machine being busy with others.
    assert max(later - earlier for earlier, later in pairwise(beats)) < 2
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: tab.badge.word.startswith("recorded"), timeout=HANG)
    stored = [step.step for step in daemon.client.steps(run_id, tail=MOST_ROWS)]
    assert [row.step for row in tab.ring.rows] == stored, "once there is time nothing is left out"


def test_the_daemon_may_go_and_come_back(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=20, record=10, step_seconds=0.01, gate=str(gate), gate_at=10)
    _, tab = opened(make_cockpit, daemon, qtbot, run_id)
    qtbot.waitUntil(lambda: tab.ring.taken > 0, timeout=HANG)
    daemon.kill()
    qtbot.waitUntil(lambda: tab.badge.word == "daemon away", timeout=HANG)
    daemon.start()
    gate.touch()
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: tab.badge.word == "recorded", timeout=HANG)
    assert [row.step for row in tab.ring.rows] == list(range(200))
    tab.hide()
    assert tab._feed is None


def test_a_session_brings_names_opinions_and_returns_to_its_steps(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=2, record=5, step_seconds=0.01, gate=str(gate), gate_at=1)
    cockpit, tab = opened(make_cockpit, daemon, qtbot, run_id)
    session = LiveSession(tmp_path / "nowhere", run_id, parent=cockpit.window)
    LiveSessions.of(cockpit.window.cockpit.bridge).add(session)
    hello = Hello("Game-v0", "other", KeyMap(), True, 4.0, action_names=("jump", "duck"))
    session.hello_message = hello
    session.hello.emit(hello)
    state = State(step=3, total=2.5, actor=HUMAN, prefers="duck", advice=(0.25, 0.75), advice_kind="probability")
    state = State(**{**{name: getattr(state, name) for name in state.__struct_fields__}, "advisor": "/x/ppo-7"})
    session.state = state
    session.state_changed.emit(state)
    assert tab.advice.isVisible() and tab.advice.title.text() == "What ppo-7 would do"
    assert [bar.number for bar in tab.advice.bars.bars] == ["0.25", "0.75"]
    assert tab.curve.points == [(3, 2.5, HUMAN)]
    session.state_changed.emit(State(step=4, total=3.5, actor=POLICY))
    assert not tab.advice.isVisible() and tab.curve.points[-1] == (4, 3.5, POLICY)
    gate.touch()
    daemon.wait_over(run_id)
    tab.close_tab()
    session.close()


# ---- where it is found -------------------------------------------------------------------------------------------


def test_a_run_of_any_worker_has_the_tab_once_it_recorded_a_step(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    without = daemon.submit(total_timesteps=1, step_seconds=0.001)
    daemon.wait_over(without)
    later = daemon.submit(total_timesteps=20, record=10, step_seconds=0.01, gate=str(gate), gate_at=1)
    registry = PresenterRegistry()
    part = Part("run", "Run", Place.RIGHT, lambda cockpit: RunTabs(cockpit, registry.tabs_by(Catalog)))
    cockpit = make_cockpit(daemon, [part])
    context, tabs = cockpit.window.cockpit, cockpit.window.findChild(RunTabs)
    assert tabs is not None

    def titles() -> list[str]:
        return [tabs.tabs.tabText(number) for number in range(tabs.tabs.count())]

    qtbot.waitUntil(lambda: context.runs.get(later) is not None, timeout=HANG)
    context.selection.select([without])
    assert titles() and "Steps" not in titles()
    gate.touch()
    context.selection.select([later])
    qtbot.waitUntil(lambda: "Steps" in titles(), timeout=HANG)
    tabs.show_tab("steps")
    assert tabs.findChild(StepsTab) is not None
    daemon.wait_over(later)
    context.selection.select([without])
    assert "Steps" not in titles()


def test_episodes_are_listed_and_one_can_be_asked_for(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    run_id = daemon.submit(total_timesteps=4, record=50, step_seconds=0.01)
    daemon.wait_over(run_id)
    cockpit = make_cockpit(daemon, [Part("episodes", "Episodes", Place.BOTTOM, EpisodesPanel)])
    panel = cockpit.window.findChild(EpisodesPanel)
    assert panel is not None
    assert panel.empty.title.text() == "No run is selected"
    context = cockpit.window.cockpit
    qtbot.waitUntil(lambda: context.runs.get(run_id) is not None, timeout=HANG)
    context.selection.select([run_id])
    stored = list(daemon.client.episodes(run_id))
    qtbot.waitUntil(lambda: panel.table.rowCount() == len(stored) > 3, timeout=HANG)
    newest = panel.table.row_at(0)
    assert newest is not None and newest.episode == stored[-1].episode and newest.steps == stored[-1].length
    qtbot.waitUntil(lambda: panel.table.stripe_at(0) is not None, timeout=HANG)
    stripe = panel.table.stripe_at(0)
    assert stripe is not None and stripe.steps == newest.steps
    with qtbot.waitSignal(panel.replay_wanted, timeout=HANG) as asked:
        panel.view.doubleClicked.emit(panel.table.index(1, 0))
    assert asked.args == [run_id, stored[-2].episode]


def test_a_session_is_followed_step_by_step_and_episode_by_episode(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    wish = SessionWish("CartPole-v1", actor="random", params={"speed": 2.0})
    run_id = daemon.client.submit(wish.request(discover().workers["play"]).config()).run.run_id
    cockpit = make_cockpit(daemon, [Part("episodes", "Episodes", Place.BOTTOM, EpisodesPanel)])
    context, panel = cockpit.window.cockpit, cockpit.window.findChild(EpisodesPanel)
    assert panel is not None
    session = LiveSession(daemon.paths.run(run_id).directory, run_id, parent=cockpit.window)
    LiveSessions.of(context.bridge).add(session)
    qtbot.waitUntil(lambda: context.runs.get(run_id) is not None, timeout=HANG)
    context.selection.select([run_id])

    def playing() -> bool:
        row = panel.table.row_at(0)
        return row is not None and row.playing

    qtbot.waitUntil(lambda: panel.table.rowCount() > 1 and playing(), timeout=HANG)
    tab = StepsTab(context, run_id)
    qtbot.addWidget(tab)
    tab.show()
    qtbot.waitUntil(lambda: tab.table.rowCount() > 20 and session.state.episodes > 1, timeout=HANG)
    assert {row.actor for row in tab.ring.rows} == {"random"}
    assert {tab.table.data(tab.table.index(place, 2)) for place in range(10)} <= {"push left", "push right"}
    assert tab.badge.word == "live · 0 missed"
    session.send(End())
    qtbot.waitUntil(lambda: tab.badge.word == "recorded" and not playing(), timeout=HANG)
    over = panel.table.row_at(0)
    assert over is not None and over.said.word == "fell"
    qtbot.waitUntil(lambda: panel.table.stripe_at(0) is not None, timeout=HANG)
    stripe = panel.table.stripe_at(0)
    assert stripe is not None and stripe.pieces == [("random", over.steps)]
    tab.close_tab()
    session.close()


def test_episodes_of_another_run_take_the_place_of_the_first(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    first = daemon.submit(total_timesteps=2, record=50, step_seconds=0.01)
    second = daemon.submit(total_timesteps=2, step_seconds=0.01)
    for run_id in (first, second):
        daemon.wait_over(run_id)
    cockpit = make_cockpit(daemon, [Part("episodes", "Episodes", Place.BOTTOM, EpisodesPanel)])
    panel, context = cockpit.window.findChild(EpisodesPanel), cockpit.window.cockpit
    assert panel is not None
    qtbot.waitUntil(lambda: context.runs.get(second) is not None, timeout=HANG)
    for others, told in (([second], "No episode yet"), ([], "No run is selected")):
        context.selection.select([first])
        qtbot.waitUntil(lambda: panel.table.rowCount() > 0, timeout=HANG)
        context.selection.select(others)
        assert panel.table.rowCount() == 0 and panel.empty.title.text() == told


def test_a_session_brings_its_steps_to_the_front(make_cockpit: MakeCockpit, qtbot: QtBot, tmp_path: Path) -> None:
    window = make_cockpit(parts=None).window
    window.resize(1280, 800)
    dock = window.docks["run"]
    qtbot.waitUntil(lambda: not window.docks["metrics"].visibleRegion().isEmpty(), timeout=HANG)
    assert dock.visibleRegion().isEmpty()
    session = LiveSession(tmp_path / "nowhere", "a-run", parent=window)
    LiveSessions.of(window.cockpit.bridge).add(session)
    qtbot.waitUntil(lambda: not dock.visibleRegion().isEmpty(), timeout=HANG)
    session.close()
