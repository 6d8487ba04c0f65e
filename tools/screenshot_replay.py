"""The Replay screen for the pictures: a session that a policy and a person shared, and a run without steps."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.play_sessions import SessionWish, play_worker_of
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.replay.screen import ReplayScreen
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.messages import Act, End, HandOver
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import discover
from tools.screenshot_camera import LARGE_SIZE, SMALL_SIZE, USUAL_SIZE, InVain

if TYPE_CHECKING:
    from tools.screenshot_scenes import Scenes

NAMES = ("replay-verified", "replay-large", "replay-small", "replay-empty", "replay-evaluation")
_PATIENCE = 60.0


def replay_scenes(scenes: Scenes) -> None:
    """Record a session, then look at it."""
    scenes.runs.need("ppo-1", "failed")
    run_id = _recorded(scenes)
    screen = scenes.window.findChild(ReplayScreen)
    assert screen is not None
    camera = scenes.camera
    scenes.until("the session in the list", lambda: scenes.cockpit.runs.get(run_id) is not None)
    for name, size in (("replay-verified", USUAL_SIZE), ("replay-large", LARGE_SIZE), ("replay-small", SMALL_SIZE)):
        scenes.resize(size)
        _look_at_a_shared_one(scenes, screen, run_id)
        camera.take(name)
    scenes.resize(USUAL_SIZE)
    _look_at_an_evaluation(scenes, screen)
    camera.take("replay-evaluation")
    screen.open(scenes.runs["failed"])
    scenes.until("that there is nothing", lambda: not screen.desk.is_listing)
    camera.take("replay-empty")
    screen.close()


def _look_at_an_evaluation(scenes: Scenes, screen: ReplayScreen) -> None:
    """A training recorded no steps, but its best checkpoint was evaluated and every step of that kept."""
    run_id = scenes.runs["ppo-1"]
    command = [sys.executable, "-m", "gym_gui.cli", "eval", run_id, "--episodes", "3", "--record"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    screen.open(run_id)
    scenes.until("the verdict", lambda: bool(screen.desk.evaluations) and _is_checked(screen))
    _stand_at(scenes, screen, 120)


def _look_at_a_shared_one(scenes: Scenes, screen: ReplayScreen, run_id: str) -> None:
    """An episode that the person and the policy shared, a little after the hand-over."""
    screen.open(run_id)
    scenes.until("the list", lambda: bool(screen.desk.catalogue.episodes))
    shared = [one for one in screen.desk.catalogue.episodes if one.outcome and 0.1 < one.share_of("human") < 0.6]
    if shared:
        screen.desk.open(shared[-1])
    scenes.until("the verdict", lambda: _is_checked(screen))
    turns = screen.desk.current.record.hand_overs if screen.desk.current and screen.desk.current.record else []
    _stand_at(scenes, screen, (turns[0] if turns else 0) + 8)


def _stand_at(scenes: Scenes, screen: ReplayScreen, place: int) -> None:
    def is_there() -> bool:
        shown = screen.desk.current.shown if screen.desk.current is not None else None
        return shown is not None and shown.place == screen.desk.place

    screen.desk.seek(place)
    scenes.until("the picture", is_there)


def _is_checked(screen: ReplayScreen) -> bool:
    now = screen.desk.current
    return now is not None and now.record is not None and now.checked is not None and now.checked.done


def _recorded(scenes: Scenes) -> str:
    """A policy balances, a person takes over for a while, the policy goes on; three episodes."""
    paths = scenes.cockpit.bridge.paths
    policy = str(TrainingRegistry(paths).find(scenes.runs["ppo-1"]).path)
    wish = SessionWish("CartPole-v1", 40, "policy", policy, {"speed": 4.0}, "cartpole-with-ppo")
    with TrainerClient.connect(paths) as client:
        config = wish.request(play_worker_of(discover().workers.values())).config()
        run_id: str = client.submit(config).run.run_id
    live = _joined(paths, run_id)
    try:
        for _ in range(3):
            _until(live, lambda: live.state.actor == "policy" and live.state.step >= 60 and not live.state.over)
            live.send(HandOver("human"))
            _until(live, lambda: live.state.actor == "human")
            for number in range(20):
                live.send(Act(number % 2))
                live.receive(0.02)
            live.send(HandOver("policy", checkpoint=policy))
            _until(live, lambda: live.state.actor == "policy")
            now = live.state.episode
            _until(live, lambda now=now: live.state.episode > now)
        live.send(End())
        _until(live, lambda: False)
    except SessionAwayError:
        pass  # it ended
    finally:
        live.close()
    return run_id


def _joined(paths: MosaicPaths, run_id: str) -> LiveClient:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return LiveClient(paths.run(run_id).directory)
        except SessionAwayError as error:
            if time.monotonic() > deadline:
                raise InVain(f"the session does not listen: {error}") from error
            time.sleep(0.05)


def _until(live: LiveClient, probe: object) -> None:
    assert callable(probe)
    deadline = time.monotonic() + _PATIENCE
    while not probe():
        if time.monotonic() > deadline:
            raise InVain(f"the session stays at {live.state}")
        live.receive(0.05)
