"""A cockpit that is killed while somebody watches or steers costs the session nothing, and leaves nothing behind."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gym_gui.tests.faults.test_play import FAULTY, counted, require_each_once
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from gym_gui.tests.support.live_sessions import submit_session, until, watched
from gym_gui.tests.support.marked_processes import command_of, end_all, processes_using
from gym_gui.tests.ui.whole_window import remember

pytestmark = pytest.mark.usefixtures("workers_train")

COCKPIT = [sys.executable, "-m", "gym_gui.tests.support.cockpit_at_play"]


@contextmanager
def cockpit(daemon: DaemonProcess, run_id: str, intent: str) -> Iterator[subprocess.Popen[bytes]]:
    """A cockpit that takes part in the session; killed when the block is left, unless it ended."""
    environment = {**daemon.env, "QT_QPA_PLATFORM": "offscreen"}
    opened = subprocess.Popen([*COCKPIT, run_id, intent], env=environment, stdout=subprocess.PIPE)
    assert opened.stdout is not None
    try:
        assert opened.stdout.readline() == b"playing\n", f"the cockpit ended with {opened.wait()}"
        yield opened
    finally:
        opened.kill()
        opened.wait(HANG_GUARD)
        opened.stdout.close()


def others_using(daemon: DaemonProcess, run_id: str) -> list[int]:
    """Processes on this data root that are neither the daemon's nor the session's."""
    assert daemon.process is not None
    known = {daemon.process.pid, *(one.pid for one in daemon.processes(run_id))}
    return [pid for pid in processes_using(daemon.paths.root) if pid not in known]


def files_in_memory(pid: int) -> set[Path]:
    """The files below ``/dev/shm`` that a process has mapped or open."""
    mapped = {line.split()[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "/dev/shm/" in line}
    opened = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.exists()}
    return {Path(one) for one in mapped | opened if one.startswith("/dev/shm/")}


@pytest.mark.parametrize("kills", [pytest.param(2), pytest.param(30, marks=pytest.mark.nightly)])
def test_a_cockpit_killed_at_any_instant_loses_no_step_and_another_one_joins(
    daemon: DaemonProcess, tmp_path: Path, kills: int
) -> None:
    chance, counter = random.Random(kills), tmp_path / "counter"
    remember(daemon.paths.root, {"welcome.seen": True, "train.mode": "human"})
    run_id = submit_session(
        daemon, FAULTY, actor="random", speed=0, env_kwargs={"counter": str(counter), "step_seconds": 0.0003}
    )
    daemon.wait_state(run_id, "EXEC")
    in_memory: set[Path] = set()
    for number in range(kills):
        with cockpit(daemon, run_id, ("steer", "watch")[number % 2]) as opened:
            time.sleep(chance.random() * 0.5)  # the instant itself
            in_memory |= files_in_memory(opened.pid)
            opened.kill()
        wait_for("what the cockpit started to end", lambda: not others_using(daemon, run_id))
        with watched(daemon, run_id) as client:
            until(client, "a state", lambda client=client: client.state.frames)
            before = client.state.steps
            if client.state.actor == "random":
                until(client, "more steps", lambda client=client, before=before: client.state.steps > before)
            assert not client.state.paused and not client.state.problem
            in_memory.add(Path(client.state.frames))
        assert daemon.client.run(run_id).state == "EXEC"
    with cockpit(daemon, run_id, "end") as last:
        assert last.wait(HANG_GUARD) == 0, "nothing unexpected was reported"
    assert daemon.wait_over(run_id).outcome == "completed"
    require_each_once(daemon, run_id, counted(counter), counted(counter))
    assert in_memory and not [path for path in in_memory if path.exists()]
    assert not [command_of(pid) for pid in others_using(daemon, run_id)]


@pytest.fixture(autouse=True)
def no_cockpit_is_left(daemon: DaemonProcess) -> Iterator[None]:
    yield
    end_all(lambda: [pid for pid in processes_using(daemon.paths.root) if "cockpit_at_play" in command_of(pid)])
