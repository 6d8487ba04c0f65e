"""A worker's conversation with a daemon that dies, comes back elsewhere, refuses and forgets."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from mosaic_protocol import claims, events
from mosaic_protocol.endpoint import Endpoint
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceServicer, add_TrainerServiceServicer_to_server
from mosaic_protocol.states import Desired
from mosaic_protocol.unix_socket import dialled
from mosaic_protocol.worker_client import EXIT_REVOKED, LaunchRevokedError, WorkerContext, WorkerSession

PATIENCE = 60.0
RUN_ID = "01K9ZQ3V7X0000000000000000"


def until(what: str, probe: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := probe()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)
    return found


@dataclass
class Memory:
    """What survives the death of a daemon: its store and its registry."""

    lines: dict[str, list[bytes]] = field(default_factory=dict)
    launch_token: str = "launch"
    sessions: list[str] = field(default_factory=list)
    registrations: list[pb.RegisterWorkerRequest] = field(default_factory=list)
    beats: list[pb.HeartbeatRequest] = field(default_factory=list)
    desired: Desired = Desired.RUN
    refusal: tuple[grpc.StatusCode, str] | None = None
    refused: int = 0
    lost_acks: int = 0
    """So many acknowledgements are lost after the records were stored."""

    def records(self, stream: str = "worker") -> list[events.Record]:
        return [events.decode(line) for line in self.lines.get(stream, [])]

    def words(self) -> list[str]:
        return [record.event for record in self.records() if isinstance(record, events.RunLifecycleEvent)]

    def steps(self, stream: str = "worker") -> list[int]:
        return [record.step for record in self.records(stream) if isinstance(record, events.MetricRow)]


class _Service(TrainerServiceServicer):
    """The worker's half of the daemon, on a store in memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._listeners: set[queue.SimpleQueue[pb.ControlMessage | None]] = set()

    def wish(self, desired: Desired, reason: str = "", grace: float = 0.0) -> None:
        self._memory.desired = desired
        for listener in list(self._listeners):
            listener.put(pb.ControlMessage(desired=desired, reason=reason, grace_seconds=grace))

    def _check(self, context: grpc.ServicerContext, tokens: list[str]) -> None:
        if self._memory.refusal is not None:
            self._memory.refused += 1
            context.abort(*self._memory.refusal)
        shown = dict(context.invocation_metadata()).get("authorization")
        if shown not in [f"Bearer {token}" for token in tokens]:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "the token does not belong to this run")

    def RegisterWorker(self, request: pb.RegisterWorkerRequest, context: Any) -> pb.RegisterWorkerResponse:
        self._check(context, [self._memory.launch_token])
        self._memory.registrations.append(request)
        self._memory.sessions.append(f"session-{len(self._memory.sessions)}")
        return pb.RegisterWorkerResponse(
            session_token=self._memory.sessions[-1], heartbeat_seconds=0.02, desired=self._memory.desired
        )

    def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatResponse:
        self._check(context, self._memory.sessions[-1:])
        self._memory.beats.append(request)
        return pb.HeartbeatResponse(desired=self._memory.desired)

    def PublishRecords(self, batches: Iterator[pb.RecordBatch], context: Any) -> Iterator[pb.RecordAck]:
        for batch in batches:
            self._check(context, self._memory.sessions[-1:])
            stored = self._memory.lines.setdefault(batch.stream, [])
            assert not batch.lines or batch.first_seq <= len(stored) + 1, "a gap"
            fresh = [line for seq, line in enumerate(batch.lines, batch.first_seq) if seq > len(stored)]
            stored += fresh
            if fresh and self._memory.lost_acks:
                self._memory.lost_acks -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "killed in the middle")
            yield pb.RecordAck(stream=batch.stream, acked_seq=len(stored))

    def ControlStream(self, request: pb.ControlHello, context: Any) -> Iterator[pb.ControlMessage]:
        self._check(context, self._memory.sessions[-1:])
        wishes: queue.SimpleQueue[pb.ControlMessage | None] = queue.SimpleQueue()
        self._listeners.add(wishes)
        context.add_callback(lambda: wishes.put(None))
        yield pb.ControlMessage(desired=self._memory.desired)
        while (message := wishes.get()) is not None:
            yield message
        self._listeners.discard(wishes)


