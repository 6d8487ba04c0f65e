"""BDI agents under a daemon: watched, told something, held, and no step lost or doubled when something is killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from gym_gui.tests.support.live_sessions import submit_session, until, watched
from gym_gui.tests.support.marked_processes import command_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.checkpoint_manifest import list_checkpoints
from mosaic_protocol.live.client import LiveClient
from mosaic_protocol.live.messages import End, HandOver, Press, Tell
from mosaic_protocol.mind import MIND, MindReader
from mosaic_protocol.process_identity import ProcessIdentity

pytest.importorskip("agentspeak")

from spade_bdi_rl_worker.xmpp.pulse import INTERVAL, PATIENCE

pytestmark = pytest.mark.usefixtures("workers_train")

ENDLESS = 10_000_000
NOTICED_SECONDS = 20.0
"""A frozen server is noticed within 5 s; the rest is for a machine that has other things to do."""


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
    run_id = submit(daemon, episodes=ENDLESS)
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


def server_of(daemon: DaemonProcess, run_id: str) -> ProcessIdentity:
    """The XMPP server that a run started for itself."""
    servers = [one for one in daemon.processes(run_id) if "xmpp" in command_of(one.pid)]
    assert len(servers) == 1, [command_of(one.pid) for one in daemon.processes(run_id)]
    return servers[0]


def trains(daemon: DaemonProcess, run_id: str, more: int = 1000) -> int:
    """Wait for so many steps more; how many there are then."""
    before = daemon.client.step_totals(run_id).steps
    return wait_for("steps", lambda: now if (now := daemon.client.step_totals(run_id).steps) >= before + more else None)


def test_a_table_takes_the_seat_of_a_session_that_replays(daemon: DaemonProcess) -> None:
    learned = submit(daemon, episodes=1500)
    assert daemon.wait_over(learned).outcome == "completed"
    (checkpoint,) = list_checkpoints(daemon.paths.run(learned).checkpoints)
    run_id = submit_session(daemon, "FrozenLake-v1", slippery=False)
    with watched(daemon, run_id) as client:
        until(client, "a first move", lambda: client.state.waiting)
        client.send(Press("left"))
        until(client, "the move", lambda: client.state.steps == 1)
        client.send(HandOver("policy", checkpoint=str(checkpoint)))
        until(client, "the goal, and the way there once more", lambda: client.state.episodes >= 2)
        client.send(End())
        assert daemon.wait_over(run_id).outcome == "completed"
    first, second = list(daemon.client.episodes(run_id))[:2]
    assert (first.length, first.total_reward, second.length, second.total_reward) == (7, 1.0, 6, 1.0)
    steps = list(daemon.client.steps(run_id))[:13]
    assert [step.actor for step in steps] == ["human"] + ["policy"] * 12
    mosaic = CommandLine(daemon.paths.root)
    for episode, length in ((0, 7), (1, 6)):
        answer = mosaic("replay", run_id, "--episode", str(episode))
        assert answer.code == 0 and f"verified {length}/{length} steps" in answer.out, answer


def test_a_frozen_server_ends_its_run_with_a_sentence_and_nothing_is_left(daemon: DaemonProcess) -> None:
    run_id = submit(daemon, episodes=ENDLESS)
    daemon.wait_state(run_id, "EXEC")
    seen, server = trains(daemon, run_id), server_of(daemon, run_id)
    frozen_at = time.monotonic()
    assert send_signal(server, signal.SIGSTOP)
    over = daemon.wait_over(run_id)
    assert time.monotonic() - frozen_at < NOTICED_SECONDS
    assert over.outcome == "failed", over
    assert over.reason.endswith("is stopped by a signal and answers nobody. Start the run again."), over.reason
    assert not daemon.processes(run_id) and not server.is_alive()
    assert not send_signal(server, signal.SIGCONT), "nothing is left that could go on"
    require_each_once(daemon, run_id, seen)
    assert list_checkpoints(daemon.paths.run(run_id).checkpoints), "what was learned until then"


def test_a_killed_agent_takes_nothing_from_the_run_beside_it(daemon: DaemonProcess) -> None:
    doomed = submit(daemon, agents="scout=scout,learner=partner", episodes=ENDLESS)
    other = submit(daemon, agents="scout=scout,learner=partner", episodes=ENDLESS)
    for run_id in (doomed, other):
        daemon.wait_state(run_id, "EXEC")
        trains(daemon, run_id)
    servers = {run_id: server_of(daemon, run_id) for run_id in (doomed, other)}
    send_signal(worker_of(daemon, doomed), signal.SIGKILL)
    assert daemon.wait_over(doomed).outcome in ("failed", "lost")
    assert not daemon.processes(doomed) and not servers[doomed].is_alive()
    assert servers[other].is_alive()
    trains(daemon, other)
    send_signal(servers[other], signal.SIGKILL)
    over = daemon.wait_over(other)
    assert over.outcome == "failed" and "was killed by signal 9" in over.reason, over
    assert not daemon.processes(other)


def test_a_killed_agent_loses_no_step_and_leaves_no_server(daemon: DaemonProcess) -> None:
    run_id = submit(daemon, episodes=ENDLESS)
    daemon.wait_state(run_id, "EXEC")
    seen = wait_for("steps", lambda: len(list(daemon.client.steps(run_id))) or None)
    assert len(daemon.processes(run_id)) >= 2, "the worker and its server"
    send_signal(worker_of(daemon, run_id), signal.SIGKILL)
    over = daemon.wait_over(run_id)
    assert over.outcome in ("failed", "lost") and not daemon.processes(run_id)
    require_each_once(daemon, run_id, seen)


def test_a_frozen_agent_goes_on_where_it_was_and_blames_nobody(daemon: DaemonProcess) -> None:
    """It is frozen for longer than a server may be silent: that time is not the server's."""
    run_id = submit(daemon, episodes=ENDLESS)
    daemon.wait_state(run_id, "EXEC")
    trains(daemon, run_id)
    worker, server = worker_of(daemon, run_id), server_of(daemon, run_id)
    assert send_signal(worker, signal.SIGSTOP)
    time.sleep(INTERVAL + PATIENCE + 1.0)
    assert send_signal(worker, signal.SIGCONT)
    seen = trains(daemon, run_id)
    assert worker_of(daemon, run_id) == worker and server_of(daemon, run_id) == server
    assert send_signal(worker, signal.SIGSTOP)
    daemon.client.cancel(run_id, "enough")
    assert daemon.wait_over(run_id).outcome == "canceled", "also one that cannot hear it"
    assert not daemon.processes(run_id) and not server.is_alive()
    require_each_once(daemon, run_id, seen)
