"""Live sessions in the whole cockpit, all of it real: played by keys, shared with policies, joined again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PyQt6.QtCore import QEvent, Qt
from PyQt6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.trainer.client import RequestRefusedError
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.whole_window import OpenWhole, open_whole, part, train_dock  # noqa: F401 - a fixture
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.checkpoint_browser import CheckpointBrowser
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.stage_headline import RunHeadline
from gym_gui.ui.play.desk import PlayDesk
from gym_gui.ui.play.play_panel import PlayPanel
from gym_gui.ui.widgets.snackbar import Snackbar
from mosaic_protocol.checkpoint_manifest import TENSOR_FILE
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import State
from mosaic_worker.tests.policies.toys import new_checkpoint
from play_worker.tests.dropped import dropped_policies

pytestmark = pytest.mark.usefixtures("workers_train")

HANG = 120_000
MEMORY = {"welcome.seen": True, "train.mode": "human"}


@pytest.fixture(scope="module")
def session_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon for the sessions of this file, with a worker whose checkpoints can act: two of CartPole, of which one
    is damaged in a way that only reading all of it shows, and one of Pendulum."""
    folder = tmp_path_factory.mktemp("sessions")
    daemon = DaemonProcess(folder / "home")
    daemon.env["MOSAIC_WORKER_PATH"] = str(dropped_policies(folder / "workers"))
    imported = daemon.paths.imported_policy
    new_checkpoint(imported("balances").checkpoints)
    broken = new_checkpoint(imported("broken").checkpoints) / TENSOR_FILE
    broken.write_bytes(bytes(len(broken.read_bytes())))
    new_checkpoint(imported("swings").checkpoints, "toy_continuous")
    daemon.start()
    yield daemon
    daemon.clean_up()


class Player:
    """A cockpit and a person at it."""

    def __init__(self, cockpit: CockpitApp, qtbot: QtBot) -> None:
        self.cockpit, self.qtbot = cockpit, qtbot
        self.dock = train_dock(cockpit)
        panel = self.dock.play
        assert panel is not None
        self.panel: PlayPanel = panel
        self.desk: PlayDesk = panel.desk

    def until(self, probe: Callable[[], object]) -> None:
        self.qtbot.waitUntil(lambda: bool(probe()), timeout=HANG)

    @property
    def state(self) -> State:
        assert self.desk.session is not None, self.panel.told.text()
        return self.desk.session.state

    @property
    def stage(self) -> QWidget:
        live = part(self.cockpit, Stage).live
        assert live is not None
        return live

    def ready_to_play(self, env_id: str) -> None:
        """The environment is chosen, and its worker has told about it."""
        self.panel.game.picker.put(env_id)
        self.until(lambda: self.panel.game.game.env_id == env_id and self.panel.game.schema)
        self.until(lambda: self.cockpit.bridge.connection.connected and self.dock.catalog.sessions is not None)

    def start(self) -> None:
        self.qtbot.mouseClick(self.panel.start, Qt.MouseButton.LeftButton)
        self.until(lambda: self.desk.status == "live" and self.state.frames)

    def press(self, *keys: Qt.Key) -> None:
        self.stage.setFocus()
        for key in keys:
            self.qtbot.keyClick(self.stage, key)

    def end(self) -> None:
        self.qtbot.mouseClick(self.panel.stop, Qt.MouseButton.LeftButton)
        self.until(lambda: self.desk.status == "idle")

    def entry(self, name: str) -> CheckpointEntry:
        return TrainingRegistry(self.cockpit.bridge.paths).find(name)


Open = Callable[[], Player]


@pytest.fixture
def open_player(
    open_whole: OpenWhole,  # noqa: F811
    session_daemon: DaemonProcess,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Open]:
    monkeypatch.setenv("MOSAIC_WORKER_PATH", session_daemon.env["MOSAIC_WORKER_PATH"])
    opened: list[Player] = []

    def make() -> Player:
        opened.append(Player(open_whole(session_daemon, MEMORY), qtbot))
        return opened[-1]

    yield make
    for run in session_daemon.client.runs().runs:  # the next test finds none that goes on
        if run.state != "TERM":
            with suppress(RequestRefusedError):  # it ended by itself meanwhile
                session_daemon.client.cancel(run.run_id, "the test is over")
            session_daemon.wait_over(run.run_id)