class Daemon:
    """A daemon that can be killed and started again with the same memory."""

    def __init__(self, home: Path) -> None:
        self.memory = Memory()
        self._home = MosaicPaths(home)
        self._home.trainer.mkdir(parents=True)
        self._server: grpc.Server | None = None
        self._threads: ThreadPoolExecutor | None = None
        self.service = _Service(self.memory)

    def start(self) -> Daemon:
        self._threads = ThreadPoolExecutor(16)
        self._server = grpc.server(self._threads)
        self.service = _Service(self.memory)
        add_TrainerServiceServicer_to_server(self.service, self._server)
        self._server.add_insecure_port(f"unix:{dialled(self._home.socket)}")
        self._server.start()
        return self

    def kill(self) -> None:
        """Break every call off at once."""
        if self._server is not None and self._threads is not None:
            self._server.stop(None).wait(PATIENCE)
            self._threads.shutdown()
        self._server = None


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "home")
    yield made
    made.kill()


@pytest.fixture
def context(daemon: Daemon, tmp_path: Path) -> WorkerContext:
    run_dir = MosaicPaths(tmp_path / "home").run(RUN_ID).directory
    run_dir.mkdir(parents=True)
    return WorkerContext(RUN_ID, run_dir, 1, "launch", tmp_path / "home")


@pytest.fixture
def session(context: WorkerContext) -> Iterator[WorkerSession]:
    """A session that talks. Its claim is left out: it would stay open for as long as the tests."""
    made = WorkerSession(context, {"algo": "count"})
    made.open(claim=False)
    yield made
    made.finish(0.0)


def count(session: WorkerSession, first: int, last: int) -> None:
    for step in range(first, last + 1):
        session.metric(step, {"loss": step / 2})


# ---- handshake -----------------------------------------------------------------------------------


def test_the_handshake_says_who_the_worker_is_and_what_it_can(daemon: Daemon, session: WorkerSession) -> None:
    assert not session.wait_registered(0.0)
    daemon.start()
    assert session.wait_registered(PATIENCE)
    assert session.registered
    (request,) = daemon.memory.registrations
    me = ProcessIdentity.current()
    assert (request.run_id, request.pid, request.start_ticks) == (RUN_ID, me.pid, me.start_ticks)
    assert request.capabilities_json == '{"algo": "count"}'


def test_the_session_token_is_kept_over_a_restart_of_the_daemon(daemon: Daemon, session: WorkerSession) -> None:
    daemon.start()
    assert session.wait_registered(PATIENCE)
    daemon.kill()
    daemon.start()
    beats = len(daemon.memory.beats)
    until("a beat to the new daemon", lambda: len(daemon.memory.beats) > beats)
    assert len(daemon.memory.registrations) == 1


def test_what_is_wanted_at_the_handshake_is_heard(daemon: Daemon, session: WorkerSession) -> None:
    daemon.memory.desired = Desired.STOP
    daemon.start()
    assert session.wait_desired_change(Desired.RUN, PATIENCE) is Desired.STOP


# ---- publishing ----------------------------------------------------------------------------------


def test_everything_is_published_in_order_and_finish_says_so(daemon: Daemon, session: WorkerSession) -> None:
    daemon.start()
    session.started(total_steps=2500)
    count(session, 1, 2500)
    session.lifecycle(events.RUN_COMPLETED, "done")
    assert session.finish(PATIENCE)
    assert daemon.memory.steps() == list(range(1, 2501))
    assert daemon.memory.words() == [events.RUN_STARTED, events.RUN_COMPLETED]
    assert [record.seq for record in daemon.memory.records()] == list(range(1, 2503))


