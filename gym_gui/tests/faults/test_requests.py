"""Requests that are repeated, broken off, malformed, hostile or too many."""

from __future__ import annotations

import copy
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym_gui.cli.errors import ExitCode
from gym_gui.services.trainer.client import MachineFailedError, NoSuchRunError, RequestRefusedError, TrainerClient
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import Metadata, raw_stub, refusal
from mosaic_protocol.outbox import MOST_MESSAGE_BYTES
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub
from mosaic_protocol.run_config import MAX_CONFIG_BYTES
from mosaic_protocol.states import RunState

Call = tuple[TrainerServiceStub, Metadata]


@pytest.fixture
def busy(daemon: DaemonProcess) -> DaemonProcess:
    """A daemon whose CPUs are all taken, so that accepted runs wait."""
    daemon.wait_state(daemon.submit(name="blocker", total_timesteps=10_000_000, cpus=8), "EXEC")
    return daemon


# ---- repeated and broken off -----------------------------------------------------------------------------------------


def test_runs_of_one_default_name_that_come_at_once_are_told_apart(busy: DaemonProcess) -> None:
    def submit(_: int) -> pb.Run:
        return busy.client.submit(toy_config(name="racer", total_timesteps=1), name_is_default=True).run

    with ThreadPoolExecutor(6) as pool:
        runs = list(pool.map(submit, range(6)))
    assert {run.name for run in runs} == {"racer", *(f"racer-{number}" for number in range(2, 7))}
    assert all(json.loads(run.config_json)["run_name"] == run.name for run in runs)
    assert busy.client.run("racer-6").name == "racer-6"


def test_a_request_id_names_one_run_however_often_it_is_sent(busy: DaemonProcess) -> None:
    config = json.dumps(toy_config(name="once", cpus=8))

    def submit(number: int) -> tuple[str, bool]:
        request = pb.SubmitRunRequest(config_json=config, client_request_id=f"request-{number % 5}")
        answer = stub.SubmitRun(request, metadata=token, timeout=60)
        return answer.run.run_id, answer.already_known

    with raw_stub(busy) as (stub, token), ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(submit, range(200)))
    assert len({run_id for run_id, _ in answers}) == 5
    assert Counter(known for _, known in answers) == {True: 195, False: 5}
    assert busy.client.runs(search="once").total == 5


