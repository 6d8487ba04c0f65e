"""A live session is a run: held, stopped, counted, and never lost when a process of it or the daemon is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services import recorded_steps
from gym_gui.services.replay.open_replay import OpenReplay
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from gym_gui.tests.support.live_sessions import submit_session, until, watched
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.live.messages import End, HandOver, Press
from mosaic_protocol.replay_messages import Checked, Shown

pytestmark = pytest.mark.usefixtures("workers_train")

FAULTY = "play_worker.tests.faulty_games:Faulty-v0"


def counted(counter: Path) -> int:
    return int.from_bytes(counter.read_bytes(), "little")


def require_each_once(daemon: DaemonProcess, run_id: str, least: int, most: int) -> None:
    steps = list(daemon.client.steps(run_id))
    assert least <= len(steps) <= most
    assert [step.step for step in steps] == list(range(len(steps)))
    assert [step.observation[0] for step in steps] == list(range(len(steps)))


def test_a_session_is_played_held_and_ended_as_a_run(daemon: DaemonProcess) -> None:
    run_id = submit_session(daemon, "FrozenLake-v1", slippery=False)
    with watched(daemon, run_id) as client:
        until(client, "a first move", lambda: client.state.waiting)
        daemon.wait_state(run_id, "EXEC")
        health = daemon.client.health()
        assert (health.reserved.cpus, health.interactive_reserved) == (0, 1), "it takes nothing from training"
        client.send(Press("right"))
        until(client, "the move", lambda: client.state.steps == 1)
        daemon.client.pause(run_id)
        daemon.wait_state(run_id, "PAUSE")
        until(client, "the hold", lambda: client.state.held)
        client.send(Press("right"))
        assert not client.receive(0.3), "held means held"
        daemon.client.resume(run_id)
        until(client, "the move", lambda: client.state.steps == 2)
        for key in ("down", "down", "down", "right"):
            client.send(Press(key))
        until(client, "the goal", lambda: client.state.over)
        client.send(End())
        run = daemon.wait_over(run_id)
    assert (run.outcome, run.reason) == ("completed", "completed 6 steps")
    steps = list(daemon.client.steps(run_id))
    assert [(step.action, step.actor) for step in steps] == [(at, "human") for at in (2, 2, 1, 1, 1, 2)]
    (episode,) = daemon.client.episodes(run_id)
    assert (episode.length, episode.total_reward, episode.outcome, episode.seed) == (6, 1.0, "terminated", 7)


def test_stop_means_stopped_also_while_it_waits_for_a_person(daemon: DaemonProcess) -> None:
    run_id = submit_session(daemon, "FrozenLake-v1")
    with watched(daemon, run_id) as client:
        until(client, "a first move", lambda: client.state.waiting)
        daemon.client.cancel(run_id, "seen enough")
        run = daemon.wait_over(run_id)
    assert run.outcome == "canceled" and "seen enough" in run.reason


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", "failed in step: RuntimeError: the game broke in two lines"),
        ("exit", "status 3"),
        ("segfault", "signal 11"),
    ],
)
def test_an_environment_that_breaks_fails_its_run_and_loses_no_step(
    daemon: DaemonProcess, fault: str, said: str
) -> None:
    run_id = submit_session(daemon, FAULTY, actor="random", speed=0, env_kwargs={"fault": fault, "at": 1234})
    run = daemon.wait_over(run_id)
    assert run.outcome == "failed" and said in run.reason, run.reason
    require_each_once(daemon, run_id, 1234, 1234)


@pytest.mark.parametrize(("fault", "said"), [("segfault", "signal 11"), ("exit", "status 3")])
def test_an_environment_that_breaks_in_render_loses_no_step(daemon: DaemonProcess, fault: str, said: str) -> None:
    kwargs = {"fault": fault, "place": "render", "at": 30, "length": 100_000}
    run_id = submit_session(daemon, FAULTY, actor="random", speed=1, env_kwargs=kwargs)
    with watched(daemon, run_id):  # nothing is drawn for nobody
        run = daemon.wait_over(run_id)
    assert run.outcome == "failed" and said in run.reason, run.reason
    require_each_once(daemon, run_id, 30, 30)


def test_faults_that_are_played_on_without_are_counted(daemon: DaemonProcess) -> None:
    kwargs = {"fault": "raise", "place": "render", "at": 0, "length": 100_000}
    run_id = submit_session(daemon, FAULTY, env_kwargs=kwargs)
    with watched(daemon, run_id) as client:
        until(client, "the sentence", lambda: "there are no pictures" in client.state.problem)
        client.send(HandOver("policy", checkpoint="/no/such/checkpoint"))
        until(client, "another sentence", lambda: "the policy failed" in client.state.problem)
        client.send(Press("1"))
        until(client, "a step", lambda: client.state.steps == 1)
        client.send(End())
        assert daemon.wait_over(run_id).outcome == "completed"
    counted_faults = {series.tag: list(series.values) for series in daemon.client.metrics(run_id)}
    assert counted_faults == {"faults/pictures": [1], "faults/seats": [1]}


def test_a_child_of_the_game_that_leaves_takes_nothing_of_the_session_along(daemon: DaemonProcess) -> None:
    kwargs = {"fault": "fork", "at": 30, "length": 100_000}
    run_id = submit_session(daemon, FAULTY, actor="random", speed=1, env_kwargs=kwargs)
    with watched(daemon, run_id) as client:
        until(client, "steps after the fork", lambda: client.state.steps > 32)
        with watched(daemon, run_id) as newcomer:
            until(newcomer, "a picture for who comes later", newcomer.frame)
        client.send(End())
        run = daemon.wait_over(run_id)
    assert run.outcome == "completed", run.reason
    steps = list(daemon.client.steps(run_id))
    assert [step.step for step in steps] == list(range(len(steps))) and len(steps) > 32


def test_an_environment_that_hangs_is_stopped(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(stop_seconds=1).start()
    run_id = submit_session(daemon, FAULTY, actor="random", speed=0, env_kwargs={"fault": "hang", "at": 50})
    with watched(daemon, run_id) as client:
        until(client, "the sentence", lambda: "does not come back from step" in client.state.problem)
        daemon.client.cancel(run_id)
        assert daemon.wait_over(run_id).outcome == "canceled"
    require_each_once(daemon, run_id, 50, 50)


def test_a_session_that_was_killed_has_every_step_it_finished(daemon: DaemonProcess, tmp_path: Path) -> None:
    for number in range(3):
        counter = tmp_path / f"counter-{number}"
        run_id = submit_session(daemon, FAULTY, actor="random", speed=0, env_kwargs={"counter": str(counter)})
        with watched(daemon, run_id) as client:
            until(client, "steps", lambda client=client, number=number: client.state.steps > 100 + 999 * number)
            seen = client.state.steps
            send_signal(worker_of(daemon, run_id), signal.SIGKILL)
            daemon.wait_over(run_id)
        finished = counted(counter)
        require_each_once(daemon, run_id, max(seen, finished - 1), finished)


def test_a_session_goes_on_while_the_daemon_is_dead(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon, counter = make_daemon().start(), tmp_path / "counter"
    run_id = submit_session(daemon, FAULTY, actor="random", speed=0, env_kwargs={"counter": str(counter)})
    with watched(daemon, run_id) as client:
        until(client, "steps", lambda: client.state.steps > 100)
        for _ in range(2):
            daemon.kill()
            before = client.state.steps
            until(client, "steps without a daemon", lambda before=before: client.state.steps > before + 500)
            daemon.start()
            wait_for("the session", lambda: daemon.client.run(run_id).state == "EXEC")
        client.send(End())
        assert daemon.wait_over(run_id).outcome == "completed"
    require_each_once(daemon, run_id, counted(counter), counted(counter))


def test_a_replay_goes_on_while_its_run_is_purged(daemon: DaemonProcess) -> None:
    kwargs = {"length": 300, "step_seconds": 0.01}
    run_id = submit_session(daemon, FAULTY, actor="random", speed=0, episodes=1, env_kwargs=kwargs)
    run, heard = daemon.wait_over(run_id), list[Any]()
    replay = OpenReplay.of_episode(recorded_steps.of_run(daemon.client, run), 0, daemon.paths, heard.append)
    try:
        wait_for("a first step", lambda: any(isinstance(one, Checked) and one.verified for one in heard))
        daemon.client.delete(run_id, purge=True)
        assert not daemon.paths.run(run_id).directory.exists()
        wait_for("the proof", lambda: any(isinstance(one, Checked) and one.done for one in heard))
        replay.seek(150)
        wait_for("a place in the middle", lambda: any(isinstance(one, Shown) and one.place == 150 for one in heard))
    finally:
        replay.close()
    (done,) = (one for one in heard if isinstance(one, Checked) and one.done)
    assert (done.verified, done.difference) == (300, None)
