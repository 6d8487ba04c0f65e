"""``kill -9`` of the daemon: nothing is lost, nothing is doubled, nothing starts twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.run_queue import Reservation
from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import (
    check_integrity,
    journalled,
    raw_stub,
    rewrite_run,
    steps_of,
    worker_of,
)
from mosaic_host.executor import process_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol import claims
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState
from mosaic_protocol.worker_client import EXIT_REVOKED

STEPS = 60
RE_ADOPTED_WITHIN = 10.0


def adopted(daemon: DaemonProcess) -> set[str]:
    """The runs whose living worker some daemon of this data root has taken up."""
    entries = (json.loads(line) for line in daemon.structured_log().splitlines())
    return {entry["run_id"] for entry in entries if entry["code"] == "LOG503" and entry["alive"]}


def test_five_live_runs_outlive_their_daemon(daemon: DaemonProcess, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    runs = [
        daemon.submit(name=f"live-{n}", total_timesteps=STEPS, step_seconds=0.005, gate=str(gate), gate_at=STEPS - 10)
        for n in range(5)
    ]
    for run_id in runs:
        daemon.wait_state(run_id, "EXEC")
    daemon.kill()
    for run_id in runs:  # they go on without a daemon, up to the gate
        wait_for("the worker to go on", lambda run_id=run_id: journalled(daemon, run_id) >= STEPS - 10)

    began = time.monotonic()
    daemon.start()
    wait_for("every run to be re-adopted", lambda: adopted(daemon) == set(runs))
    assert time.monotonic() - began < RE_ADOPTED_WITHIN
    gate.touch()

    for run_id in runs:
        run = daemon.wait_over(run_id)
        assert (run.outcome, run.last_step, run.attempt) == ("completed", STEPS, 1), run.reason
        assert steps_of(daemon, run_id) == list(range(1, STEPS + 1))
        assert daemon.starts(run_id) == 1


def test_a_daemon_that_comes_back_knows_how_far_its_runs_were(daemon: DaemonProcess, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=STEPS, step_seconds=0.001, gate=str(gate), gate_at=STEPS)
    wait_for("the steps to be stored", lambda: len(steps_of(daemon, run_id)) == STEPS - 1)
    worker = worker_of(daemon, run_id)
    send_signal(worker, signal.SIGSTOP)  # it cannot say it once more
    daemon.kill()
    daemon.start()
    assert daemon.client.run(run_id).last_step == STEPS - 1
    send_signal(worker, signal.SIGCONT)
    gate.touch()
    assert daemon.wait_over(run_id).outcome == "completed"


@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.nightly)])
def test_workers_find_back_to_a_daemon_that_is_killed_again_and_again(daemon: DaemonProcess, kills: int) -> None:
    runs = [daemon.submit(name=f"busy-{n}", total_timesteps=100_000, step_seconds=0.002) for n in range(4)]
    for run_id in runs:
        daemon.wait_state(run_id, "EXEC")
    for _ in range(kills):
        daemon.kill()
        daemon.start()
        for run_id in runs:
            before = len(steps_of(daemon, run_id))
            wait_for("new metrics", lambda r=run_id, n=before: len(steps_of(daemon, r)) > n)
    for run_id in runs:
        steps = steps_of(daemon, run_id)
        assert steps == list(range(1, len(steps) + 1))
        assert (daemon.paths.run_logs(run_id) / "stderr.log").read_text() == ""


def test_what_happens_while_no_daemon_runs_gets_the_right_outcome(daemon: DaemonProcess, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    at_gate = {"total_timesteps": 20, "step_seconds": 0.005, "gate": str(gate), "gate_at": 10}
    completes = daemon.submit(name="completes", **at_gate)
    crashes = daemon.submit(name="crashes", misbehave="crash", at_step=15, **at_gate)
    dies = daemon.submit(name="dies", misbehave="kill_self", at_step=15, **at_gate)
    paused = daemon.submit(name="paused", total_timesteps=100, step_seconds=0.02)
    for run_id in (completes, crashes, dies, paused):
        daemon.wait_state(run_id, "EXEC")
    daemon.client.pause(paused)
    daemon.wait_state(paused, "PAUSE")
    ending = [worker_of(daemon, run_id) for run_id in (completes, crashes, dies)]

    daemon.kill()
    gate.touch()
    wait_for("three workers to end", lambda: not any(process.is_alive() for process in ending))
    daemon.start()

    run = daemon.wait_over(completes)
    assert (run.outcome, run.last_step) == ("completed", 20), run.reason
    run = daemon.wait_over(crashes)
    assert (run.outcome, "the toy broke, as it was asked to" in run.reason) == ("failed", True), run.reason
    run = daemon.wait_over(dies)
    assert (run.outcome, "no last word" in run.reason) == ("lost", True), run.reason
    assert steps_of(daemon, completes) == list(range(1, 21))
    assert steps_of(daemon, crashes) == steps_of(daemon, dies) == list(range(1, 16))

    run = daemon.client.run(paused)
    assert (run.state, run.desired) == ("PAUSE", "pause")
    daemon.client.resume(paused)
    assert daemon.wait_over(paused).outcome == "completed"
    assert steps_of(daemon, paused) == list(range(1, 101))
    assert [daemon.starts(run_id) for run_id in (completes, crashes, dies, paused)] == [1, 1, 1, 1]


def test_a_stop_that_a_killed_daemon_began_is_brought_to_its_end(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(stop_seconds=1).start()
    run_id = daemon.submit(misbehave="ignore_stop")
    wait_for("the worker to hang", lambda: journalled(daemon, run_id) >= 2)
    daemon.wait_state(run_id, "EXEC")
    daemon.client.cancel(run_id, "enough")
    daemon.kill()
    daemon.start()
    run = daemon.wait_over(run_id)
    assert (run.outcome, "enough" in run.reason) == ("canceled", True), run.reason
    assert daemon.processes(run_id) == []


def test_a_launch_that_was_recorded_but_did_not_happen_happens_once(daemon: DaemonProcess) -> None:
    blocker = daemon.submit(total_timesteps=100_000, cpus=8)
    run_id = daemon.submit(total_timesteps=5, cpus=8)
    daemon.wait_state(blocker, "EXEC")
    daemon.kill()
    record_launch(daemon, run_id)
    daemon.start()
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.attempt) == ("completed", 2), run.reason
    assert daemon.starts(run_id) == 1


def record_launch(daemon: DaemonProcess, run_id: str) -> None:
    """What a daemon that dies before it launches leaves in the registry."""
    with closing(daemon.registry()) as registry:
        held = Reservation(cpus=0, memory_mb=0, gpu_indices=())
        launched = rewrite_run(registry, run_id, state=RunState.HSHK, attempt=1, reservation=held)
        registry.save(launched, [Transition(RunState.INIT, RunState.HSHK, "Launching", "attempt 1")]).result()


def test_a_worker_that_started_unrecorded_is_adopted_not_started_again(daemon: DaemonProcess, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=20, step_seconds=0.001, gate=str(gate), gate_at=10)
    daemon.wait_state(run_id, "EXEC")
    daemon.kill()
    with closing(daemon.registry()) as registry:
        process = process_of(registry.get(run_id).locator)
        rewrite_run(registry, run_id, locator="", pid=0, start_mode="")
    daemon.start()
    assert worker_of(daemon, run_id) == process
    gate.touch()
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.attempt, run.start_mode) == ("completed", 1, "adopted"), run.reason
    assert steps_of(daemon, run_id) == list(range(1, 21))
    assert daemon.starts(run_id) == 1


def test_a_run_whose_claim_a_power_cut_emptied_ends_and_keeps_no_daemon_from_starting(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=100_000)
    daemon.wait_state(run_id, "EXEC")
    worker = worker_of(daemon, run_id)
    daemon.kill()
    send_signal(worker, signal.SIGKILL)
    wait_for("the worker to be gone", lambda: not worker.is_alive())
    with closing(daemon.registry()) as registry:
        rewrite_run(registry, run_id, locator="", pid=0, start_mode="")
    claims.path_of(daemon.paths.run(run_id).claims, 1).write_text("")
    daemon.start()
    assert daemon.wait_over(run_id).outcome == "lost"


def test_a_worker_whose_launch_was_revoked_leaves_without_a_trace(daemon: DaemonProcess) -> None:
    """It was on its way when its daemon died, and comes to life after the next daemon launched another."""
    run_id = daemon.submit(total_timesteps=3)
    assert daemon.wait_over(run_id).outcome == "completed"
    folders = daemon.paths.run(run_id)
    before = journalled(daemon, run_id)
    assert claims.revoke(folders.claims, attempt=2) is None
    environment = {
        **daemon.env,
        "PYTHONPATH": os.pathsep.join([str(WORKERS), *sys.path]),
        "MOSAIC_RUN_ID": run_id,
        "MOSAIC_RUN_DIR": str(folders.directory),
        "MOSAIC_ATTEMPT": "2",
        "MOSAIC_LAUNCH_TOKEN": "of the revoked launch",
    }
    command = [sys.executable, "-m", "toy_worker.cli", "--config", str(daemon.paths.worker_config(run_id))]
    late = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert (late.returncode, late.stdout, late.stderr) == (EXIT_REVOKED, b"", b"")
    assert (daemon.starts(run_id), journalled(daemon, run_id)) == (1, before)


@pytest.mark.timeout(300)
def test_kills_in_the_middle_of_dispatch_start_no_run_twice(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(warm_starts=1).start()
    chance = random.Random(4)
    runs = [daemon.submit(name=f"tiny-{n}", total_timesteps=3, step_seconds=0.001) for n in range(40)]
    for _ in range(12):
        time.sleep(chance.uniform(0.0, 0.5))  # the instant of the kill; nothing waits for it
        daemon.kill()
        daemon.start()
    for run_id in runs:
        run = daemon.wait_over(run_id)
        assert run.outcome == "completed", f"{run.name}: {run.reason}"
        assert steps_of(daemon, run_id) == [1, 2, 3]
    assert Counter(daemon.starts(run_id) for run_id in runs) == {1: 40}


class Submitter(threading.Thread):
    """Submits without end; a request is retried, with its id, until somebody acknowledges it."""

    def __init__(self, daemon: DaemonProcess, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._daemon, self.enough = daemon, threading.Event()
        self.acknowledged: dict[str, str] = {}
        self.answers: Counter[grpc.StatusCode] = Counter()

    def run(self) -> None:
        number = 0
        while not self.enough.wait(0.005):  # leaves the daemon some of the CPU
            number += 1
            request_id = f"{self.name}-{number}"
            while (run_id := self._submitted(request_id)) is None:
                if self.enough.wait(0.02):
                    return
            self.acknowledged[request_id] = run_id

    def _submitted(self, request_id: str) -> str | None:
        request = pb.SubmitRunRequest(
            config_json=json.dumps(toy_config(name=request_id, cpus=3)), client_request_id=request_id
        )
        try:
            with raw_stub(self._daemon) as (stub, token):
                return str(stub.SubmitRun(request, metadata=token, timeout=2).run.run_id)
        except grpc.RpcError as error:
            self.answers[error.code()] += 1
            return None


# UNAUTHENTICATED: the port of the daemon that was killed may go to the daemon of another test, which does not know us.
MAY_HAPPEN_TO_A_CLIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAUTHENTICATED,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_kills_in_a_burst_of_submits_lose_nothing(daemon: DaemonProcess, kills: int) -> None:
    blocker = daemon.submit(name="blocker", total_timesteps=1_000_000, cpus=6)
    daemon.wait_state(blocker, "EXEC")
    submitters = [Submitter(daemon, f"client{n}") for n in range(3)]
    for submitter in submitters:
        submitter.start()
    chance = random.Random(kills)
    for _ in range(kills):
        before = sum(len(submitter.acknowledged) for submitter in submitters)
        wait_for("submits to go on", lambda n=before: sum(len(s.acknowledged) for s in submitters) > n)
        time.sleep(chance.uniform(0.0, 0.05))  # the instant of the kill; nothing waits for it
        daemon.kill()
        daemon.start()
    for submitter in submitters:
        submitter.enough.set()
        submitter.join(60)
        assert not submitter.is_alive()
        assert submitter.answers.keys() <= MAY_HAPPEN_TO_A_CLIENT

    daemon.wait_state(blocker, "EXEC")
    assert (daemon.starts(blocker), daemon.client.run(blocker).attempt) == (1, 1)
    daemon.kill()
    check_integrity(daemon.paths.registry_db)
    check_integrity(daemon.paths.telemetry_db)
    with closing(daemon.registry()) as registry:
        stored = {run.name: run.run_id for run in registry.unfinished()}
        twice = [name for name, times in Counter(run.name for run in registry.unfinished()).items() if times > 1]
    acknowledged = {name: run_id for submitter in submitters for name, run_id in submitter.acknowledged.items()}
    assert twice == []
    assert acknowledged.items() <= stored.items()
    assert set(stored) - set(acknowledged) - {"blocker"} <= {f"{s.name}-{len(s.acknowledged) + 1}" for s in submitters}
    assert not any(daemon.starts(run_id) for run_id in acknowledged.values())
    assert send_signal(worker_of(daemon, blocker), signal.SIGKILL)


def test_a_restart_keeps_the_queue_in_order(daemon: DaemonProcess) -> None:
    blocker = daemon.submit(total_timesteps=100_000, cpus=8)
    queued = [daemon.submit(name=f"queued-{n}", cpus=8, total_timesteps=1) for n in range(5)]
    daemon.wait_state(blocker, "EXEC")
    daemon.kill()
    daemon.start()
    assert [daemon.client.run(run_id).queue_position for run_id in queued] == [1, 2, 3, 4, 5]
    assert [daemon.starts(run_id) for run_id in queued] == [0] * 5
