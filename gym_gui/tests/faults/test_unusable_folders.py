"""A folder of the data root cannot be used for a moment: a run that is to start waits and says for what."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from gym_gui.tests.faults.small_disk import on_a_small_disk
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import journalled, steps_of, worker_of
from mosaic_protocol.unix_socket import listener

CPUS = 3
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Root may write where the mode of a folder forbids it; without these rights it is a user like any other."""


@contextmanager
def forbidden(folder: Path) -> Iterator[str]:
    mode = folder.stat().st_mode
    folder.chmod(0o500)
    yield "Permission denied"
    folder.chmod(mode)


@contextmanager
def moved_away(folder: Path) -> Iterator[str]:
    away = folder.rename(folder.with_name("away"))
    yield "No such file or directory"
    away.rename(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[str]:
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield "Read-only file system"
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def empty_for_a_while(folder: Path) -> Iterator[str]:
    """As a mount point is while its volume is away."""
    away = folder.rename(folder.with_name("away"))
    folder.mkdir()
    yield "No such file or directory"
    shutil.rmtree(folder)
    away.rename(folder)


TROUBLES = {trouble.__name__: trouble for trouble in (forbidden, moved_away, read_only)}


def queue_of_six(make_daemon: Callable[..., DaemonProcess], gate: Path) -> tuple[DaemonProcess, list[str]]:
    """A daemon that is busy until the gate opens, and what waits for that."""
    daemon = make_daemon(cpus=CPUS)
    daemon.prefix = AS_ANYBODY if os.geteuid() == 0 else []
    daemon.start()
    busy = daemon.submit(name="busy", cpus=CPUS, total_timesteps=5, gate=str(gate), gate_at=3)
    daemon.wait_state(busy, "EXEC")
    return daemon, [daemon.submit(name=f"queued-{number}", total_timesteps=3) for number in range(6)]


@pytest.mark.parametrize(
    ("trouble", "folder"), [("forbidden", "runs"), ("moved_away", "logs"), ("read_only", "configs")]
)
@on_a_small_disk
def test_a_folder_that_cannot_be_used_for_a_moment_fails_no_run(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path, trouble: str, folder: str
) -> None:
    see_the_queue_wait(make_daemon, tmp_path / "gate", trouble, folder)


@pytest.mark.nightly
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("folder", ["runs", "configs", "logs"])
@on_a_small_disk
def test_no_folder_that_cannot_be_used_for_a_moment_fails_a_run(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path, trouble: str, folder: str
) -> None:
    see_the_queue_wait(make_daemon, tmp_path / "gate", trouble, folder)


def see_the_queue_wait(make_daemon: Callable[..., DaemonProcess], gate: Path, trouble: str, folder: str) -> None:
    daemon, queued = queue_of_six(make_daemon, gate)
    with TROUBLES[trouble](getattr(daemon.paths, folder)) as why:
        gate.touch()
        for run_id in queued[:CPUS]:
            wait_for("the run to say what it waits for", lambda run_id=run_id: why in daemon.client.run(run_id).reason)
            assert daemon.client.run(run_id).state == "HSHK"
    for run_id in queued:
        run = daemon.wait_over(run_id)
        assert (run.outcome, run.attempt, daemon.starts(run_id)) == ("completed", 1, 1), run.reason


def test_a_run_that_ends_while_its_folder_is_away_loses_no_word(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    """The worker is killed with records in its journal that the daemon has not seen, and the folder of all runs is away
    in that moment."""
    gate = tmp_path / "gate"
    daemon = make_daemon().start()
    run_id = daemon.submit(total_timesteps=1_000_000, gate=str(gate), gate_at=20)
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == 19)
    leader = worker_of(daemon, run_id)
    daemon.signal(signal.SIGSTOP)
    gate.touch()
    wait_for("steps that the daemon has not seen", lambda: journalled(daemon, run_id) > 60)
    with moved_away(daemon.paths.runs):
        os.kill(leader.pid, signal.SIGKILL)
        daemon.signal(signal.SIGCONT)
        wait_for("the daemon to miss its words", lambda: "No such file or directory" in daemon.structured_log())
        assert daemon.client.run(run_id).state != "TERM"
        assert not daemon.paths.runs.exists()
    written = journalled(daemon, run_id)
    assert daemon.wait_over(run_id).outcome in ("failed", "lost")
    assert written - 5 < len(steps_of(daemon, run_id)) <= written


@pytest.mark.parametrize(
    ("killed", "trouble", "what"),
    [
        pytest.param(False, moved_away, "directory", id="one daemon"),
        pytest.param(True, moved_away, "directory", id="a later daemon"),
        pytest.param(True, moved_away, "outbox", id="only its journal"),
        pytest.param(False, empty_for_a_while, "directory", id="an empty mount point"),
        pytest.param(False, empty_for_a_while, "outbox", id="an empty journal"),
    ],
)
def test_a_run_that_ended_long_before_its_folder_came_back_loses_no_word(
    make_daemon: Callable[..., DaemonProcess],
    tmp_path: Path,
    killed: bool,
    trouble: Callable[[Path], AbstractContextManager[str]],
    what: str,
) -> None:
    gate = tmp_path / "gate"
    daemon = make_daemon(journal_seconds=0.5).start()
    run_id = daemon.submit(name="sailor", total_timesteps=1_000_000, gate=str(gate), gate_at=20)
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == 19)
    leader = worker_of(daemon, run_id)
    daemon.signal(signal.SIGSTOP)
    gate.touch()
    wait_for("steps that the daemon has not seen", lambda: journalled(daemon, run_id) > 60)
    folder = getattr(daemon.paths.run(run_id), what)
    with trouble(folder):
        os.kill(leader.pid, signal.SIGKILL)
        daemon.signal(signal.SIGCONT)
        ended = daemon.wait_over(run_id)
        if killed:
            daemon.kill()
            daemon.start()
        assert "what it said last is not read yet (" in daemon.client.run(run_id).reason
        wait_for("a warning", lambda: any("sailor" in warning for warning in daemon.client.health().warnings))
        assert len(steps_of(daemon, run_id)) < 60
        assert folder.exists() == (trouble is empty_for_a_while), "nothing is made in its place"
    written = journalled(daemon, run_id)
    wait_for("the mark to go", lambda: "not read yet" not in daemon.client.run(run_id).reason)
    steps = steps_of(daemon, run_id)
    assert written - 5 < len(steps) <= written
    assert len(set(steps)) == len(steps)
    found = daemon.client.run(run_id)
    assert (found.outcome, found.ended_at) == (ended.outcome, ended.ended_at)
    assert [move.cause for move in daemon.client.history(run_id)][-1] == "JournalRead"
    wait_for("the warning to go", lambda: not any("sailor" in w for w in daemon.client.health().warnings))
    daemon.client.delete(run_id, purge=True)


