"""What passes is waited for: a worker that is not installed, a machine that is short of something, a smaller host."""

from __future__ import annotations

import os
import resource
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import steps_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.unix_socket import dialled

STEPS = 60


def busy_with_workers_of_its_own(
    make_daemon: Callable[..., DaemonProcess], folder: Path, gate: Path
) -> tuple[DaemonProcess, Path]:
    """A daemon whose one CPU is taken until the gate is there, and the folder of its workers."""
    workers = folder / "workers"
    shutil.copytree(WORKERS, workers)
    daemon = make_daemon(cpus=1)
    daemon.env["MOSAIC_WORKER_PATH"] = str(workers)
    daemon.start()
    daemon.wait_state(daemon.submit(name="first", total_timesteps=5, gate=str(gate), gate_at=3), "EXEC")
    return daemon, workers


def test_a_queue_waits_for_a_worker_that_is_being_installed_again(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    daemon, workers = busy_with_workers_of_its_own(make_daemon, tmp_path, gate)
    queued = [daemon.submit(name=f"queued-{number}", total_timesteps=5) for number in range(5)]
    manifest, away = workers / "toy_worker" / "worker.toml", tmp_path / "away"
    manifest.rename(away)
    wait_for("the daemon to miss the worker", lambda: "toy" not in [w.type for w in daemon.client.workers().workers])
    gate.touch()
    waiting = wait_for("a run to say what it waits for", lambda: _telling(daemon, queued[0], "not installed"))
    assert waiting.state == "HSHK"
    away.rename(manifest)
    assert [daemon.wait_over(run_id).outcome for run_id in queued] == ["completed"] * 5
    assert daemon.client.run(queued[0]).attempt == 1


def test_a_run_that_waits_for_its_worker_can_be_cancelled(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    daemon, workers = busy_with_workers_of_its_own(make_daemon, tmp_path, gate)
    queued = daemon.submit(name="queued")
    shutil.rmtree(workers / "toy_worker")
    wait_for("the daemon to miss the worker", lambda: "toy" not in [w.type for w in daemon.client.workers().workers])
    gate.touch()
    wait_for("the run to say what it waits for", lambda: _telling(daemon, queued, "not installed"))
    daemon.client.cancel(queued)
    assert daemon.wait_over(queued).outcome == "canceled"
    assert daemon.client.health().reserved.cpus == 0


def _telling(daemon: DaemonProcess, run_id: str, words: str) -> pb.Run | None:
    run = daemon.client.run(run_id)
    return run if words in run.reason else None


def test_queued_runs_outlast_a_restart_on_a_smaller_machine(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(cpus=8)
    daemon.start()
    busy = daemon.submit(name="busy", cpus=8, total_timesteps=1_000_000)
    daemon.wait_state(busy, "EXEC")
    queued = daemon.submit(name="large", cpus=4, total_timesteps=5)
    daemon.terminate()
    daemon.env["MOSAIC_TRAINER_CPUS"] = "2"
    daemon.start()
    run = daemon.client.run(queued)
    assert (run.state, run.outcome) == ("INIT", "")
    assert "4 CPUs where there are 2" in run.reason
    daemon.terminate()
    daemon.env["MOSAIC_TRAINER_CPUS"] = "8"
    daemon.start()
    assert daemon.client.run(queued).reason == ""
    daemon.client.cancel(busy)
    assert daemon.wait_over(queued).outcome == "completed"


def test_a_run_that_fits_no_more_can_be_cancelled(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(cpus=8)
    daemon.start()
    busy = daemon.submit(name="busy", cpus=8, total_timesteps=1_000_000)
    queued = daemon.submit(name="large", cpus=4)
    daemon.terminate()
    daemon.env["MOSAIC_TRAINER_CPUS"] = "2"
    daemon.start()
    assert daemon.client.cancel(queued).outcome == "canceled"
    daemon.client.cancel(busy)
    daemon.wait_over(busy)
    daemon.env["MOSAIC_TRAINER_CPUS"] = "8"  # what the history is held against


@contextmanager
def out_of_descriptors(daemon: DaemonProcess) -> Iterator[None]:
    """No more files, sockets or processes for the daemon; the connections it has stay."""
    assert daemon.process is not None
    pid = daemon.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    daemon.client.health()  # the connection is there
    with ExitStack() as strangers:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + 3, hard))
        for _ in range(20):
            stranger = strangers.enter_context(socket.socket(socket.AF_UNIX))
            stranger.settimeout(1.0)
            stranger.connect(dialled(daemon.paths.socket))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_a_stop_that_met_a_machine_without_descriptors_is_carried_out_afterwards(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(stop_seconds=0.5)
    daemon.start()
    run_id = daemon.submit(total_timesteps=1_000_000, misbehave="ignore_stop", at_step=5)
    wait_for("the worker to go deaf", lambda: len(steps_of(daemon, run_id)) == 5)
    with out_of_descriptors(daemon):
        daemon.client.cancel(run_id)
        wait_for("the kill to be due", lambda: "KillDue" in [move.cause for move in daemon.client.history(run_id)])
        wait_for("it to fail", lambda: "Too many open files" in daemon.structured_log())
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert daemon.processes(run_id) == []
    assert daemon.client.health().reserved.cpus == 0


def test_an_outbox_that_cannot_be_listed_costs_its_words_and_not_the_run_its_end(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=STEPS, gate=str(gate), gate_at=5)
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == 4)
    outbox = daemon.paths.run(run_id).outbox
    outbox.rename(outbox.with_name("moved"))
    outbox.write_text("")
    gate.touch()
    run = daemon.wait_over(run_id)
    assert run.outcome in ("failed", "lost")
    assert daemon.client.health().reserved.cpus == 0
    assert "LOG603" in daemon.structured_log()


def test_a_stop_is_put_off_for_one_last_checkpoint_and_no_longer(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(stop_seconds=0.5, checkpoint_seconds=1.0)
    daemon.start()
    run_id = daemon.submit(total_timesteps=1_000_000, misbehave="put_off_the_stop", at_step=5)
    wait_for("the worker to begin with it", lambda: len(steps_of(daemon, run_id)) == 5)
    daemon.client.cancel(run_id)
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert "KillDue" in [move.cause for move in daemon.client.history(run_id)]


def test_a_forked_child_that_leaves_takes_no_run_with_it(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=STEPS, misbehave="leaving_child", at_step=10)
    assert daemon.wait_over(run_id).outcome == "completed"
    assert steps_of(daemon, run_id) == list(range(1, STEPS + 1))


def test_a_worker_without_threads_to_spare_is_still_heard_after_a_restart(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    daemon = make_daemon(liveness_seconds=4)
    daemon.start()
    run_id = daemon.submit(
        total_timesteps=STEPS, misbehave="no_threads", at_step=5, gate=str(gate), gate_at=STEPS, step_seconds=0.001
    )
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == STEPS - 1)
    daemon.kill()
    daemon.start()
    gate.touch()
    assert daemon.wait_over(run_id).outcome == "completed"
    assert steps_of(daemon, run_id) == list(range(1, STEPS + 1))


def test_a_word_that_a_full_disk_held_back_is_heard_before_the_next_one(daemon: DaemonProcess, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(
        total_timesteps=STEPS, misbehave="hold_a_word", at_step=5, gate=str(gate), gate_at=6, step_seconds=0.001
    )
    daemon.wait_state(run_id, "PAUSE")
    gate.touch()
    daemon.wait_over(run_id)


def test_a_run_whose_claim_cannot_be_looked_at_keeps_no_daemon_from_starting(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    """On a full disk the folder of a launch that was recorded may never have been made."""
    gate = tmp_path / "gate"
    daemon, workers = busy_with_workers_of_its_own(make_daemon, tmp_path, gate)
    queued = daemon.submit(name="queued", total_timesteps=5)
    manifest, away = workers / "toy_worker" / "worker.toml", tmp_path / "away"
    manifest.rename(away)
    wait_for("the daemon to miss the worker", lambda: "toy" not in [w.type for w in daemon.client.workers().workers])
    gate.touch()
    wait_for("the run to wait for its worker", lambda: _telling(daemon, queued, "not installed"))
    daemon.kill()
    folder = daemon.paths.run(queued).directory
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("in the way")
    daemon.start()
    assert daemon.client.run(queued).state == "HSHK"
    away.rename(manifest)
    folder.unlink()
    assert daemon.wait_over(queued).outcome == "completed"
    assert daemon.starts(queued) == 1
