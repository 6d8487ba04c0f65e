"""Supervisor or script dies, hangs or hides: the right outcome, the signal in its sentence, and nothing left behind."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_gui.tests.support.cleanrl_runs import (
    MODES,
    cleanrl_daemon,
    fork_servers_of,
    identities,
    script_of,
    submit_script,
    wait_until_warm,
)
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import steps_of, worker_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.run_manifest import read_manifest

ENDLESS = 1_000_000
GONE_WITHIN = 5.0


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shared_daemon(mode: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with cleanrl_daemon(tmp_path_factory.mktemp(mode) / "home", mode) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared_daemon: DaemonProcess, mode: str) -> DaemonProcess:
    """A daemon that answers and whose next run starts in the wanted way."""
    if mode == "warm":
        wait_until_warm(shared_daemon)
    return shared_daemon


# ---- supervisor and script ---------------------------------------------------------------------------------------


@dataclass
class Case:
    """A run that trains, what is done to it, and what becomes of its processes."""

    daemon: DaemonProcess
    run_id: str
    fault: str
    family: list[ProcessIdentity]
    """Supervisor, script, grandchildren."""
    struck_at: float = math.inf
    gone_at: float = math.inf

    def strike(self) -> None:
        self.struck_at = time.monotonic()
        if self.fault == "cancel":
            self.daemon.client.cancel(self.run_id, "enough")
        else:
            send_signal(self.family[0] if self.fault == "kill supervisor" else self.family[1], signal.SIGKILL)

    def look(self) -> bool:
        """Note when the last process ended; True when it has."""
        if self.gone_at == math.inf and not any(process.is_alive() for process in self.family):
            self.gone_at = time.monotonic()
        return self.gone_at < math.inf

    def ending(self) -> pb.Run:
        """The run when it is over, of which nothing must be left then."""
        run = self.daemon.wait_over(self.run_id)
        assert not any(process.is_alive() for process in self.family)
        assert self.daemon.processes(self.run_id) == []
        return run

    def checkpoints(self) -> list[str]:
        """As ``analytics.json`` lists them once it is closed, which must agree with the disk."""
        folders = self.daemon.paths.run(self.run_id)
        wait_for("analytics.json to be closed", lambda: read_manifest(folders).get("outcome"))
        told = read_manifest(folders)["checkpoints"]
        assert told == sorted(f"checkpoints/{entry.name}" for entry in folders.checkpoints.glob("step-*"))
        return list(told)


FAULTS = {
    "obedient script": ("kill supervisor", "kill script"),
    "hang": ("kill supervisor", "cancel"),
    "have_grandchildren": ("kill supervisor", "kill script", "cancel"),
    "leave_session": ("cancel",),
}


@pytest.fixture(scope="module")
def cases(shared_daemon: DaemonProcess, mode: str) -> dict[tuple[str, str], Case]:
    """All of them side by side on one daemon: every one waits for the same few seconds of patience."""
    if mode == "warm":
        wait_until_warm(shared_daemon)
    runs = {(what, fault): _submitted(shared_daemon, what) for what, faults in FAULTS.items() for fault in faults}
    begun = {key: _training(shared_daemon, mode, run_id, key[1]) for key, run_id in runs.items()}
    for case in begun.values():
        case.strike()
    wait_for("all processes to end", lambda: _all_gone(begun.values()))
    return begun


def _all_gone(cases: Iterable[Case]) -> bool:
    seen = [case.look() for case in cases]  # at every one of them, also when the first still lives
    return all(seen)


def _submitted(daemon: DaemonProcess, what: str) -> str:
    if what == "obedient script":
        return submit_script(daemon, "obedient", total_timesteps=ENDLESS, checkpoint_seconds=0.5)
    return submit_script(daemon, "misbehaving", how=what)


def _training(daemon: DaemonProcess, mode: str, run_id: str, fault: str) -> Case:
    """A case whose run has begun; a misbehaving script has noted by then which processes it consists of."""
    assert daemon.wait_state(run_id, "EXEC").start_mode == mode
    supervisor, script = worker_of(daemon, run_id), script_of(daemon, run_id)
    noted = daemon.paths.run(run_id).directory / "pids.json"
    family = identities(json.loads(noted.read_text())) if noted.exists() else [script]
    assert family[0] == script
    return Case(daemon, run_id, fault, [supervisor, *family])


@pytest.mark.parametrize("what", ["obedient script", "hang", "have_grandchildren"])
def test_a_killed_supervisor_fails_the_run_and_takes_everything_along(
    cases: dict[tuple[str, str], Case], what: str
) -> None:
    run = cases[what, "kill supervisor"].ending()
    assert run.outcome == "failed"
    assert run.reason.startswith("the worker was killed by signal 9 (SIGKILL)")


def test_a_script_whose_supervisor_was_killed_still_wrote_its_last_checkpoint(
    cases: dict[tuple[str, str], Case],
) -> None:
    case = cases["obedient script", "kill supervisor"]
    case.ending()
    (checkpoint,) = case.checkpoints()
    steps = steps_of(case.daemon, case.run_id)
    assert steps == list(range(1, len(steps) + 1))
    assert int(checkpoint.rpartition("-")[2]) == len(steps)


def test_a_killed_script_fails_the_run_with_the_signal_in_its_sentence(cases: dict[tuple[str, str], Case]) -> None:
    case = cases["obedient script", "kill script"]
    run = case.ending()
    assert (run.outcome, run.reason) == ("failed", "the script was killed by signal 9 (SIGKILL)")
    assert case.checkpoints() == []


def test_grandchildren_do_not_outlive_a_killed_script(cases: dict[tuple[str, str], Case]) -> None:
    case = cases["have_grandchildren", "kill script"]
    assert len(case.family) == 5
    run = case.ending()
    assert (run.outcome, run.reason) == ("failed", "the script was killed by signal 9 (SIGKILL)")


@pytest.mark.parametrize("what", ["hang", "have_grandchildren", "leave_session"])
def test_a_cancelled_run_leaves_no_process_within_five_seconds(cases: dict[tuple[str, str], Case], what: str) -> None:
    """Not a script deaf to every request, not one that left its session, and no grandchild: a plain one, one in a
    session of its own, one forked twice."""
    case = cases[what, "cancel"]
    run = case.ending()
    assert run.outcome == "canceled"
    assert run.reason.startswith("canceled: enough; ")
    assert case.gone_at - case.struck_at < GONE_WITHIN


def test_a_script_that_stops_when_asked_is_not_killed(cases: dict[tuple[str, str], Case]) -> None:
    case = cases["have_grandchildren", "cancel"]
    assert case.ending().reason == "canceled: enough; stopped at step 0"
    assert "KillDue" not in [move.cause for move in case.daemon.client.history(case.run_id)]


@pytest.mark.parametrize("what", ["hang", "leave_session"])
def test_a_deaf_script_is_killed_and_the_sentence_says_so(cases: dict[tuple[str, str], Case], what: str) -> None:
    case = cases[what, "cancel"]
    assert case.ending().reason == "canceled: enough; killed by signal 9 (SIGKILL)"
    assert "KillDue" in [move.cause for move in case.daemon.client.history(case.run_id)]


# ---- the daemon and the fork server die ------------------------------------------------------------------------


def outlive_the_daemon(case: Case, gate: Path) -> None:
    """Kill the daemon, start the next one, and see the run adopted and completed."""
    case.daemon.kill()
    assert all(process.is_alive() for process in case.family)
    case.daemon.start()
    assert case.daemon.client.run(case.run_id).pid == case.family[0].pid
    gate.touch()
    run = case.ending()
    assert (run.outcome, run.reason, run.attempt) == ("completed", "completed 50 steps", 1)
    assert steps_of(case.daemon, case.run_id) == list(range(1, 51))


@pytest.mark.parametrize("mode", ["cold"], indirect=True, scope="module")
def test_a_run_outlives_its_daemon(daemon: DaemonProcess, mode: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = submit_script(daemon, "obedient", total_timesteps=50, gate=str(gate))
    outlive_the_daemon(_training(daemon, mode, run_id, "kill daemon"), gate)


@pytest.mark.parametrize("mode", ["warm"], indirect=True, scope="module")
def test_a_warm_run_outlives_its_fork_server_and_then_its_daemon(
    daemon: DaemonProcess, mode: str, tmp_path: Path
) -> None:
    """One run for both: without its fork server the next run starts cold."""
    gate = tmp_path / "gate"
    run_id = submit_script(daemon, "obedient", total_timesteps=50, gate=str(gate))
    case = _training(daemon, mode, run_id, "kill fork server and daemon")
    (server,) = fork_servers_of(daemon)
    send_signal(server, signal.SIGKILL)
    wait_for("the fork server to be gone", lambda: not server.is_alive())
    following = daemon.wait_over(submit_script(daemon, "obedient", total_timesteps=5))
    assert (following.outcome, following.start_mode) == ("completed", "cold"), following.reason
    outlive_the_daemon(case, gate)
