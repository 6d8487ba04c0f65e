"""What is looked at before training or a session starts, and the request of a session."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gym_gui.services.play_sessions import NoPlayWorkerError, SessionWish, handed_over_to, is_live, play_worker_of
from gym_gui.services.session_controller import SessionController
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolRefusedError
from gym_gui.tests.support.daemon_process import WORKERS, toy_config
from mosaic_protocol.live.messages import HandOver
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionController:
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(WORKERS))
    return SessionController(WorkerQueries(MosaicPaths(tmp_path)))


def test_a_run_that_could_start_passes_and_the_worker_tells_of_it(controller: SessionController) -> None:
    found = controller.prepare_training("toy", "agent", toy_config())
    assert found.ok and found.asked and found.reason == "", found.text
    assert {check.name for check in found.checks} >= {"settings", "disk"}


def test_what_stands_in_the_way_is_said_by_name(controller: SessionController) -> None:
    assert "Agent" in controller.prepare_training("toy", "human", toy_config()).reason
    unknown = controller.prepare_training("tyo", "agent", toy_config())
    assert not unknown.ok and not unknown.asked and "toy" in unknown.reason
    large: dict[str, Any] = {**toy_config(), "resources": {"cpus": {"requested": 4000}}}
    refused = controller.prepare_training("toy", "agent", large)
    assert [check.name for check in refused.checks if not check.ok] == ["settings"] and "4000 CPUs" in refused.text


def test_a_full_disk_is_seen_before_the_start(controller: SessionController, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        total: int
        used: int
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 2**40, 3 * 2**20))
    found = controller.prepare_training("toy", "agent", toy_config())
    assert not found.ok and "only 3 MB are free" in found.reason


def test_a_session_is_a_run_of_the_worker_that_plays() -> None:
    worker = play_worker_of(discover().workers.values())
    wish = SessionWish("FrozenLake-v1", 7, params={"slippery": False})
    config = wish.request(worker).config()
    assert config["run_name"] == "play-frozenlake-v1-s7" and config["artifacts"]["tensorboard"] == {"enabled": False}
    settings = config["metadata"]["worker"]["config"]
    assert settings["params"] == {"slippery": False, "actor": "human"} and settings["seed"] == 7
    seated = SessionWish("CartPole-v1", 1, "policy", "/some/where", {"speed": 2}).request(worker)
    assert seated.settings["params"] == {"speed": 2, "actor": "policy", "checkpoint": "/some/where"}
    with pytest.raises(NoPlayWorkerError, match="live sessions"):
        play_worker_of([])


def test_the_seat_is_handed_over_to_the_policy_or_to_chance() -> None:
    assert handed_over_to({}) == HandOver("random")
    given = {"checkpoint": "/a", "deterministic": False}
    assert handed_over_to(given) == HandOver("policy", checkpoint="/a", deterministic=False)


def test_only_a_session_that_goes_on_can_be_joined() -> None:
    assert is_live(pb.Run(algo="play", state="EXEC"))
    assert not is_live(pb.Run(algo="play", state="TERM")) and not is_live(pb.Run(algo="ppo", state="EXEC"))


def test_what_cannot_be_played_is_refused_before_there_is_a_run(controller: SessionController) -> None:
    with pytest.raises(ToolRefusedError, match="did you mean"):
        controller.prepare_session(SessionWish("FrozenLak-v1"))
    with pytest.raises(ToolRefusedError, match="is not a setting of CartPole-v1"):
        controller.prepare_session(SessionWish("CartPole-v1", params={"gravity": 3}))
    config = controller.prepare_session(SessionWish("CartPole-v1", 3))
    assert config["metadata"]["worker"]["config"]["seed"] == 3
