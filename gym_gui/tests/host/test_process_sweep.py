"""Finding every process of a run and nothing else, and signalling exactly the one that is meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.run_records import new_run_id
from mosaic_host.process_sweep import RunMarks, processes_of, send_signal
from mosaic_protocol import claims
from mosaic_protocol.process_identity import ProcessIdentity

PATIENCE = 60.0
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
Spawn = Callable[..., ProcessIdentity]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start a program that says when it is up; it is gone after the test."""
    made: list[subprocess.Popen[bytes]] = []

    def start(code: str = SLEEP, *arguments: str, **options: Any) -> ProcessIdentity:
        child = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, **options)
        made.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        return identity

    yield start
    for child in made:
        child.kill()
        child.communicate()


def marks_of(leader: ProcessIdentity, folder: Path, run_id: str = "") -> RunMarks:
    return RunMarks(run_id or new_run_id(), folder, 1, leader)


def until_gone(process: ProcessIdentity) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_leader_belongs_to_its_run_even_before_it_leads_a_session(spawn: Spawn, tmp_path: Path) -> None:
    leader = spawn()  # in the session of the tests, as a worker is in the moment after its fork
    assert processes_of(marks_of(leader, tmp_path)) == [leader]


def test_a_session_belongs_to_the_run_of_its_leader(spawn: Spawn, tmp_path: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}], env={{}})"
    leader = spawn(code, start_new_session=True)
    found = processes_of(marks_of(leader, tmp_path))
    try:
        assert leader in found
        assert len(found) == 2
    finally:
        for process in found:
            send_signal(process, signal.SIGKILL)


def test_what_was_executed_with_the_runs_id_belongs_to_it(spawn: Spawn, tmp_path: Path) -> None:
    leader, run_id = spawn(), new_run_id()
    marked = spawn(env={**os.environ, "MOSAIC_RUN_ID": run_id}, start_new_session=True)
    spawn(env={**os.environ, "MOSAIC_RUN_ID": new_run_id()})
    assert set(processes_of(marks_of(leader, tmp_path, run_id))) == {leader, marked}


_HOLD_CLAIM = """
import os, sys, time
kept = os.open(sys.argv[1], os.O_RDWR if sys.argv[2] == "claim" else os.O_RDONLY)
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("through_a_link", [False, True])
def test_what_holds_the_claim_belongs_to_the_run_and_what_reads_it_does_not(
    spawn: Spawn, tmp_path: Path, through_a_link: bool
) -> None:
    home = tmp_path / "home"
    folder = home / "run" / "claims"
    folder.mkdir(parents=True)
    claim = claims.path_of(folder, 1)
    claim.touch()
    if through_a_link:
        (tmp_path / "link").symlink_to(home)
        home = tmp_path / "link"
    leader = spawn()
    holder = spawn(_HOLD_CLAIM, str(claim), "claim", start_new_session=True)
    spawn(_HOLD_CLAIM, str(claim), "read", start_new_session=True)
    assert set(processes_of(marks_of(leader, home / "run"))) == {leader, holder}


def test_the_claim_of_another_attempt_does_not_count(spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    claims.path_of(tmp_path / "claims", 2).touch()
    leader = spawn()
    spawn(_HOLD_CLAIM, str(claims.path_of(tmp_path / "claims", 2)), "claim", start_new_session=True)
    assert processes_of(marks_of(leader, tmp_path)) == [leader]


def test_nothing_that_was_there_before_the_leader_belongs_to_its_run(spawn: Spawn, tmp_path: Path) -> None:
    run_id = new_run_id()
    spawn(env={**os.environ, "MOSAIC_RUN_ID": run_id})
    time.sleep(0.02)  # start times have a resolution of a hundredth of a second
    leader = spawn()
    assert processes_of(marks_of(leader, tmp_path, run_id)) == [leader]


def test_the_sweeping_process_never_finds_itself(tmp_path: Path) -> None:
    me = replace(ProcessIdentity.current(), start_ticks=0)
    assert ProcessIdentity.current() not in processes_of(marks_of(me, tmp_path))
    assert ProcessIdentity.current() not in processes_of(marks_of(ProcessIdentity.current(), tmp_path))


def test_processes_of_another_boot_are_not_looked_for(spawn: Spawn, tmp_path: Path) -> None:
    assert processes_of(marks_of(replace(spawn(), boot="another boot"), tmp_path)) == []


def test_a_number_that_was_given_to_somebody_else_means_nobody(spawn: Spawn, tmp_path: Path) -> None:
    now = spawn(start_new_session=True)
    assert processes_of(marks_of(replace(now, start_ticks=now.start_ticks - 100), tmp_path)) == []


_LEAVE_A_CHILD = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {SLEEP!r}], env={{}})
"""


def test_the_session_of_a_dead_leader_counts_only_for_one_who_saw_it_alive(tmp_path: Path) -> None:
    """Nobody else can know whether the number was given away and the session is a stranger's."""
    child = subprocess.Popen([sys.executable, "-c", _LEAVE_A_CHILD], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    leader = ProcessIdentity.of(child.pid)
    assert leader is not None
    assert child.stdout.readline() == b"up\n"
    child.wait()
    marks = marks_of(leader, tmp_path)
    left = processes_of(marks, leader_was_seen=True)
    try:
        assert len(left) == 1
        assert processes_of(marks, leader_was_seen=False) == []
    finally:
        for process in left:
            send_signal(process, signal.SIGKILL)
        child.stdout.close()


def test_zombies_are_not_among_the_living(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    leader = ProcessIdentity.of(child.pid)
    assert leader is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes_of(marks_of(leader, tmp_path)) == []
    child.communicate()


def test_no_name_of_any_process_on_the_machine_stops_the_sweep(spawn: Spawn, tmp_path: Path) -> None:
    leader = spawn()
    spawn("open('/proc/self/comm', 'wb').write(b'\\xff\\xfe) R'); " + SLEEP)
    assert processes_of(marks_of(leader, tmp_path)) == [leader]


# ---- signalling ----------------------------------------------------------------------------------


def test_a_signal_reaches_the_process_that_is_meant(spawn: Spawn) -> None:
    process = spawn()
    assert send_signal(process, signal.SIGKILL)
    until_gone(process)


def test_a_signal_to_what_is_gone_reaches_no_process(spawn: Spawn) -> None:
    process = spawn()
    send_signal(process, signal.SIGKILL)
    until_gone(process)
    assert not send_signal(process, signal.SIGKILL)


def test_a_signal_does_not_reach_another_process_with_the_same_pid(spawn: Spawn) -> None:
    process = spawn()
    assert not send_signal(replace(process, start_ticks=process.start_ticks - 1), signal.SIGKILL)
    assert not send_signal(replace(process, boot="another boot"), signal.SIGKILL)
    assert process.is_alive()