def test_a_request_id_is_remembered_over_a_restart(busy: DaemonProcess) -> None:
    config = toy_config(name="once", cpus=8)
    first = busy.client.submit(config, request_id="the-request")
    busy.kill()
    busy.start()
    again = busy.client.submit(config, request_id="the-request")
    assert (again.run.run_id, again.already_known) == (first.run.run_id, True)
    other = pb.SubmitRunRequest(config_json=json.dumps(toy_config(name="b", cpus=8)), client_request_id="the-request")
    with raw_stub(busy) as (stub, token), pytest.raises(grpc.RpcError) as error:
        stub.SubmitRun(other, metadata=token)
    assert refusal(error.value)[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_clients_that_hang_up_in_the_middle_harm_nobody(busy: DaemonProcess) -> None:
    """Their deadlines strike before, while and after their run is committed; each run is there once or not at all."""
    answers: Counter[grpc.StatusCode] = Counter()
    with raw_stub(busy) as (stub, token):
        for number in range(300):
            config = json.dumps(toy_config(name=f"hasty-{number}", cpus=8))
            request = pb.SubmitRunRequest(config_json=config, client_request_id=f"hasty-{number}")
            try:
                stub.SubmitRun(request, metadata=token, timeout=0.0005 * (1 + number % 20))
            except grpc.RpcError as error:
                answers[error.code()] += 1
    assert set(answers) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    last = busy.submit(name="patient", cpus=8)
    listed = Counter(run.name for run in busy.client.runs(size=1000).runs)
    assert set(listed.values()) == {1}
    assert len(listed) >= 302 - answers.total()
    queued = [run.run_id for run in busy.client.runs(size=1000, states=["INIT"]).runs]
    positions = [busy.client.run(run_id).queue_position for run_id in reversed(queued)]
    assert positions == list(range(1, len(queued) + 1)), "a run that was committed waits for its turn"
    assert queued[0] == last


def test_a_run_cancelled_by_name_the_moment_it_is_stored_never_starts(daemon: DaemonProcess) -> None:
    """The name can be found as soon as the run is stored, which is before the daemon has put it into its line."""
    for number in range(40):
        name = f"short-lived-{number}"
        answers: list[pb.Run] = []
        canceller = threading.Thread(target=_cancel_on_sight, args=(daemon, name, answers))
        canceller.start()
        run_id = daemon.submit(name=name, total_timesteps=1_000_000)
        canceller.join()
        assert daemon.wait_over(run_id).outcome == "canceled"
        if answers[0].state == RunState.TERM:
            assert "Launching" not in [move.cause for move in daemon.client.history(run_id)]
    assert daemon.client.health().live == 0


def _cancel_on_sight(daemon: DaemonProcess, name: str, answers: list[pb.Run]) -> None:
    with TrainerClient.connect(daemon.paths, start=False) as client:
        while not answers:
            try:
                answers.append(client.cancel(name))
            except NoSuchRunError:
                continue


def test_a_cancel_whose_client_hangs_up_is_carried_out_or_not_at_all(daemon: DaemonProcess) -> None:
    runs = [daemon.submit(name=f"run-{number}", total_timesteps=10_000_000) for number in range(6)]
    for run_id in runs:
        daemon.wait_state(run_id, "EXEC")
    with raw_stub(daemon) as (stub, token):
        for number, run_id in enumerate(runs):
            with suppress(grpc.RpcError):  # some are quick enough to be answered
                stub.CancelRun(pb.CancelRunRequest(run_id=run_id), metadata=token, timeout=0.0004 * (number + 1))
    for run_id in runs:
        asked = any(move.cause == "CancelRequested" for move in daemon.client.history(run_id))
        if not asked:
            daemon.client.cancel(run_id)
        assert daemon.wait_over(run_id).outcome == "canceled"


# ---- fuzzed configs --------------------------------------------------------------------------------------------------

NASTY_TEXT = [
    "../../../etc/passwd",
    "/etc/passwd",
    "..\\..\\windows",
    "~/.ssh/id_rsa",
    "${HOME}",
    "$(touch /tmp/pwned)",
    "`id`",
    "a;b|c&d",
    "-rf",
    "--config=/etc/passwd",
    "%s%n%x",
    "a\nb",
    "a\0b",
    "\u202e\u2066",
    "é" * 200,
    "🙂" * 60,
    "x" * 5000,
    "CON",
    ".",
    "..",
    "",
    " ",
]
HUGE = [2**31, 2**53 + 1, 2**63, 2**64, 10**400, -1, -(2**63), 1e308, 5e-324]
PATHS: list[tuple[Any, ...]] = [
    ("run_name",),
    ("resources",),
    ("resources", "cpus", "requested"),
    ("resources", "gpus"),
    ("resources", "memory_mb"),
    ("artifacts",),
    ("artifacts", "checkpoints"),
    ("metadata",),
    ("metadata", "worker"),
    ("metadata", "worker", "type"),
    ("metadata", "worker", "module"),
    ("metadata", "worker", "config"),
    ("metadata", "worker", "config", "algo"),
    ("metadata", "worker", "config", "env_id"),
    ("metadata", "worker", "config", "total_timesteps"),
    ("metadata", "worker", "agent_id"),
    ("metadata", "tags"),
    ("schedule", "max_wallclock_minutes"),
    ("schema_version",),
    ("unheard_of",),
]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(NASTY_TEXT)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(HUGE)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


def mutated(changes: list[tuple[tuple[Any, ...], Any]]) -> str:
    """A valid config with some of its parts replaced; one that is accepted waits in the queue."""
    config = copy.deepcopy(toy_config(name="fuzz", cpus=8))
    for path, value in changes:
        target: Any = config
        for key in path[:-1]:
            target = target.get(key) if isinstance(target, dict) else None
        if isinstance(target, dict):
            target[path[-1]] = value
    return json.dumps(config)


valid_but_for = st.lists(st.tuples(st.sampled_from(PATHS), values), min_size=1, max_size=3).map(mutated)
cut_short = st.tuples(valid_but_for, st.integers(0, 400)).map(lambda pair: pair[0][: pair[1]])
garbled = st.tuples(valid_but_for, st.integers(0, 400), texts).map(lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :])
FUZZED = {
    "valid but for some parts": valid_but_for,
    "valid, then broken": cut_short | garbled,
    "anything": values.map(json.dumps) | texts,
}


