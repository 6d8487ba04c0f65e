"""A full disk in every phase of a run, plain, with ``kill -9`` of the daemon, and with a writer that takes every byte
that is freed: no run is lost, mislabelled or stuck, and each can be cancelled."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import check_integrity, journalled, steps_of, worker_of
from mosaic_protocol.outbox import streams

STEPS = 60
HELD_AT = 20
CPUS = 4


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Name it before ``make_daemon``: it must outlive the daemons on it."""
    disk = SmallDisk(tmp_path / "disk", megabytes=24)
    yield disk
    disk.unmount()


@dataclass
class Stage:
    """One run, brought to a phase of its life, on a disk that is about to be full."""

    disk: SmallDisk
    daemon: DaemonProcess
    gate: Path
    """Opened, it lets the run go on to its end."""
    way: str
    fault: ExitStack
    run_id: str = ""
    blocker: str = ""

    def submit(self, **config: object) -> None:
        settings = {"total_timesteps": STEPS, "step_seconds": 0.001, "gate": str(self.gate), "gate_at": HELD_AT}
        self.run_id = self.daemon.submit(name="staged", **{**settings, **config})

    def submit_blocker(self) -> None:
        self.blocker = self.daemon.submit(name="blocker", cpus=CPUS, total_timesteps=10**6)
        self.daemon.wait_state(self.blocker, "EXEC")

    def at_the_gate(self) -> None:
        wait_for("the run to wait at its gate", lambda: len(steps_of(self.daemon, self.run_id)) == HELD_AT - 1)

    def strike(self) -> None:
        """The disk is full from here on, and with it comes what else is to happen."""
        if self.way == "greedy":
            self.fault.enter_context(self.disk.eaten())
        else:
            self.disk.fill()
        self.disk.fill_last_pages()
        if self.way == "killed":
            self.daemon.kill()
            self.daemon.start()

    def relent(self) -> None:
        self.fault.close()
        self.disk.free()


# ---- phases: each brings the run somewhere and lets the fault strike there -----------------------------------------


def queued(stage: Stage) -> None:
    stage.submit_blocker()
    stage.submit()
    stage.strike()
    assert stage.daemon.client.run(stage.run_id).state == "INIT"


def launching(stage: Stage) -> None:
    """Its turn comes when nothing can be written any more."""
    stage.submit_blocker()
    stage.submit()
    stage.strike()
    stage.daemon.client.cancel(stage.blocker)
    stage.daemon.wait_over(stage.blocker)
    wait_for("the run to say what it waits for", lambda: "space" in stage.daemon.client.run(stage.run_id).reason)
    assert stage.daemon.client.run(stage.run_id).state == "HSHK"


def handshake(stage: Stage) -> None:
    """Its process lives, and cannot claim its launch."""
    before = stage.gate.with_name("before")
    stage.submit(gate_before=str(before))
    wait_for("the launch", lambda: stage.daemon.client.run(stage.run_id).pid)
    stage.strike()
    before.touch()
    wait_for("the run to say what it waits for", lambda: "space" in stage.daemon.client.run(stage.run_id).reason)


def executing(stage: Stage) -> None:
    stage.submit()
    stage.at_the_gate()
    stage.strike()


def paused(stage: Stage) -> None:
    stage.submit()
    stage.at_the_gate()
    stage.daemon.client.pause(stage.run_id)
    stage.gate.touch()
    stage.daemon.wait_state(stage.run_id, "PAUSE")
    stage.strike()
    assert stage.daemon.client.run(stage.run_id).state == "PAUSE"


def stopping(stage: Stage) -> None:
    """It was asked to stop and does not heed it."""
    stage.submit(misbehave="ignore_stop", at_step=5)
    wait_for("the worker to go deaf", lambda: len(steps_of(stage.daemon, stage.run_id)) == 5)
    stage.daemon.client.cancel(stage.run_id, "enough")
    stage.strike()


def closing(stage: Stage) -> None:
    """Its worker is dead, and the daemon has not read the end of its journal yet."""
    stage.submit(misbehave="kill_self", at_step=STEPS)
    stage.at_the_gate()
    worker = worker_of(stage.daemon, stage.run_id)
    stage.daemon.signal(signal.SIGSTOP)
    stage.gate.touch()
    wait_for("the worker to die", lambda: not worker.is_alive())
    if stage.way == "killed":
        stage.daemon.kill()
        stage.disk.fill()
        stage.daemon.start()
    else:
        stage.strike()
        stage.daemon.signal(signal.SIGCONT)


PHASES = {phase.__name__: phase for phase in (queued, launching, handshake, executing, paused, stopping, closing)}
WAYS = ("full", "killed", "greedy")
ENDINGS = ("cancel", "go_on")
MATRIX = [(phase, way, ending) for phase in PHASES for way in WAYS for ending in ENDINGS]
SEED = 9


def drawn(seed: int) -> list[tuple[str, str, str]]:
    """Every phase once, every way and ending about equally often."""
    chance = random.Random(seed)
    offset = chance.randrange(len(WAYS))
    return [(name, WAYS[(n + offset) % len(WAYS)], chance.choice(ENDINGS)) for n, name in enumerate(PHASES)]


@pytest.mark.parametrize(("phase", "way", "ending"), drawn(SEED))
@on_a_small_disk
def test_a_full_disk_loses_no_run(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path, phase: str, way: str, ending: str
) -> None:
    go_through(disk, make_daemon, tmp_path, phase, way, ending)