def test_a_lake_is_crossed_by_keys_and_kept(open_player: Open, session_daemon: DaemonProcess) -> None:
    player = open_player()
    player.ready_to_play("FrozenLake-v1")
    panel = player.panel
    assert set(panel.keys.caps) == {"left", "down", "right", "up"} and panel.family.text() == "Toy text"
    panel.keys.show_map(KeyMap(), is_changed=False, awaited="FrozenLake-v1")
    assert panel.keys.note.text() == "Looking up the keys of FrozenLake-v1…"
    panel.refresh()
    panel.game.settings["slippery"].put(False)
    assert panel.game.count.text() == "1 changed"
    panel.game.seed.value.setValue(7)
    player.start()
    assert player.state.seed == 7 and panel.stop.text() == "End and keep" and not panel.start.isVisible()
    run_id = player.desk.run_id
    player.until(lambda: part(player.cockpit, RunHeadline).badge.word == "playing")
    right, down = Qt.Key.Key_Right, Qt.Key.Key_Down
    player.press(right, right, down, down, down, right)
    player.until(lambda: player.state.over)
    assert player.state.total == 1.0
    player.until(lambda: panel.recorded.text() == "1 episode, 6 steps")
    panel.game.settings["map"].put("8x8")
    assert panel.game.note.text() == "Changes apply at the next restart." and panel.start.isVisible()
    panel.game.seed.next.click()
    player.until(lambda: player.state.seed == 8 and not player.state.over)
    player.end()
    assert player.desk.joinable() == [], "nobody is asked to join what was just ended"
    run = session_daemon.wait_over(run_id)
    steps = list(session_daemon.client.steps(run_id))
    assert run.outcome == "completed" and [step.action for step in steps] == [2, 2, 1, 1, 1, 2]
    assert {step.actor for step in steps} == {"human"} and part(player.cockpit, Stage).live is None
    buttons = part(player.cockpit, Stage).headline.next_actions.buttons
    assert "run-replay" in buttons and buttons["run-replay"].isVisible() and buttons["run-replay"].usable


def test_keys_can_be_changed_and_are_remembered(open_player: Open) -> None:
    player = open_player()
    player.ready_to_play("FrozenLake-v1")
    keys = player.panel.keys
    keys.edit.click()
    keys.caps["left"].click()
    player.qtbot.keyClick(keys.caps["left"], Qt.Key.Key_A)
    assert "a" in keys.caps and "left" not in keys.caps
    assert player.panel.wish().params["keys"] == {"a": 0, "left": None}
    keys.reset.click()
    assert "left" in keys.caps and "keys" not in player.panel.wish().params


def test_the_seat_is_shared_with_a_policy_which_stays_when_another_fails(open_player: Open) -> None:
    player = open_player()
    player.dock.mode.choose("hybrid")
    player.ready_to_play("CartPole-v1")
    seat = player.panel.seat
    player.until(lambda: {entry.run_name for entry in seat.entries} >= {"balances", "broken"})
    seat.choice.setCurrentIndex(seat.choice.findData(str(player.entry("balances").path)))
    player.start()
    assert player.state.actor == "human", "the person begins"
    player.press(Qt.Key.Key_Tab)
    player.until(lambda: player.state.actor == "policy" and player.desk.agents.load is None)
    assert seat.other.now.text() == "has the seat" and player.panel.told.text() == ""
    player.press(Qt.Key.Key_Left)
    player.until(lambda: player.state.actor == "human")
    seat.button.click()
    player.until(lambda: player.state.actor == "policy" and player.desk.agents.load is None)

    # A policy that cannot be loaded costs nothing but a sentence.
    player.dock.show_page("use")
    browser: CheckpointBrowser = part(player.cockpit, CheckpointBrowser)
    player.until(lambda: len(browser.cards) == 3)
    browser.choose(player.entry("broken"))
    browser.details.deploy.click()
    said = browser.details.deployed
    player.until(lambda: "keeps the seat" in said.text())
    assert player.state.actor == "policy" and player.desk.policy == player.entry("balances")

    # One of another environment is not even tried: the environment can be switched here and now.
    first = player.desk.run_id
    browser.choose(player.entry("swings"))
    browser.details.deploy.click()
    offer = browser.details.switch
    player.until(offer.isVisible)
    assert offer.text() == "Switch Environment" and "Pendulum-v1" in said.text()
    assert player.state.actor == "policy" and player.desk.run_id == first
    offer.click()
    player.until(lambda: player.desk.run_id not in ("", first) and player.desk.status == "live")
    player.until(lambda: player.state.actor == "policy" and "has the seat" in said.text())
    assert "@" not in said.text(), "a policy is called by its algorithm and step, as beside its actions"
    hello = player.desk.session.hello_message if player.desk.session is not None else None
    assert hello is not None and hello.env_id == "Pendulum-v1"

    # What is said under Deploy holds as long as it is true.
    player.desk.hand_over()
    player.until(lambda: player.state.actor == "human")
    assert said.text() == ""