def files_outside_runs(home: Path) -> set[str]:
    """Every file of a data root but those that belong to one run by its id, and the logs and databases that grow."""
    paths = {str(path.relative_to(home)) for path in home.rglob("*")}
    growing = ("trainer/runs/", "trainer/configs/", "logs/trainer/", "telemetry/", "trainer/registry")
    return {path for path in paths if not path.startswith(growing)}


def submitted(daemon: DaemonProcess, config: str) -> str | None:
    """The id of a run that was accepted, None when it was refused with a reason; anything else is an error."""
    with raw_stub(daemon) as (stub, token):
        try:
            return str(stub.SubmitRun(pb.SubmitRunRequest(config_json=config), metadata=token, timeout=60).run.run_id)
        except grpc.RpcError as error:
            if refusal(error)[0] is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            return None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("examples", [500, pytest.param(5000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", FUZZED)
def test_fuzzed_configs_are_refused_with_a_reason_or_run(
    busy: DaemonProcess, tmp_path: Path, kind: str, examples: int
) -> None:
    configs = FUZZED[kind]
    home, accepted, refused = busy.paths.root, set[str](), Counter[str]()
    before, around = files_outside_runs(home), {path.name for path in tmp_path.iterdir()}
    pid = busy.client.health().pid

    with raw_stub(busy) as (stub, token):

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(configs)
        def submit(config: str) -> None:
            try:
                answer = stub.SubmitRun(pb.SubmitRunRequest(config_json=config), metadata=token, timeout=60)
            except grpc.RpcError as error:
                status, sentence = refusal(error)
                assert status is grpc.StatusCode.INVALID_ARGUMENT, f"{status}: {sentence}\n{config}"
                assert sentence.strip(), config
                refused[sentence[:40]] += 1
            else:
                accepted.add(answer.run.run_id)

        submit()

    assert len(accepted) > examples // 50 or kind != "valid but for some parts", "the fuzzing never hit a valid config"
    assert len(refused) > 20, "the fuzzing always hits the same error"
    assert busy.client.health().pid == pid
    assert busy.client.runs(states=["INIT"]).total == len(accepted)
    assert files_outside_runs(home) == before
    assert {path.name for path in tmp_path.iterdir()} == around
    named = {path.name for folder in (busy.paths.runs, busy.paths.logs) for path in folder.iterdir() if path.is_dir()}
    assert named <= {run.run_id for run in busy.client.runs(search="blocker").runs}, "folders of runs that never ran"


def hostile_configs() -> Iterator[dict[str, Any]]:
    for text in NASTY_TEXT:
        yield toy_config(name=text, total_timesteps=1)
        yield toy_config(env_id=text, total_timesteps=1)
        config = toy_config(total_timesteps=1, output_dir=text, run_dir=text, run_id=text)
        config["metadata"]["worker"]["agent_id"] = text
        yield config


@pytest.mark.timeout(300)
def test_hostile_names_that_are_accepted_run_inside_their_folders(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(warm_starts=1).start()
    daemon.wait_over(daemon.submit(name="warmer", total_timesteps=1))
    before, around = files_outside_runs(daemon.paths.root), {path.name for path in tmp_path.iterdir()}
    accepted = [run_id for config in hostile_configs() if (run_id := submitted(daemon, json.dumps(config)))]
    for run_id in accepted:
        run = daemon.wait_over(run_id)
        assert run.outcome == "completed", run.reason
        assert daemon.client.run(run_id).name == run.name
    assert len(accepted) > 20
    assert files_outside_runs(daemon.paths.root) == before
    assert {path.name for path in tmp_path.iterdir()} == around
    assert not Path("/tmp/pwned").exists()


def test_a_refusal_in_any_script_fits_its_header(daemon: DaemonProcess) -> None:
    """A status travels in a header of a few kilobytes; one that does not fit would reach nobody."""
    config = toy_config()
    config["metadata"]["worker"].update({"🙂" * 20 + str(number): number for number in range(40)})
    with raw_stub(daemon) as (stub, token), pytest.raises(grpc.RpcError) as error:
        stub.SubmitRun(pb.SubmitRunRequest(config_json=json.dumps(config)), metadata=token)
    status, sentence = refusal(error.value)
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "metadata.worker" in sentence


# ---- numbers, tokens and sizes that nobody sends ---------------------------------------------------------------------

LARGEST = 2**64 - 1
ODD_CALLS: list[Callable[[Call], Any]] = [
    lambda c: c[0].ListRuns(pb.ListRunsRequest(page_token="not a token"), metadata=c[1]),
    lambda c: c[0].ListRuns(pb.ListRunsRequest(page_token="-1"), metadata=c[1]),
    lambda c: c[0].ListRuns(pb.ListRunsRequest(page_token="9" * 400), metadata=c[1]),
    lambda c: c[0].ListRuns(pb.ListRunsRequest(page_token="1' OR '1'='1"), metadata=c[1]),
    lambda c: c[0].ListRuns(pb.ListRunsRequest(states=["NONSENSE"] * 100_000), metadata=c[1]),
    lambda c: c[0].GetRun(pb.RunRef(run_id=""), metadata=c[1]),
    lambda c: c[0].GetRun(pb.RunRef(run_id="../../registry.sqlite"), metadata=c[1]),
    lambda c: c[0].GetRun(pb.RunRef(run_id="'; DROP TABLE runs; --"), metadata=c[1]),
    lambda c: c[0].GetRun(pb.RunRef(run_id="\0" * 1000), metadata=c[1]),
    lambda c: c[0].CancelRun(pb.CancelRunRequest(run_id="%", reason="x" * 1_000_000), metadata=c[1]),
    lambda c: c[0].DeleteRun(pb.DeleteRunRequest(run_id="..", purge=True), metadata=c[1]),
    lambda c: next(c[0].StreamLogs(pb.StreamLogsRequest(run_id="blocker", source="../../token"), metadata=c[1])),
    lambda c: next(c[0].StreamLogs(pb.StreamLogsRequest(run_id="/etc/passwd"), metadata=c[1])),
    lambda c: next(c[0].StreamMetrics(pb.StreamRecordsRequest(run_id="blocker", after_row=LARGEST), metadata=c[1])),
    lambda c: next(c[0].WatchRuns(pb.WatchRunsRequest(after_revision=LARGEST), metadata=c[1])),
    lambda c: c[0].SubmitRun(
        pb.SubmitRunRequest(config_json=json.dumps(toy_config(cpus=8)), client_request_id="x" * 10_000), metadata=c[1]
    ),
    lambda c: c[0].SubmitRun(pb.SubmitRunRequest(config_json=" " * (MAX_CONFIG_BYTES + 1)), metadata=c[1]),
    lambda c: c[0].SubmitRun(pb.SubmitRunRequest(config_json="[" * 200_000), metadata=c[1]),
    lambda c: c[0].SubmitRun(pb.SubmitRunRequest(config_json="9" * 200_000), metadata=c[1]),
]


@pytest.mark.parametrize("number", range(len(ODD_CALLS)))
def test_an_odd_request_is_refused_with_a_sentence(odd_daemon: DaemonProcess, number: int) -> None:
    with raw_stub(odd_daemon) as call, pytest.raises(grpc.RpcError) as error:
        ODD_CALLS[number](call)
    status, sentence = refusal(error.value)
    assert status in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND), sentence
    assert len(sentence) > 20
    assert odd_daemon.client.run("blocker").state == "EXEC"


@pytest.fixture(scope="module")
def odd_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon for all odd requests: none of them may leave a mark on it."""
    daemon = DaemonProcess(tmp_path_factory.mktemp("odd") / "home")
    try:
        daemon.start()
        daemon.wait_state(daemon.submit(name="blocker", total_timesteps=10_000_000, cpus=8), "EXEC")
        yield daemon
        assert "LOG404" not in daemon.structured_log(), "an odd request is no unexpected error"
        assert "Traceback" not in daemon.output()
    finally:
        daemon.clean_up()


def test_a_message_that_is_too_large_is_refused_and_forgotten(daemon: DaemonProcess) -> None:
    with raw_stub(daemon) as (stub, token), pytest.raises(grpc.RpcError) as error:
        stub.SubmitRun(pb.SubmitRunRequest(config_json="x" * MOST_MESSAGE_BYTES), metadata=token, timeout=60)
    status, sentence = refusal(error.value)
    assert (status, str(MOST_MESSAGE_BYTES) in sentence) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    assert daemon.wait_over(daemon.submit(total_timesteps=1)).outcome == "completed"


def test_a_config_that_is_too_long_is_not_even_sent(odd_daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd_daemon.client._stub, "SubmitRun", None)
    with pytest.raises(RequestRefusedError, match=f"at most {MAX_CONFIG_BYTES} bytes are allowed"):
        odd_daemon.client.submit(toy_config(filler="x" * MAX_CONFIG_BYTES))


def test_huge_numbers_in_a_config_neither_start_nor_break_anything(busy: DaemonProcess) -> None:
    for number in HUGE:
        for path in (("resources", "cpus", "requested"), ("schedule", "max_wallclock_minutes")):
            submitted(busy, mutated([(path, number)]))
    for steps in (10**12 + 1, 2**63 - 1):
        with pytest.raises(RequestRefusedError, match="total_timesteps: must be at most 1000000000000"):
            busy.client.submit(toy_config(name="huge", cpus=8, total_timesteps=steps))
    huge_total = busy.client.submit(toy_config(name="huge", cpus=8, total_timesteps=10**12)).run
    assert huge_total.total_steps == 10**12
    assert busy.client.runs(size=1000).total >= 2


# ---- a thousand ------------------------------------------------------------------------------------------------------

QUEUED, REALLY_RUN = 1000, 60


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_thousand_queued_runs_keep_their_order_over_a_sigterm(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(warm_starts=1).start()
    gate = tmp_path / "gate"
    blocker = daemon.submit(name="blocker", cpus=8, total_timesteps=2, gate=str(gate))
    daemon.wait_state(blocker, "EXEC")
    config = json.dumps(toy_config(name="queued", cpus=8, total_timesteps=1, step_seconds=0, metrics=False))
    with raw_stub(daemon) as (stub, token):
        request = pb.SubmitRunRequest(config_json=config)
        runs = [stub.SubmitRun(request, metadata=token, timeout=60).run.run_id for _ in range(QUEUED)]
    assert daemon.client.health().queued == QUEUED

    gate.touch()
    for part in (REALLY_RUN // 2, REALLY_RUN):
        wait_for(f"{part} runs to end", lambda n=part: daemon.client.runs(states=["TERM"]).total > n, timeout=120)
        assert daemon.terminate() == 0, daemon.output()
        daemon.start()
    assert daemon.terminate() == 0
    assert "Traceback" not in daemon.output()

    with closing(daemon.registry()) as registry:
        launched = [row.run_id for row in registry.history() if row.transition.cause == "Launching"]
        states = {run_id: registry.get(run_id).state for run_id in runs}
        outcomes = Counter(str(registry.get(run_id).outcome) for run_id in runs)
    in_order = list(dict.fromkeys(launched))
    assert in_order == [blocker, *runs][: len(in_order)]
    assert REALLY_RUN <= len(in_order) < QUEUED
    assert set(outcomes) <= {"completed", "None"}
    assert len(states) == QUEUED
    assert all(daemon.starts(run_id) == 1 for run_id in runs if states[run_id] is RunState.TERM)


def test_what_the_machine_refuses_the_daemon_is_reported_in_its_own_words(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    run_id = daemon.submit(total_timesteps=1)
    daemon.wait_over(run_id)
    with closing(sqlite3.connect(daemon.paths.registry_db)) as other:
        other.execute("BEGIN IMMEDIATE")  # another program holds the registry
        answer = mosaic("delete", run_id)
        other.rollback()
    assert answer.code == ExitCode.FAILED
    assert "registry.sqlite cannot be used now (database is locked, SQLITE_BUSY)" in answer.err
    assert "cannot be reached" not in answer.err
    assert mosaic("delete", run_id).code == ExitCode.OK


def test_a_call_that_the_machine_refused_is_not_repeated_by_the_client(
    odd_daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a daemon that is away is waited for: repeating what failed would hide the reason behind a deadline."""
    calls: list[int] = []

    class Refused(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.ABORTED

        def details(self) -> str:
            return "run 1 cannot be deleted: Device or resource busy (/data/runs/1)"

    def call(*_: object, **__: object) -> None:
        calls.append(1)
        raise Refused

    monkeypatch.setattr(odd_daemon.client._stub, "CancelRun", call)
    with pytest.raises(MachineFailedError) as error:
        odd_daemon.client.cancel("blocker")
    assert (len(calls), str(error.value)) == (1, "run 1 cannot be deleted: Device or resource busy (/data/runs/1)")