def test_every_record_arrives_once_while_the_daemon_dies_again_and_again(
    daemon: Daemon, session: WorkerSession
) -> None:
    def write() -> None:
        for step in range(1, 1501):
            count(session, step, step)
            time.sleep(0.0005)

    writing = threading.Thread(target=write)
    writing.start()
    for number in range(4):
        daemon.memory.lost_acks = number % 2
        daemon.start()
        _wait_for_more(daemon, writing)
        daemon.kill()
    writing.join(PATIENCE)
    daemon.start()
    assert session.finish(PATIENCE)
    assert daemon.memory.steps() == list(range(1, 1501))


def _wait_for_more(daemon: Daemon, writing: threading.Thread) -> None:
    stored = len(daemon.memory.steps())
    until("some records to arrive", lambda: len(daemon.memory.steps()) > stored or not writing.is_alive())


def test_records_whose_acknowledgement_was_lost_are_not_stored_twice(daemon: Daemon, session: WorkerSession) -> None:
    daemon.memory.lost_acks = 2
    daemon.start()
    count(session, 1, 10)
    until("the first loss", lambda: daemon.memory.lost_acks < 2)
    count(session, 11, 20)
    assert session.finish(PATIENCE)
    assert daemon.memory.steps() == list(range(1, 21))


def test_a_worker_starts_and_works_while_the_daemon_is_away(daemon: Daemon, session: WorkerSession) -> None:
    session.started(10)
    count(session, 1, 10)
    assert session.safe_point(10)
    daemon.start()
    assert session.finish(PATIENCE)
    assert daemon.memory.steps() == list(range(1, 11))


def test_a_worker_on_another_machine_leaves_when_neither_daemon_nor_agent_can_be_reached(
    context: WorkerContext,
) -> None:
    """Beside its daemon it goes on, and so it does while the agent is there."""
    agent = context.home / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(agent))
        listening.listen()
        far = WorkerSession(replace(context, agent=agent, leave_seconds=0.3))
        far.open(claim=False)
        far.started()
        time.sleep(1.0)  # several times as long as it would wait
        assert far.desired is Desired.RUN, "the agent is there"
    until("the worker to leave", lambda: far.desired is Desired.STOP)
    assert "could be reached for 0.3 s" in far.stop_reason
    far.finish(timeout=0)


def test_finish_gives_up_when_the_daemon_stays_away_and_the_outbox_keeps_everything(
    daemon: Daemon, session: WorkerSession, context: WorkerContext
) -> None:
    count(session, 1, 10)
    assert not session.finish(0.2)
    reader = OutboxReader(session.run.outbox, "worker")
    lines = reader.read()
    reader.close()
    assert [record.step for record in map(events.decode, lines) if isinstance(record, events.MetricRow)] == list(
        range(1, 11)
    )


def test_what_an_earlier_process_of_the_run_left_is_published_too(daemon: Daemon, context: WorkerContext) -> None:
    script = OutboxWriter(context.run_dir / "outbox", "script")
    script.append(events.MetricRow(step=1, values={}))
    session = WorkerSession(context)
    session.open(claim=False)
    daemon.start()
    until("the script's journal", lambda: daemon.memory.steps("script") == [1])
    script.append(events.MetricRow(step=2, values={}))
    until("what it appends later", lambda: daemon.memory.steps("script") == [1, 2])
    script.close()
    assert session.finish(PATIENCE)


def test_values_of_other_number_types_are_taken(daemon: Daemon, session: WorkerSession) -> None:
    """numpy's and torch's scalars are what training code has at hand."""

    class Scalar(float):
        pass

    class Index:
        def __index__(self) -> int:
            return 7

        __int__ = __index__

    daemon.start()
    session.metric(Index(), {"a": Scalar(1.5), "b": 2, "c": None, "d": float("nan")})  # type: ignore[arg-type]
    assert session.finish(PATIENCE)
    (row,) = daemon.memory.records()
    assert isinstance(row, events.MetricRow)
    assert (row.step, row.values) == (7, {"a": 1.5, "b": 2.0, "c": None, "d": None})