def test_a_click_on_hybrid_leaves_the_keyboard_with_the_policy_that_plays(open_player: Open) -> None:
    player = open_player()
    player.dock.show_page("use")
    browser: CheckpointBrowser = part(player.cockpit, CheckpointBrowser)
    player.until(lambda: len(browser.cards) == 3)
    browser.choose(player.entry("balances"))
    browser.details.deploy.click()
    player.until(lambda: player.desk.status == "live" and player.state.actor == "policy")
    playing = QApplication.focusWidget()
    assert playing is not None
    player.qtbot.mouseClick(player.dock.mode.buttons["hybrid"], Qt.MouseButton.LeftButton)
    assert player.dock.mode.choice == "hybrid" and QApplication.focusWidget() is playing
    player.qtbot.keyClick(playing, Qt.Key.Key_Left)
    player.until(lambda: player.state.actor == "human")


def test_who_began_alone_hands_over_to_the_policy_that_is_shown(open_player: Open) -> None:
    """Nobody chose one for this session: chance played, beside the name of the best one there is."""
    player = open_player()
    player.ready_to_play("CartPole-v1")
    player.start()
    assert player.desk.policy is None
    player.dock.mode.choose("hybrid")
    seat = player.panel.seat
    player.until(lambda: {entry.run_name for entry in seat.entries} >= {"balances", "broken"})
    seat.choice.setCurrentIndex(seat.choice.findData(str(player.entry("balances").path)))  # as it may be the best one
    player.press(Qt.Key.Key_Tab)
    player.until(lambda: player.state.actor != "human")
    assert player.state.actor == "policy" and player.desk.policy == player.entry("balances")


def test_what_went_wrong_with_a_policy_is_not_said_beyond_its_session(open_player: Open) -> None:
    player = open_player()
    player.ready_to_play("CartPole-v1")
    player.start()
    player.dock.show_page("use")
    browser: CheckpointBrowser = part(player.cockpit, CheckpointBrowser)
    player.until(lambda: len(browser.cards) == 3)
    said = browser.details.deployed

    # To take the seat back while a policy is being loaded is no failure.
    browser.choose(player.entry("balances"))
    browser.details.deploy.click()
    player.until(lambda: bool(player.state.loading))
    player.desk.hand_over()
    player.until(lambda: said.text() == "" and "You have the seat" in player.panel.told.text())
    assert player.state.actor == "human" and player.panel.told.property("role") == "muted"

    browser.choose(player.entry("broken"))
    browser.details.deploy.click()
    player.until(lambda: "keeps the seat" in said.text())
    assert said.text()[0].isupper()
    player.desk.end()
    player.until(lambda: player.desk.status == "idle")
    assert said.text() == ""


def test_a_session_outlives_daemon_and_cockpit_and_is_joined_again(
    open_player: Open, session_daemon: DaemonProcess
) -> None:
    player = open_player()
    player.ready_to_play("FrozenLake-v1")
    player.start()
    run_id = player.desk.run_id
    session_daemon.kill()
    player.press(Qt.Key.Key_Down)
    player.until(lambda: player.state.steps == 1)
    player.cockpit.close()
    session_daemon.start()
    again = open_player()
    again.until(again.panel.going_on.isVisible)
    assert again.desk.status == "idle"
    again.dock.mode.choose("agent")
    again.cockpit.window.cockpit.selection.select([run_id])
    again.cockpit.window.cockpit.commands.action("run-join").trigger()
    again.until(lambda: again.desk.status == "live" and again.state.steps == 1)
    assert again.panel.isVisible() and again.panel.game.env_id == "FrozenLake-v1"
    again.press(Qt.Key.Key_Down)
    again.until(lambda: again.state.steps == 2)
    again.end()
    assert session_daemon.wait_over(run_id).outcome == "completed"
    assert len(list(session_daemon.client.steps(run_id))) == 2


