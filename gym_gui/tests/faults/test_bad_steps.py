"""Steps that arrive damaged, twice or in the wrong order, and steps that are strange: each costs itself at most, is
counted and said in a sentence, and disturbs nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.faults.test_steps import FAST, finished_steps, require_each_once
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import steps_of

ALL = list(range(200))
WITHOUT_THE_FIFTH = [*range(80), *range(100, 200)]


def damage_told(daemon: DaemonProcess, run_id: str) -> list[str]:
    entries = map(json.loads, daemon.structured_log().splitlines())
    return [str(entry["reason"]) for entry in entries if entry.get("code") == "LOG603" and entry["run_id"] == run_id]


BAD = {
    "checksum": (WITHOUT_THE_FIFTH, "the checksum of steps 80 to 99 is wrong"),
    "version": (WITHOUT_THE_FIFTH, "steps of schema version 99"),
    "torn": (WITHOUT_THE_FIFTH, "record 5: not a record"),
    "replayed": (ALL, "steps from 60 on come again, 140 is next"),
    "twice": (ALL, "steps from 80 on come again, 100 is next"),
    "reordered": (WITHOUT_THE_FIFTH, "20 steps from 80 on did not arrive"),
}


def test_a_bad_chunk_costs_its_own_steps_at_most(daemon: DaemonProcess) -> None:
    """All at once, which also shows that none disturbs the others."""
    runs = {how: daemon.submit(name=how, total_timesteps=5, bad_steps=how) for how in BAD}
    for how, (left, sentence) in BAD.items():
        run = daemon.wait_over(run_id := runs[how])
        assert (run.name, run.outcome) == (how, "completed"), run.reason
        assert [step.step for step in daemon.client.steps(run_id)] == left
        totals = daemon.client.step_totals(run_id)
        assert (totals.steps, totals.damaged) == (200, 200 - len(left))
        assert any(sentence in told for told in damage_told(daemon, run_id)), damage_told(daemon, run_id)
        assert steps_of(daemon, run_id) == [1, 2, 3, 4, 5], "its metrics are all there"


def test_strange_observations_are_kept_or_left_out_with_a_word(daemon: DaemonProcess) -> None:
    large, changing = (daemon.submit(total_timesteps=2, bad_steps=how) for how in ("large", "changing"))
    for run_id in (large, changing):
        assert daemon.wait_over(run_id).outcome == "completed"
    seen = [step.observation for step in daemon.client.steps(large)]
    assert [np.shape(one) for one in (seen[0], seen[2])] == [(4,), (4,)] and seen[1] is None
    said = (daemon.paths.run_logs(large) / "stderr.log").read_text()
    assert "observation of 67,108," in said and "too large to record" in said
    forms = [step.observation for step in daemon.client.steps(changing)]
    assert [np.shape(one) for one in forms[:2]] == [(2,), (3, 3)]
    assert forms[2:6] == [{"a": 1}, [1, [2]], "text", None] and np.shape(forms[6]) == (2,)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Name it before ``make_daemon``: it must outlive the daemons on it."""
    disk = SmallDisk(tmp_path / "disk", megabytes=24)
    yield disk
    disk.unmount()


@on_a_small_disk
def test_steps_wait_on_a_full_disk_which_is_told_and_kept(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess]
) -> None:
    """No SIGBUS, because the open chunk is reserved; the worker holds, says so, and goes on."""
    daemon = make_daemon(home=disk.mount() / "home").start()
    run_id = daemon.submit(**{**FAST, "record": 20})
    wait_for("some steps", lambda: finished_steps(daemon, run_id) > 0)
    # Acknowledged chunks leave the outbox and free some space: it is taken at once, so that the worker goes on waiting.
    with disk.eaten():
        throttled = wait_for("the worker to wait", lambda: daemon.client.run(run_id).throttled)
        assert throttled == "its steps wait for disk space"
        wait_for("the daemon to see the full disk", lambda: "disk" in daemon.client.run(run_id).reason)
        assert daemon.client.run(run_id).state == "EXEC"
        mosaic = CommandLine(daemon.paths.root, daemon.env)
        assert "training (throttled)" in mosaic("runs").out and throttled in mosaic("show", run_id).out
        before = finished_steps(daemon, run_id)
    disk.free()
    wait_for("the worker to go on", lambda: finished_steps(daemon, run_id) > before + 2_000)
    wait_for("the word that it does", lambda: not daemon.client.run(run_id).throttled)

    def causes() -> list[str]:
        return [move.cause for move in daemon.client.history(run_id)]

    wait_for("both marks in the history", lambda: "resumed" in causes())
    assert causes().index("throttled") < causes().index("resumed")
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
    require_each_once(daemon, run_id, finished_steps(daemon, run_id))
    assert daemon.client.step_totals(run_id).damaged == 0
