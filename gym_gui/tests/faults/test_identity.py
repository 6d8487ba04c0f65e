"""A pid is not a process: a process that got the number of a dead worker is left alone."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import rewrite_run, worker_of
from mosaic_host.executor import locator_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.process_identity import ProcessIdentity, boot_id


@pytest.fixture
def bystander() -> Iterator[ProcessIdentity]:
    """A process of somebody else, leading a session of its own as a worker does."""
    with subprocess.Popen(["sleep", "3600"], start_new_session=True) as process:
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        yield identity
        process.kill()


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[ProcessIdentity]:
    """A process of somebody else in a session whose leader is gone; its session's number was a worker's once."""
    told = tmp_path / "orphan"
    script = f"sleep 3600 & echo $! > {told}.draft; mv {told}.draft {told}"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as leader:
        leader.wait(60)
    identity = ProcessIdentity.of(int(told.read_text()))
    assert identity is not None
    yield identity
    send_signal(identity, signal.SIGKILL)


def abandoned_run(daemon: DaemonProcess) -> str:
    """A live run whose daemon and worker are both gone."""
    run_id = daemon.submit(total_timesteps=100_000)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    daemon.kill()
    send_signal(worker, signal.SIGKILL)
    wait_for("the worker to be gone", lambda: not worker.is_alive())
    return run_id


def set_process(daemon: DaemonProcess, run_id: str, process: ProcessIdentity) -> None:
    with closing(daemon.registry()) as registry:
        rewrite_run(registry, run_id, locator=locator_of(process), pid=process.pid)


@pytest.mark.parametrize("difference", ["start time", "boot", "both"])
def test_a_process_that_got_the_pid_of_a_worker_is_untouched(
    daemon: DaemonProcess, bystander: ProcessIdentity, difference: str
) -> None:
    run_id = abandoned_run(daemon)
    start_ticks = bystander.start_ticks - (100 if difference != "boot" else 0)
    boot = boot_id() if difference == "start time" else "00000000-0000-0000-0000-000000000000"
    set_process(daemon, run_id, ProcessIdentity(bystander.pid, start_ticks, boot))
    daemon.start()
    run = daemon.wait_over(run_id)
    assert run.outcome == "lost"
    assert run.reason
    assert bystander.is_alive()


def test_a_session_that_got_the_number_of_a_workers_session_is_untouched(
    daemon: DaemonProcess, orphan: ProcessIdentity
) -> None:
    run_id = abandoned_run(daemon)
    session = int(Path(f"/proc/{orphan.pid}/stat").read_text().rpartition(")")[2].split()[3])
    set_process(daemon, run_id, ProcessIdentity(session, orphan.start_ticks - 100, boot_id()))
    daemon.start()
    assert daemon.wait_over(run_id).outcome == "lost"
    assert orphan.is_alive()


def test_a_reader_of_a_runs_files_is_not_taken_for_a_part_of_it(daemon: DaemonProcess) -> None:
    """A backup or a curious person may have the claim open when the run is cancelled."""
    run_id = daemon.submit(total_timesteps=100_000)
    daemon.wait_state(run_id, "EXEC")
    claim = daemon.paths.run(run_id).claims / "attempt-1"
    with subprocess.Popen(["tail", "-f", str(claim)], stdout=subprocess.PIPE, start_new_session=True) as reader:
        assert reader.stdout is not None
        reader.stdout.read(1)
        daemon.client.cancel(run_id)
        assert daemon.wait_over(run_id).outcome == "canceled"
        assert reader.poll() is None
        reader.kill()