def test_seats_are_added_and_who_sits_where_is_chosen_also_while_they_play(
    open_player: Open, session_daemon: DaemonProcess
) -> None:
    player = open_player()
    player.dock.mode.choose("hybrid")
    player.ready_to_play("CartPole-v1")
    seats, panel = player.panel.seats, player.panel
    policy = str(player.entry("balances").path)
    player.until(lambda: {entry.run_name for entry in panel.seat.entries} >= {"balances", "broken"})
    assert not seats.rows and "seats" not in panel.wish().params
    seats.add.setFocus()
    player.qtbot.keyClick(seats.add, Qt.Key.Key_Space)
    assert len(seats.rows) == 2 and seats.rows[0].occupant == "human", "one joins the seat that there is"
    for row, who in zip(seats.rows, (policy, "random"), strict=True):
        row.choice.setCurrentIndex(row.choice.findData(who))
    assert panel.wish().params["seats"] == f"policy:{policy},random"
    player.start()
    player.until(lambda: [seat.actor for seat in player.state.seats] == ["policy", "random"])
    assert not panel.start.isVisible(), "what stands in the panel is what is played"

    # A person takes the second seat, hands it over with Tab and takes it back.
    second = seats.rows[1]
    second.choice.setCurrentIndex(second.choice.findData("human"))
    second.choice.activated.emit(second.choice.currentIndex())
    player.until(lambda: [seat.actor for seat in player.state.seats] == ["policy", "human"])
    panel.seat.choice.setCurrentIndex(0)
    panel.seat.choice.activated.emit(0)  # chance, which needs no loading
    player.press(Qt.Key.Key_Tab)
    player.until(lambda: [seat.actor for seat in player.state.seats] == ["policy", "random"])
    player.press(Qt.Key.Key_Tab)
    player.until(lambda: [seat.actor for seat in player.state.seats] == ["policy", "human"])
    assert panel.seat.you.now.text() == "have the seat"

    second.remove.click()
    assert not seats.rows and panel.start.isVisible() and panel.start.text() == "Restart with changes"
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    player.cockpit.themes.toggle()  # what was removed is not dressed any more
    player.cockpit.themes.toggle()
    new_checkpoint(session_daemon.paths.imported_policy("newest").checkpoints)
    player.end()  # a run is over, and its checkpoint can sit down
    player.until(lambda: "newest" in {entry.run_name for entry in panel.seat.entries})


def test_a_discarded_session_is_in_the_trash_and_comes_back(open_player: Open, session_daemon: DaemonProcess) -> None:
    player = open_player()
    player.ready_to_play("FrozenLake-v1")
    assert not player.panel.discard.isVisible()
    player.start()
    run_id = player.desk.run_id
    player.press(Qt.Key.Key_Down)
    player.until(lambda: player.state.steps == 1)
    commands = player.cockpit.window.cockpit.commands
    assert player.panel.discard.isVisible() and commands.action("session-discard").isEnabled()
    player.panel.discard.click()
    player.until(lambda: player.desk.status == "idle" and session_daemon.client.run(run_id).deleted)
    snackbar = part(player.cockpit, Snackbar)
    player.until(lambda: snackbar.current is not None and snackbar.current.action == "Undo")
    snackbar.current.act()
    player.until(lambda: not session_daemon.client.run(run_id).deleted)
    assert len(list(session_daemon.client.steps(run_id))) == 1


def test_what_cannot_be_played_is_said_and_starts_nothing(open_player: Open, session_daemon: DaemonProcess) -> None:
    player = open_player()
    player.ready_to_play("FrozenLake-v1")
    before = len(session_daemon.client.runs().runs)
    player.panel.game.picker.put("FrozenLak-v1")
    player.until(lambda: "did you mean" in player.panel.game.picker.told.text())
    player.panel.start.click()
    player.until(lambda: player.desk.status == "idle" and "did you mean" in player.panel.told.text())
    assert len(session_daemon.client.runs().runs) == before


@pytest.fixture(autouse=True)
def cockpit_home_is_fresh(session_daemon: DaemonProcess) -> None:
    """What one test chose is not the next one's beginning."""
    file: Path = session_daemon.paths.root / "cockpit.json"
    file.unlink(missing_ok=True)