def test_a_value_that_is_no_number_is_refused_where_it_was_logged(daemon: Daemon, session: WorkerSession) -> None:
    """In the journal it would be refused by the daemon for ever, and everything behind it with it."""
    daemon.start()
    for step, values in ((1, {"a": "high"}), ("one", {"a": 1.0})):
        with pytest.raises((TypeError, ValueError)):
            session.metric(step, values)  # type: ignore[arg-type]
    session.metric(2, {"a": 1.0})
    assert session.finish(PATIENCE)
    assert daemon.memory.steps() == [2]


# ---- heartbeats ----------------------------------------------------------------------------------


def test_heartbeats_carry_step_total_and_phase(daemon: Daemon, session: WorkerSession) -> None:
    daemon.start()
    until("the first beat", lambda: daemon.memory.beats)
    assert (daemon.memory.beats[0].run_id, daemon.memory.beats[0].phase) == (RUN_ID, "starting")
    session.started(total_steps=50)
    session.metric(7, {})
    last = until("the news", lambda: [beat for beat in daemon.memory.beats if beat.step == 7])[-1]
    assert (last.total_steps, last.phase) == (50, "training")


@pytest.mark.parametrize("step", [-5, 2**70])
def test_no_step_counter_silences_the_beats(daemon: Daemon, session: WorkerSession, step: int) -> None:
    session.progress(step)
    daemon.start()
    until("beats", lambda: len(daemon.memory.beats) > 3)


# ---- what the daemon wants -----------------------------------------------------------------------


def test_pause_holds_at_a_safe_point_and_resume_lets_go(daemon: Daemon, session: WorkerSession) -> None:
    daemon.start()
    assert session.wait_registered(PATIENCE)
    until("somebody who listens", lambda: daemon.service._listeners)
    daemon.service.wish(Desired.PAUSE)
    assert session.wait_desired_change(Desired.RUN, PATIENCE) is Desired.PAUSE
    passed: list[bool] = []
    working = threading.Thread(target=lambda: passed.append(session.safe_point(5)))
    working.start()
    until("the pause to be reported", lambda: events.RUN_PAUSED in daemon.memory.words())
    until("a beat of it", lambda: daemon.memory.beats[-1].phase == "paused")
    assert not passed
    daemon.service.wish(Desired.RUN)
    working.join(PATIENCE)
    assert passed == [True]
    assert session.finish(PATIENCE)
    assert daemon.memory.words() == [events.RUN_PAUSED, events.RUN_RESUMED]


def test_a_pause_is_kept_over_a_restart_of_the_daemon(daemon: Daemon, session: WorkerSession) -> None:
    daemon.memory.desired = Desired.PAUSE
    daemon.start()
    assert session.wait_desired_change(Desired.RUN, PATIENCE) is Desired.PAUSE
    daemon.kill()
    daemon.start()
    until("beats to the new daemon", lambda: len(daemon.memory.beats) > 3)
    assert session.desired is Desired.PAUSE


def test_a_stop_ends_a_pause_and_no_resume_is_reported(daemon: Daemon, session: WorkerSession) -> None:
    daemon.memory.desired = Desired.PAUSE
    daemon.start()
    assert session.wait_desired_change(Desired.RUN, PATIENCE) is Desired.PAUSE
    passed: list[bool] = []
    working = threading.Thread(target=lambda: passed.append(session.safe_point(5)))
    working.start()
    until("the pause to be reported", lambda: events.RUN_PAUSED in daemon.memory.words())
    daemon.service.wish(Desired.STOP, "enough", 7.5)
    working.join(PATIENCE)
    assert passed == [False]
    assert session.finish(PATIENCE)
    assert daemon.memory.words() == [events.RUN_PAUSED]


def test_a_stop_comes_with_its_reason_and_its_grace(daemon: Daemon, session: WorkerSession) -> None:
    daemon.start()
    until("somebody who listens", lambda: daemon.service._listeners)
    daemon.service.wish(Desired.STOP, "enough", 7.5)
    session.wait_desired_change(Desired.RUN, PATIENCE)
    assert (session.desired, session.stop_reason, session.grace_seconds) == (Desired.STOP, "enough", 7.5)
    assert not session.safe_point(1)


