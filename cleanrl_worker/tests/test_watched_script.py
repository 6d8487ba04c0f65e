"""A run that trains is watched: pictures and figures while somebody looks, and the training does not notice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.messages import Pause, socket_of
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.training.supervised import HANG_SECONDS, starting

PPO = ["-m", "cleanrl_worker.cleanrl.ppo", "--env-id", "CartPole-v1", "--seed", "3"]


def until(client: LiveClient, what: str, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {client.state}"
        client.receive(0.05)


def test_a_run_that_trains_is_watched_and_goes_on_unwatched(tmp_path: Path) -> None:
    with starting(tmp_path) as start:
        run = start(*PPO, "--total-timesteps", "100000000")
        run.hear_until("ready")
        run.tell("go")
        with LiveClient(tmp_path) as client, LiveClient(tmp_path) as other:
            hello = client.wait_for_hello()
            assert (hello.env_id, hello.is_training) == ("CartPole-v1", True)
            until(client, "pictures", lambda: client.frame() is not None and client.state.episodes)
            state = client.state
            assert state.rate and state.mean is not None and not state.problem
            client.send(Pause())
            until(client, "a refusal", lambda: client.refusals)
            assert "it can be watched, not played" in client.refusals[0]
            until(client, "more steps", lambda: client.state.steps > state.steps + 1000)
            until(other, "the same for both", lambda: other.state.steps > state.steps and other.frame() is not None)
        with LiveClient(tmp_path) as late:
            until(late, "a state for one who comes later", lambda: late.state.steps > state.steps)
            run.tell("stop")
            with pytest.raises(SessionAwayError):
                until(late, "the end", lambda: False)
        run.hear_until("stopped")
        assert run.end() == 0
    assert not socket_of(tmp_path).exists()


def test_watching_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    learned = []
    for watched in (False, True):
        folder = tmp_path / str(watched)
        folder.mkdir()
        with starting(folder) as start:
            run = start(*PPO, "--total-timesteps", "4096")
            run.hear_until("ready")
            client = LiveClient(folder) if watched else None
            run.tell("go")
            if client is not None:
                with client, pytest.raises(SessionAwayError):
                    until(client, "the end", lambda client=client: client.frame() and False)
                assert client.state.frames, "it was seen"
            run.hear_until("done")
            assert run.end() == 0
        (checkpoint,) = (folder / "checkpoints").iterdir()
        learned.append(checkpoints.read_manifest(checkpoint).tensor_sha256)
    assert learned[0] == learned[1]
