"""The Replay screen on real recorded sessions: simulated again, looked at, filmed, taken over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PyQt6.QtCore import Qt
from pytestqt.qtbot import QtBot

from cleanrl_worker.tests.policy_tools import new_checkpoint
from gym_gui.services.datasets import DatasetRegistry
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.made_checkpoints import RUN_B, write_run
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, part, train_dock
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.play.desk import PlayDesk
from gym_gui.ui.replay.screen import ReplayScreen
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.replay_messages import Exported
from mosaic_worker.recording.clip_encoder import encode

__all__ = ["open_whole"]


def session_config(name: str, env_id: str, **params: Any) -> dict[str, Any]:
    settings = {"algo": "play", "env_id": env_id, "seed": 7, "params": {"actor": "random", "speed": 0, **params}}
    worker = {"type": "play", "module": "play_worker.cli", "config": settings}
    cpus = {"cpus": {"requested": 1}}
    return {"run_name": name, "resources": cpus, "artifacts": {}, "metadata": {"worker": worker}}


@pytest.fixture
def recorded(make_daemon: Callable[..., DaemonProcess]) -> tuple[DaemonProcess, str]:
    """A daemon with a session of CartPole: three episodes, played by chance."""
    daemon = make_daemon()
    daemon.start()
    run_id = daemon.client.submit(session_config("poles", "CartPole-v1", episodes=3)).run.run_id
    assert daemon.wait_over(run_id).outcome == "completed"
    return daemon, run_id


@pytest.fixture
def screen(
    recorded: tuple[DaemonProcess, str], open_whole: OpenWhole, qtbot: QtBot
) -> tuple[CockpitApp, ReplayScreen, str]:
    """The whole cockpit with the newest episode of that session open, checked and shown."""
    daemon, run_id = recorded
    cockpit = open_whole(daemon)
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    cockpit.window.cockpit.selection.select([run_id])
    cockpit.window.cockpit.commands.action("run-replay").trigger()
    found = cockpit.window.findChild(ReplayScreen)
    assert found is not None
    qtbot.waitUntil(lambda: is_checked(found), timeout=HANG)
    return cockpit, found, run_id


def is_checked(screen: ReplayScreen) -> bool:
    now = screen.desk.current
    return now is not None and now.checked is not None and now.checked.done and now.record is not None


def is_at(screen: ReplayScreen, place: int) -> bool:
    now = screen.desk.current
    shown = now.shown if now is not None else None
    return screen.desk.place == place and shown is not None and shown.place == place


def test_an_episode_is_verified_shown_and_inspected_by_keyboard(
    screen: tuple[CockpitApp, ReplayScreen, str], qtbot: QtBot, tmp_path: Path
) -> None:
    cockpit, replay, _ = screen
    desk, page = replay.desk, replay.page
    docks = cockpit.window.docks
    assert (docks["train"].widget(), docks["train"].windowTitle()) == (replay.cards, "Replay")
    cockpit.window.cockpit.commands.action("show-run").trigger()
    assert docks["run"].windowTitle() == "Run" and replay.pane.isHidden()
    page.setFocus()
    qtbot.waitUntil(page.strip.hasFocus, timeout=HANG)
    assert part(cockpit, Stage).over is page and [one.number for one in desk.catalogue.episodes] == [0, 1, 2]
    now = desk.current
    assert now is not None and now.title == "Episode 2" and now.record is not None
    steps = now.steps
    assert page.badge.word == f"verified {steps}/{steps} steps" and page.badge.colour_name == "good"
    assert page.picture.frame.has_frame and not page.picture.frame.isHidden()
    assert replay.inspector.title.text() == "Step 0"
    names = [row.name for row in replay.inspector.observation.rows]
    assert names == ["cart position", "cart velocity", "pole angle", "pole velocity"]
    for width in range(440, 900, 10):
        page.transport.fit(width)
        assert page.transport.minimumSizeHint().width() <= width, "no button is cut off"

    keys = Qt.Key
    for key, modifier, place in (
        (keys.Key_End, Qt.KeyboardModifier.NoModifier, steps),
        (keys.Key_Left, Qt.KeyboardModifier.ShiftModifier, steps - 10 if steps >= 10 else 0),
        (keys.Key_Home, Qt.KeyboardModifier.NoModifier, 0),
        (keys.Key_Right, Qt.KeyboardModifier.NoModifier, 1),
    ):
        qtbot.keyClick(page.strip, key, modifier)
        qtbot.waitUntil(lambda place=place: is_at(replay, place), timeout=HANG)
    assert "push" in replay.inspector.action_words.text()
    assert replay.inspector.verdict.text() == "✓ same as recorded"

    desk.player.set_speed(0.0)
    qtbot.keyClick(page.strip, keys.Key_Space)
    assert desk.player.is_playing
    qtbot.waitUntil(lambda: is_at(replay, steps) and not desk.player.is_playing, timeout=HANG)
    assert replay.inspector.title.text() == "End"

    # A click into the list takes the focus; the keys go on working there.
    cards = replay.cards.list
    cards.setFocus()
    qtbot.waitUntil(cards.hasFocus, timeout=HANG)
    qtbot.keyClick(cards, keys.Key_Left)
    qtbot.waitUntil(lambda: is_at(replay, steps - 1), timeout=HANG)
    qtbot.keyClick(cards, keys.Key_Space)
    qtbot.waitUntil(lambda: is_at(replay, steps) and not desk.player.is_playing, timeout=HANG)

    with qtbot.waitSignal(desk.exported, timeout=HANG) as made:
        replay.export(tmp_path / "episode.mp4")
    assert isinstance(made.args[0], Exported) and made.args[0].why == ""
    with av.open(str(tmp_path / "episode.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == steps + 1

    cockpit.window.resize(1280, 800)
    replay.ask_dataset()
    bar = page.dataset_bar
    qtbot.waitUntil(lambda: bar.visibleRegion().boundingRect().size() == bar.size(), timeout=HANG)
    qtbot.keyClicks(page.dataset_name, "one-pole")
    qtbot.keyClick(page.dataset_name, Qt.Key.Key_Return)
    registry = DatasetRegistry(cockpit.window.cockpit.bridge.paths)
    qtbot.waitUntil(lambda: any(one.name == "one-pole" for one in registry.list()), timeout=HANG)
    (entry,) = registry.list()
    assert (entry.manifest.episodes, entry.manifest.steps) == (1, steps)

    qtbot.keyClick(page.strip, keys.Key_Escape)
    assert part(cockpit, Stage).over is None and desk.current is None
    assert cockpit.window.docks["train"].widget() is train_dock(cockpit) and replay.pane.isHidden()


def test_a_killed_simulation_leaves_the_steps_and_can_be_opened_again(
    screen: tuple[CockpitApp, ReplayScreen, str], qtbot: QtBot
) -> None:
    _, replay, _ = screen
    desk, page = replay.desk, replay.page
    assert desk.pid is not None
    os.kill(desk.pid, signal.SIGKILL)
    now = desk.current
    assert now is not None
    qtbot.waitUntil(lambda: bool(now.gone), timeout=HANG)
    assert "it was killed" in page.note.label.text() and page.note.button.text() == "Open again"
    desk.seek(1)
    assert replay.inspector.title.text() == "Step 1" and replay.inspector.observation.rows
    page.note.acted.emit()
    qtbot.waitUntil(lambda: is_checked(replay) and is_at(replay, 1), timeout=HANG)


def test_a_replay_is_taken_over_and_the_new_session_replays_verified(
    screen: tuple[CockpitApp, ReplayScreen, str], qtbot: QtBot
) -> None:
    cockpit, replay, run_id = screen
    runs, now = cockpit.window.cockpit.runs, replay.desk.current
    assert now is not None and now.record is not None
    replay.desk.seek(3)
    qtbot.waitUntil(lambda: is_at(replay, 3), timeout=HANG)
    before = now.record.episode
    cockpit.window.cockpit.commands.action("replay-take-over").trigger()
    new = lambda: [run for run in runs if run.run_id != run_id]  # noqa: E731
    play = cockpit.window.findChild(PlayDesk)
    assert play is not None
    qtbot.waitUntil(lambda: play.session is not None and play.session.state.step == 3, timeout=HANG)
    (session,) = new()
    assert session.name == "poles-taken-over" and part(cockpit, Stage).over is None
    cockpit.window.cockpit.bridge.call(lambda client: client.cancel(session.run_id, "seen enough"))
    qtbot.waitUntil(lambda: new()[0].state == "TERM", timeout=HANG)

    replay.open(session.run_id)
    qtbot.waitUntil(lambda: is_checked(replay), timeout=HANG)
    opened = replay.desk.current
    assert opened is not None and opened.record is not None and opened.checked is not None
    assert opened.checked.difference is None and opened.checked.verified == opened.steps >= 3
    after = opened.record.episode
    assert after.seed == before.seed and after.actors[:3] == ["random"] * 3
    assert after.extras[0]["taken_over_from"] == {
        "run_id": run_id,
        "run_name": "poles",
        "episode": 2,
        "step": 3,
    }


def test_clips_of_a_training_are_shown_in_the_same_place(
    make_daemon: Callable[..., DaemonProcess], open_whole: OpenWhole, qtbot: QtBot
) -> None:
    daemon = make_daemon()
    daemon.start()
    run_id = daemon.submit(total_timesteps=1)
    run = daemon.wait_over(run_id)
    clip = Path(run.run_dir) / "videos" / "episode-8-step-900.mp4"
    clip.parent.mkdir(parents=True)
    encode(clip, (np.full((160, 200, 3), 20 * number, np.uint8) for number in range(10)), 30)
    cockpit = open_whole(daemon)
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    replay = cockpit.window.findChild(ReplayScreen)
    assert replay is not None
    replay.open(run_id)
    qtbot.waitUntil(lambda: replay.desk.current is not None and is_at(replay, 0), timeout=HANG)
    now = replay.desk.current
    assert replay.page.badge.word == "clip" and now is not None and now.steps == 9
    replay.desk.seek(9)
    qtbot.waitUntil(lambda: is_at(replay, 9), timeout=HANG)
    assert replay.inspector.empty.title.text() == "No steps"


def test_a_recorded_evaluation_stands_beside_the_episodes_of_its_run(
    recorded: tuple[DaemonProcess, str], open_whole: OpenWhole, qtbot: QtBot, tmp_path: Path
) -> None:
    daemon, run_id = recorded
    trained = MosaicPaths(tmp_path / "trained")
    write_run(trained, RUN_B, "actor")
    new_checkpoint(trained.run(RUN_B).checkpoints, "dqn")
    words = ("eval", "actor", "--episodes", "2", "--sampled", "--record", "--json")
    told = Path(CommandLine(trained.root)(*words).json["recordings"]["sampled"])
    moved = daemon.paths.run(run_id).evaluations
    trained.run(RUN_B).evaluations.rename(moved)  # a data root may be moved
    folder = moved / told.parent.name / told.name
    cockpit = open_whole(daemon)
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    replay = cockpit.window.findChild(ReplayScreen)
    assert replay is not None
    replay.open(run_id)
    chooser = replay.cards.sources
    qtbot.waitUntil(lambda: is_checked(replay) and chooser.count() == 2, timeout=HANG)
    assert chooser.isVisible() and chooser.currentIndex() == 0 and len(replay.desk.catalogue.episodes) == 3
    assert chooser.itemText(0) == "Episodes of the run" and "step 1,000 · sampled · 2 episodes" in chooser.itemText(1)

    chooser.setFocus()
    qtbot.keyClick(chooser, Qt.Key.Key_Down)
    found = lambda: replay.desk.source is not None and replay.desk.source.folder == folder  # noqa: E731
    qtbot.waitUntil(lambda: found() and is_checked(replay), timeout=HANG)
    now = replay.desk.current
    assert now is not None and now.record is not None and now.checked is not None
    assert len(replay.desk.catalogue.episodes) == 2 and now.checked.verified == now.steps > 0
    assert set(now.record.episode.actors) == {"policy"} and chooser.currentIndex() == 1
    assert "evaluation" in replay.page.about.text()

    qtbot.keyClick(chooser, Qt.Key.Key_Up)
    qtbot.waitUntil(lambda: not found() and len(replay.desk.catalogue.episodes) == 3, timeout=HANG)
    assert chooser.currentIndex() == 0