def test_a_run_whose_folder_never_comes_back_can_be_purged(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(journal_seconds=0.2).start()
    run_id = daemon.submit(total_timesteps=1_000_000, gate=str(tmp_path / "never"), gate_at=5)
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == 4)
    shutil.rmtree(daemon.paths.run(run_id).directory)
    os.kill(worker_of(daemon, run_id).pid, signal.SIGKILL)
    assert "not read yet" in daemon.wait_over(run_id).reason
    wait_for("a warning", lambda: daemon.client.health().warnings)
    daemon.client.delete(run_id, purge=True)
    wait_for("the warning to go", lambda: not any("not read yet" in w for w in daemon.client.health().warnings))


def test_a_moment_without_entry_does_not_end_the_care_for_socket_and_token(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon()
    daemon.prefix = AS_ANYBODY if os.geteuid() == 0 else []
    daemon.start()
    assert daemon.process is not None
    daemon.paths.trainer.chmod(0o600)
    pid = daemon.process.pid
    reads = looks_of(pid)
    wait_for("the daemon to look at its folder a few times", lambda: looks_of(pid) > reads + 5)
    daemon.paths.trainer.chmod(0o700)
    daemon.paths.socket.unlink()
    wait_for("the socket to be made again", lambda: listener(daemon.paths.socket) == pid)


def looks_of(pid: int) -> int:
    """How often a process gave the processor away by itself, which an idle one does when it wakes up to look."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("nonvoluntary_ctxt_switches")[0].rpartition("voluntary_ctxt_switches:")[2])


def test_a_run_that_waits_for_its_folder_can_be_cancelled(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    daemon, queued = queue_of_six(make_daemon, gate)
    with forbidden(daemon.paths.runs):
        gate.touch()
        wait_for("a run to wait", lambda: "waits" in daemon.client.run(queued[0]).reason)
        for run_id in queued:
            daemon.client.cancel(run_id)
        assert {daemon.wait_over(run_id).outcome for run_id in queued} == {"canceled"}
        assert daemon.client.health().reserved.cpus == 0


def test_a_worker_that_cannot_reach_the_socket_is_not_taken_for_one_that_hangs(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    """The daemon died, its successor's folder may not be entered for longer than a worker may be silent."""
    gate = tmp_path / "gate"
    daemon = make_daemon(liveness_seconds=2)
    daemon.prefix = AS_ANYBODY if os.geteuid() == 0 else []
    daemon.start()
    run_id = daemon.submit(total_timesteps=5, gate=str(gate), gate_at=3)
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == 2)
    leader = worker_of(daemon, run_id)
    os.kill(leader.pid, signal.SIGSTOP)
    daemon.kill()
    daemon.start()
    daemon.paths.trainer.chmod(0o600)
    os.kill(leader.pid, signal.SIGCONT)
    assert daemon.process is not None
    pid, looks = daemon.process.pid, looks_of(daemon.process.pid)
    wait_for("three times the patience to pass", lambda: looks_of(pid) > looks + 24)  # it looks four times a second
    daemon.paths.trainer.chmod(0o700)
    assert leader.is_alive()
    gate.touch()
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.attempt, daemon.starts(run_id)) == ("completed", 1, 1), run.reason
    assert steps_of(daemon, run_id) == [1, 2, 3, 4, 5]
