"""No step is lost or doubled when worker or daemon is killed in the middle of thousands of them a second."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from mosaic_host.process_sweep import send_signal

FAST = {"total_timesteps": 10_000_000, "record": 500, "step_seconds": 0.005, "metrics": False}


def finished_steps(daemon: DaemonProcess, run_id: str) -> int:
    """How many steps the worker itself says it has finished."""
    counter = daemon.paths.run(run_id).directory / "finished_steps"
    return int.from_bytes(counter.read_bytes(), "little") if counter.exists() else 0


def require_each_once(daemon: DaemonProcess, run_id: str, finished: int) -> None:
    steps = list(daemon.client.steps(run_id))
    assert finished <= len(steps) <= finished + 1
    for number, step in enumerate(steps):
        assert (step.step, step.action, step.observation) == (number, number, [number, float(number)])
        assert (step.episode, step.terminated) == (number // 10, number % 10 == 9)
    episodes = list(daemon.client.episodes(run_id))
    assert [episode.episode for episode in episodes] == list(range(len(steps) // 10))


def recording(daemon: DaemonProcess, **config: object) -> str:
    run_id = daemon.submit(**{**FAST, **config})
    wait_for("some steps", lambda: finished_steps(daemon, run_id) > 0)
    return run_id


@pytest.mark.parametrize("kills", [pytest.param(4), pytest.param(50, marks=pytest.mark.nightly)])
def test_a_worker_killed_at_any_instant_loses_no_step_it_finished(daemon: DaemonProcess, kills: int) -> None:
    chance = random.Random(kills)
    for _ in range(kills):
        run_id = recording(daemon)
        time.sleep(chance.random() * 0.3)  # the instant itself
        send_signal(worker_of(daemon, run_id), signal.SIGKILL)
        daemon.wait_over(run_id)
        require_each_once(daemon, run_id, finished_steps(daemon, run_id))


@pytest.mark.parametrize("kills", [pytest.param(3), pytest.param(50, marks=pytest.mark.nightly)])
def test_a_daemon_killed_at_any_instant_loses_and_doubles_no_step(
    make_daemon: Callable[..., DaemonProcess], kills: int
) -> None:
    chance = random.Random(kills)
    daemon = make_daemon().start()
    run_id = recording(daemon)
    for _ in range(kills):
        time.sleep(chance.random() * 0.3)  # the instant itself
        daemon.kill()
        before = finished_steps(daemon, run_id)
        wait_for("steps without a daemon", lambda before=before: finished_steps(daemon, run_id) > before)
        daemon.start()
        wait_for("the worker", lambda: daemon.client.run(run_id).state == "EXEC")
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
    require_each_once(daemon, run_id, finished_steps(daemon, run_id))


def test_the_last_steps_and_one_episode_are_found_while_the_run_goes_on(daemon: DaemonProcess) -> None:
    run_id = recording(daemon)
    wait_for("many steps", lambda: finished_steps(daemon, run_id) > 5_000)
    wait_for("stored ones", lambda: len(list(daemon.client.episodes(run_id))) > 100)
    tail = list(daemon.client.steps(run_id, tail=25))
    assert [step.step for step in tail][:25] == list(range(tail[0].step, tail[0].step + 25))
    assert [step.step for step in daemon.client.steps(run_id, episode=42)] == list(range(420, 430))
    assert [step.step for step in daemon.client.steps(run_id, first_step=777)][:3] == [777, 778, 779]
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
    followed = [step.step for step in daemon.client.steps(run_id, first_step=1_000, follow=True)]
    assert followed == list(range(1_000, 1_000 + len(followed)))
    assert 0 <= 1_000 + len(followed) - finished_steps(daemon, run_id) <= 1


def test_a_purged_run_leaves_no_steps(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=3, record=100)
    daemon.wait_over(run_id)
    require_each_once(daemon, run_id, 300)
    daemon.client.delete(run_id, purge=True)
    again = daemon.submit(total_timesteps=2, record=100)
    daemon.wait_over(again)
    require_each_once(daemon, again, 200)


def test_a_pause_does_not_wait_behind_steps(daemon: DaemonProcess) -> None:
    run_id = recording(daemon)
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
    require_each_once(daemon, run_id, finished_steps(daemon, run_id))