def test_nothing_takes_a_stop_back(session: WorkerSession) -> None:
    session.request(Desired.STOP, "enough")
    session.request(Desired.RUN, "go on")
    assert (session.desired, session.stop_reason) == (Desired.STOP, "enough")


def test_the_owner_of_the_session_hears_of_changes(daemon: Daemon, context: WorkerContext) -> None:
    session = WorkerSession(context)
    told = threading.Event()
    session.on_change = told.set
    session.open(claim=False)
    daemon.start()
    assert told.wait(PATIENCE)
    session.finish(0.0)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["handshake", "later"])
def test_a_worker_that_is_fenced_off_stops(daemon: Daemon, session: WorkerSession, when: str) -> None:
    if when == "later":
        daemon.start()
        assert session.wait_registered(PATIENCE)
    daemon.memory.refusal = (grpc.StatusCode.PERMISSION_DENIED, "the run is over")
    daemon.kill()
    daemon.start()
    assert session.wait_desired_change(Desired.RUN, PATIENCE) is Desired.STOP
    assert session.stop_reason == "the run is over"
    assert not session.wait_registered(0.0) or when == "later"


@pytest.mark.parametrize(
    "status",
    [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INVALID_ARGUMENT,
    ],
)
def test_a_daemon_in_trouble_does_not_stop_the_worker(
    daemon: Daemon, session: WorkerSession, status: grpc.StatusCode
) -> None:
    """A registry that was lost may come back; a run is not given up for that."""
    daemon.memory.refusal = (status, "not now")
    daemon.start()
    count(session, 1, 5)
    assert not session.wait_registered(0.3)
    assert session.safe_point(5)
    daemon.memory.refusal = None
    assert session.finish(PATIENCE)
    assert daemon.memory.steps() == [1, 2, 3, 4, 5]


def test_a_refused_record_is_logged_once_in_the_workers_own_log(
    daemon: Daemon, session: WorkerSession, capfd: pytest.CaptureFixture[str]
) -> None:
    daemon.memory.refusal = (grpc.StatusCode.INVALID_ARGUMENT, "record 3: not a record")
    daemon.start()
    count(session, 1, 5)
    until("a third refusal", lambda: daemon.memory.refused >= 3)
    daemon.memory.refusal = None
    assert session.finish(PATIENCE)
    assert capfd.readouterr().err.count("refuses what this worker says (record 3: not a record)") == 1


# ---- as a context manager ------------------------------------------------------------------------


def test_a_block_that_ends_well_says_so(daemon: Daemon, context: WorkerContext, own_sigterm: None) -> None:
    daemon.start()
    with _without_claim(context) as session:
        session.started(3)
        session.metric(3, {})
    assert daemon.memory.words() == [events.RUN_STARTED, events.RUN_COMPLETED]


def test_a_block_that_fails_says_why_and_lets_the_error_through(
    daemon: Daemon, context: WorkerContext, own_sigterm: None
) -> None:
    daemon.start()
    with pytest.raises(ZeroDivisionError), _without_claim(context):
        _ = 1 / 0
    last = daemon.memory.records()[-1]
    assert isinstance(last, events.RunLifecycleEvent)
    assert (last.event, last.sentence) == (events.RUN_FAILED, "ZeroDivisionError: division by zero")


def test_a_block_that_was_stopped_says_so(daemon: Daemon, context: WorkerContext, own_sigterm: None) -> None:
    daemon.start()
    with _without_claim(context) as session:
        os.kill(os.getpid(), signal.SIGTERM)
        until("the signal", lambda: session.desired is Desired.STOP)
        assert not session.safe_point(4)
    assert daemon.memory.words() == [events.RUN_STOPPED]


