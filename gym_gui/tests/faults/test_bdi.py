"""BDI agents under a daemon: watched, told something, held, and no step lost or doubled when something is killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.checkpoint_manifest import list_checkpoints
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import MIND, MindReader

pytest.importorskip("agentspeak")


def submit(daemon: DaemonProcess, **params: Any) -> str:
    worker = {"type": "spade_bdi_rl_worker", "module": "spade_bdi_rl_worker.cli"}
    config = {"algo": "q_learning", "env_id": "FrozenLake-v1", "seed": 7, "params": {"is_slippery": False, **params}}
    described = {
        "run_name": "bdi",
        "resources": {"cpus": {"requested": 1}},
        "artifacts": {"tensorboard": {"enabled": False}},
        "metadata": {"worker": {**worker, "config": config}},
    }
    return daemon.client.submit(described).run.run_id


@contextmanager
def watched(daemon: DaemonProcess, run_id: str) -> Iterator[LiveClient]:
    def connected() -> LiveClient | None:
        try:
            return LiveClient(daemon.paths.run(run_id).directory)
        except SessionAwayError:
            return None

    with closing(wait_for("the session to listen", connected)) as client:
        yield client


def until(client: LiveClient, what: str, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {client.state}"
        client.receive(0.05)


def require_each_once(daemon: DaemonProcess, run_id: str, least: int) -> list[Any]:
    """Steps and episodes follow each other without a gap, and each episode is whole."""
    steps = list(daemon.client.steps(run_id))
    assert [step.step for step in steps] == list(range(len(steps))) and len(steps) >= least
    number = 0
    for before, step in pairwise(steps):
        ended = before.terminated or before.truncated
        number += ended
        assert step.episode == number and (step.observation == 0) >= ended
    assert steps[-1].terminated or steps[-1].truncated, "episodes are recorded as a whole"
    assert len(list(daemon.client.episodes(run_id))) == number + 1
    return steps


def test_an_agent_is_watched_told_held_and_survives_its_daemon(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(handshake_seconds=240, liveness_seconds=240).start()
    run_id = submit(daemon, episodes=10_000_000)
    daemon.wait_state(run_id, "EXEC")
    with watched(daemon, run_id) as client:
        until(client, "a mind", lambda: client.state.mind and client.state.mind[0].mind.plan)
        assert client.hello is not None and client.hello.agents == ("learner",)
        (agent,) = client.state.mind or ()
        assert agent.table is not None and agent.table.cells == ("SFFF", "FHFH", "FFFH", "HFFG")
        assert agent.timeline and agent.mind.considered and agent.mind.intentions
        until(client, "a picture", lambda: client.frame() is not None)
        client.send(Tell("slip("))
        until(client, "a refusal", lambda: client.refusals)
        assert client.refusals[0].splitlines()[1:] == ["slip(", "     ^"]
        client.send(Tell("slippery"))
        until(client, "a belief", lambda: ("slippery", "person") in believed(client))
        assert client.state.mind is not None
        assert client.state.mind[0].strategy["alpha"] == pytest.approx(0.2)

    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.kill()
    daemon.start()
    daemon.wait_state(run_id, "PAUSE")
    held = len(list(daemon.client.steps(run_id)))
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC")
    wait_for("more steps", lambda: len(list(daemon.client.steps(run_id, first_step=held))) > 5000)
    daemon.kill()
    time.sleep(0.2)  # steps without a daemon
    daemon.start()
    wait_for("the worker", lambda: daemon.client.run(run_id).state == "EXEC")
    daemon.client.cancel(run_id, "seen enough")
    over = daemon.wait_over(run_id)
    assert over.outcome == "canceled"
    steps = require_each_once(daemon, run_id, held + 5000)
    reader = MindReader()
    said = [one for step in steps if MIND in step.info for one in reader.take(step.info[MIND]).messages]
    assert [(one.way, one.peer, one.performative, one.text) for one in said] == [("in", "person", "tell", "slippery")]

    folder = daemon.paths.run(run_id)
    assert list_checkpoints(folder.checkpoints)
    link = daemon.paths.custom / "spade_bdi" / "FrozenLake-v1" / "learner"
    assert link.resolve() == list_checkpoints(folder.checkpoints)[-1]
    mosaic = CommandLine(daemon.paths.root)
    for episode in (0, steps[-1].episode):
        answer = mosaic("replay", run_id, "--episode", str(episode))
        assert answer.code == 0 and "verified" in answer.out, answer
    assert len(mosaic("checkpoints", "--json").json["checkpoints"]) == len(list_checkpoints(folder.checkpoints))


def believed(client: LiveClient) -> set[tuple[str, str]]:
    return {(one.text, one.source) for agent in client.state.mind or () for one in agent.mind.beliefs}


def test_a_killed_agent_loses_no_step_and_leaves_no_server(daemon: DaemonProcess) -> None:
    run_id = submit(daemon, episodes=10_000_000)
    daemon.wait_state(run_id, "EXEC")
    seen = wait_for("steps", lambda: len(list(daemon.client.steps(run_id))) or None)
    assert len(daemon.processes(run_id)) >= 2, "the worker and its server"
    send_signal(worker_of(daemon, run_id), signal.SIGKILL)
    over = daemon.wait_over(run_id)
    assert over.outcome in ("failed", "lost") and not daemon.processes(run_id)
    require_each_once(daemon, run_id, seen)
