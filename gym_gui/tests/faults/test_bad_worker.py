"""A worker's words are not trusted: whatever it journals, its run comes to an end and nobody else suffers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import steps_of


@pytest.mark.parametrize("misbehave", ["scribble", "beyond_measure"])
def test_nonsense_in_a_journal_ends_its_run_and_spares_the_others(daemon: DaemonProcess, misbehave: str) -> None:
    healthy = daemon.submit(name="healthy", total_timesteps=100_000)
    daemon.wait_state(healthy, "EXEC")
    sick = daemon.submit(name="sick", total_timesteps=20, misbehave=misbehave, at_step=10)
    run = daemon.wait_over(sick)
    assert run.outcome in ("completed", "failed"), run.reason
    assert steps_of(daemon, sick)[:10] == list(range(1, 11)), "what it said before is kept"
    assert {run.name for run in daemon.client.runs().runs} == {"healthy", "sick"}
    before = daemon.client.run(healthy).last_step
    wait_for("the healthy run to go on", lambda: daemon.client.run(healthy).last_step > before)
    daemon.kill()
    daemon.start()
    assert daemon.client.run(sick).outcome == run.outcome
    assert daemon.client.run(healthy).state == "EXEC"


def test_a_worker_whose_records_are_refused_is_still_heard(make_daemon: Callable[..., DaemonProcess]) -> None:
    """It reports, so it is not taken for hung; and it can be stopped politely."""
    daemon = make_daemon(liveness_seconds=2).start()
    run_id = daemon.submit(total_timesteps=100_000, misbehave="scribble", at_step=10)
    daemon.wait_state(run_id, "EXEC")
    wait_for("six seconds of work", lambda: daemon.client.run(run_id).last_step > 600)
    assert daemon.client.run(run_id).state == "EXEC"
    daemon.client.cancel(run_id)
    run = daemon.wait_over(run_id)
    assert (run.outcome, "signal" in run.reason) == ("canceled", False), run.reason


def test_more_than_one_message_carries_arrives_in_several(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=20, misbehave="at_length", at_step=10)
    run = daemon.wait_over(run_id)
    assert run.outcome == "completed", run.reason
    pages = list(daemon.client.stream("episodes", run_id))
    assert sum(len(page.records) for page in pages) == 100
    assert max(len(page.records) for page in pages) < 100
    assert steps_of(daemon, run_id) == list(range(1, 21))


def test_a_long_story_is_stored_while_the_run_lives(daemon: DaemonProcess) -> None:
    """It must not wait for the end, when the daemon reads the journal itself."""
    run_id = daemon.submit(total_timesteps=100_000, misbehave="at_length", at_step=10)
    wait_for("steps beyond the long ones", lambda: len(steps_of(daemon, run_id)) > 20)
    assert daemon.client.run(run_id).state == "EXEC"