def test_a_last_word_is_said_once(daemon: Daemon, context: WorkerContext, own_sigterm: None) -> None:
    daemon.start()
    with _without_claim(context) as session:
        session.lifecycle(events.RUN_FAILED, "my own words")
    assert daemon.memory.words() == [events.RUN_FAILED]


@pytest.fixture
def own_sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _without_claim(context: WorkerContext) -> WorkerSession:
    session = WorkerSession(context)
    session.claim = lambda: None  # type: ignore[method-assign]
    return session


# ---- launches ------------------------------------------------------------------------------------

_WORKER = """
import os, subprocess, sys
from mosaic_protocol.worker_client import WorkerSession
with WorkerSession.from_environment() as session:
    assert "MOSAIC_LAUNCH_TOKEN" not in os.environ
    print("began", subprocess.run(["printenv", "MOSAIC_LAUNCH_TOKEN"], capture_output=True).stdout, flush=True)
    session._stop_talking.set()
    session.finish(0.0)
    os._exit(0)
"""


def environment(context: WorkerContext) -> dict[str, str]:
    return {
        **os.environ,
        "MOSAIC_RUN_ID": context.run_id,
        "MOSAIC_RUN_DIR": str(context.run_dir),
        "MOSAIC_ATTEMPT": str(context.attempt),
        "MOSAIC_LAUNCH_TOKEN": context.launch_token,
        "MOSAIC_HOME": str(context.home),
    }


def run_worker(context: WorkerContext) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WORKER],
        env=environment(context),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_a_worker_claims_its_launch_and_hides_its_token_from_its_children(context: WorkerContext) -> None:
    done = run_worker(context)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "began b''\n"
    assert claims.claimant(context.run_dir / "claims", 1) is not None


def test_a_worker_whose_launch_was_revoked_leaves_without_a_trace(context: WorkerContext) -> None:
    claims.revoke(context.run_dir / "claims", 1)
    done = run_worker(context)
    assert (done.returncode, done.stdout) == (EXIT_REVOKED, "")
    assert not (context.run_dir / "outbox").exists()


def test_the_same_launch_does_not_begin_twice(context: WorkerContext) -> None:
    assert [run_worker(context).returncode for _ in range(2)] == [0, EXIT_REVOKED]


def test_a_revoked_launch_is_reported_to_those_who_claim_by_themselves(context: WorkerContext) -> None:
    claims.revoke(context.run_dir / "claims", 1)
    with pytest.raises(LaunchRevokedError):
        WorkerSession(context).open()


def test_a_context_is_read_from_the_environment_and_the_token_taken_out(
    context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environment(context), "MOSAIC_GRPC_TARGET": context.target}.items():
        monkeypatch.setenv(name, value)
    assert WorkerContext.from_environment() == context
    assert "MOSAIC_LAUNCH_TOKEN" not in os.environ
    assert context.launch_token not in repr(context), "a traceback must not show it"


@pytest.mark.parametrize("missing", ["MOSAIC_RUN_ID", "MOSAIC_RUN_DIR", "MOSAIC_LAUNCH_TOKEN", "MOSAIC_HOME"])
def test_a_worker_that_nobody_launched_says_how_it_is_launched(
    context: WorkerContext, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name, value in environment(context).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    with pytest.raises(RuntimeError, match=f"{missing}.*mosaic train"):
        WorkerContext.from_environment()


def test_the_daemon_is_reached_through_the_socket_of_the_data_root_unless_an_address_was_named(
    context: WorkerContext,
) -> None:
    paths = MosaicPaths(context.home)
    assert context.endpoint() == Endpoint.of(paths)
    named = replace(context, target="127.0.0.1:50055")
    assert named.endpoint() == Endpoint("127.0.0.1:50055", paths.certificate)


def test_an_address_from_the_command_line_wins_over_the_environment(
    context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environment(context), "MOSAIC_GRPC_TARGET": "unix:/elsewhere"}.items():
        monkeypatch.setenv(name, value)
    assert WorkerContext.from_environment("127.0.0.1:50055").target == "127.0.0.1:50055"