@pytest.mark.nightly
@pytest.mark.parametrize(("phase", "way", "ending"), MATRIX)
@on_a_small_disk
def test_a_full_disk_loses_no_run_in_any_phase(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], tmp_path: Path, phase: str, way: str, ending: str
) -> None:
    go_through(disk, make_daemon, tmp_path, phase, way, ending)


def go_through(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess], folder: Path, phase: str, way: str, ending: str
) -> None:
    daemon = make_daemon(home=disk.mount() / "home", cpus=CPUS, stop_seconds=1).start()
    with ExitStack() as fault:
        stage = Stage(disk, daemon, folder / "gate", way, fault)
        PHASES[phase](stage)
        see_that_it_can_be_looked_at(stage)
        if phase == "stopping":
            outcomes = {"canceled"}
        elif phase == "closing":
            outcomes = {"failed", "lost"}
        elif ending == "cancel":
            outcomes = {"canceled"}
            daemon.client.cancel(stage.run_id, "enough")
        else:
            outcomes = {"completed"}
            if phase == "paused":
                assert daemon.client.resume(stage.run_id).desired == "run"
            stage.relent()
            stage.gate.touch()
            if stage.blocker and phase == "queued":
                daemon.client.cancel(stage.blocker)
        run = daemon.wait_over(stage.run_id)
        assert run.outcome in outcomes, run.reason
        see_that_it_is_over(stage, run.outcome)
        if ending == "cancel" or phase in ("stopping", "closing"):
            stage.relent()
    see_that_all_is_well(stage)


def see_that_it_can_be_looked_at(stage: Stage) -> None:
    client = stage.daemon.client
    assert stage.run_id in {run.run_id for run in client.runs(size=10).runs}
    assert client.history(stage.run_id)
    list(client.logs(stage.run_id))


def see_that_it_is_over(stage: Stage, outcome: str) -> None:
    assert stage.daemon.processes(stage.run_id) == []
    assert stage.daemon.starts(stage.run_id) <= 1
    if outcome != "canceled":
        assert steps_of(stage.daemon, stage.run_id) == list(range(1, STEPS + 1))
    elif "worker" in streams(stage.daemon.paths.run(stage.run_id).outbox):
        assert len(steps_of(stage.daemon, stage.run_id)) <= journalled(stage.daemon, stage.run_id)


def see_that_all_is_well(stage: Stage) -> None:
    """With space again everything works as ever."""
    if stage.blocker and not stage.daemon.client.run(stage.blocker).outcome:
        stage.daemon.client.cancel(stage.blocker)
    later = wait_for("space", lambda: stage.daemon.submit(name="later", total_timesteps=3))
    assert stage.daemon.wait_over(later).outcome == "completed"
    assert stage.daemon.client.health().reserved.cpus == 0
    assert stage.daemon.terminate() == 0
    for path in (stage.daemon.paths.registry_db, stage.daemon.paths.telemetry_db):
        check_integrity(path)


# ---- a stop is a stop ------------------------------------------------------------------------------------------------


@on_a_small_disk
def test_twenty_runs_in_a_row_can_be_cancelled_beside_a_greedy_writer(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = make_daemon(home=disk.mount() / "home", cpus=CPUS, stop_seconds=1).start()
    runs = [daemon.submit(name=f"run-{number}", total_timesteps=10**6) for number in range(20)]
    for run_id in runs[:CPUS]:
        daemon.wait_state(run_id, "EXEC")
    with disk.eaten():
        for run_id in runs:
            daemon.client.cancel(run_id, "the disk is full")
        for run_id in runs:
            run = daemon.wait_over(run_id)
            assert run.outcome == "canceled", run.reason
        assert not any(daemon.processes(run_id) for run_id in runs)
        daemon.kill()
        daemon.start()
        assert {run.outcome for run in daemon.client.runs(size=100).runs} == {"canceled"}


@on_a_small_disk
def test_a_daemon_starts_again_and_again_beside_a_greedy_writer(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    live = daemon.submit(total_timesteps=10**6)
    daemon.wait_state(live, "EXEC")
    with disk.eaten():
        for leave in (daemon.kill, daemon.terminate, daemon.kill):
            leave()
            daemon.start()
            assert daemon.client.run(live).state == "EXEC"
        daemon.client.cancel(live)
        assert daemon.wait_over(live).outcome == "canceled"


def test_a_worker_is_ended_also_where_the_request_cannot_be_stored(make_daemon: Callable[..., DaemonProcess]) -> None:
    """A limit on the size of files stands in for a disk on which not even the space of the database itself is left."""
    daemon = make_daemon(stop_seconds=0.5).start()
    run_id = daemon.client.submit(toy_config(total_timesteps=10**6, misbehave="ignore_stop", at_step=5)).run.run_id
    wait_for("the worker to go deaf", lambda: len(steps_of(daemon, run_id)) == 5)
    worker = worker_of(daemon, run_id)
    assert daemon.process is not None
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    daemon.client.cancel(run_id, "enough")
    wait_for("the worker to be ended", lambda: not worker.is_alive())
    assert daemon.client.run(run_id).state != "TERM"
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled" and "enough" in run.reason
    causes = [move.cause for move in daemon.client.history(run_id)]
    assert causes.count("CancelRequested") == causes.count("KillDue") == 1
