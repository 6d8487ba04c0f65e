"""No one gets in, and no secret gets out."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import (
    Metadata,
    raw_stub,
    refusal,
    refused,
    self_signed,
    steps_of,
    worker_of,
)
from mosaic_protocol.endpoint import Endpoint, bearer
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub

MakeDaemon = Callable[..., DaemonProcess]
DENIED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)

CLIENT_CALLS: dict[str, Callable[[TrainerServiceStub, Metadata], Any]] = {
    "SubmitRun": lambda stub, m: stub.SubmitRun(pb.SubmitRunRequest(), metadata=m),
    "CancelRun": lambda stub, m: stub.CancelRun(pb.CancelRunRequest(run_id="victim"), metadata=m),
    "PauseRun": lambda stub, m: stub.PauseRun(pb.RunRef(run_id="victim"), metadata=m),
    "ResumeRun": lambda stub, m: stub.ResumeRun(pb.RunRef(run_id="victim"), metadata=m),
    "DeleteRun": lambda stub, m: stub.DeleteRun(pb.DeleteRunRequest(run_id="victim", purge=True), metadata=m),
    "RestoreRun": lambda stub, m: stub.RestoreRun(pb.RunRef(run_id="victim"), metadata=m),
    "ListRuns": lambda stub, m: stub.ListRuns(pb.ListRunsRequest(), metadata=m),
    "GetRun": lambda stub, m: stub.GetRun(pb.RunRef(run_id="victim"), metadata=m),
    "GetRunHistory": lambda stub, m: stub.GetRunHistory(pb.RunRef(run_id="victim"), metadata=m),
    "WatchRuns": lambda stub, m: next(stub.WatchRuns(pb.WatchRunsRequest(), metadata=m)),
    "GetMetrics": lambda stub, m: stub.GetMetrics(pb.GetMetricsRequest(run_id="victim"), metadata=m),
    "StreamMetrics": lambda stub, m: next(stub.StreamMetrics(pb.StreamRecordsRequest(run_id="victim"), metadata=m)),
    "StreamRunSteps": lambda stub, m: next(stub.StreamRunSteps(pb.StreamRecordsRequest(run_id="victim"), metadata=m)),
    "StreamRunEpisodes": lambda stub, m: next(
        stub.StreamRunEpisodes(pb.StreamRecordsRequest(run_id="victim"), metadata=m)
    ),
    "StreamLogs": lambda stub, m: next(stub.StreamLogs(pb.StreamLogsRequest(run_id="victim"), metadata=m)),
    "ListWorkers": lambda stub, m: stub.ListWorkers(pb.ListWorkersRequest(), metadata=m),
    "GetHealth": lambda stub, m: stub.GetHealth(pb.HealthRequest(), metadata=m),
    "Shutdown": lambda stub, m: stub.Shutdown(pb.ShutdownRequest(), metadata=m),
}

WORKER_CALLS: dict[str, Callable[[TrainerServiceStub, Metadata, str], Any]] = {
    "RegisterWorker": lambda stub, m, run: stub.RegisterWorker(pb.RegisterWorkerRequest(run_id=run), metadata=m),
    "Heartbeat": lambda stub, m, run: stub.Heartbeat(pb.HeartbeatRequest(run_id=run, step=10**9), metadata=m),
    "ControlStream": lambda stub, m, run: next(stub.ControlStream(pb.ControlHello(run_id=run), metadata=m)),
    "PublishRecords": lambda stub, m, run: next(stub.PublishRecords(iter([forged(run)]), metadata=m)),
    "PublishRunSteps": lambda stub, m, run: next(stub.PublishRunSteps(iter([forged(run)]), metadata=m)),
    "PublishRunEpisodes": lambda stub, m, run: next(stub.PublishRunEpisodes(iter([forged(run)]), metadata=m)),
    "PublishLifecycle": lambda stub, m, run: next(stub.PublishLifecycle(iter([forged(run)]), metadata=m)),
}


def forged(run_id: str) -> pb.RecordBatch:
    """A batch that would end a run if it were believed."""
    line = json.dumps({"kind": "lifecycle", "event": "run_completed", "seq": 1, "t": 0.0}).encode()
    return pb.RecordBatch(run_id=run_id, stream="forged", first_seq=1, lines=[line])


def rpcs_of_the_service() -> set[str]:
    return {method.name for method in pb.DESCRIPTOR.services_by_name["TrainerService"].methods}


class Secrets:
    """The tokens of one run, told by its worker for the test's sake."""

    def __init__(self, path: Path) -> None:
        told = json.loads(
            wait_for("the worker to tell its tokens", lambda: path.read_text() if path.exists() else None)
        )
        self.launch, self.session = str(told["launch"]), str(told["session"])


@pytest.fixture
def victim(daemon: DaemonProcess, tmp_path: Path) -> tuple[str, Secrets]:
    """A live run, and what it must not share."""
    return live_run(daemon, tmp_path, "victim")


def live_run(daemon: DaemonProcess, tmp_path: Path, name: str) -> tuple[str, Secrets]:
    told = tmp_path / f"{name}.json"
    run_id = daemon.submit(name=name, total_timesteps=10_000_000, step_seconds=0.005, whisper_to=str(told))
    daemon.wait_state(run_id, "EXEC")
    return run_id, Secrets(told)


def denied(call: Callable[[], Any]) -> str:
    """The sentence with which a call is turned away."""
    with pytest.raises(grpc.RpcError) as error:
        call()
    status, sentence = refusal(error.value)
    assert status in DENIED, f"{status}: {sentence}"
    return sentence


# ---- getting in ------------------------------------------------------------------------------------------------------


def test_every_rpc_is_tried_here() -> None:
    assert CLIENT_CALLS.keys() | WORKER_CALLS.keys() == rpcs_of_the_service()


def test_no_client_call_goes_through_without_the_daemons_token(
    daemon: DaemonProcess, victim: tuple[str, Secrets]
) -> None:
    """Without a token, with a wrong one, with a run's own, with the right one in the wrong place or only in part."""
    _, secrets = victim
    token = daemon.paths.token_file.read_text()
    keys: list[Metadata] = [
        (),
        bearer(""),
        bearer("wrong"),
        bearer(token[:-1]),
        bearer(token + "x"),
        bearer(secrets.session),
        bearer(secrets.launch),
        (("authorization", token),),
        (("authorization", f"Basic {token}"),),
        (("token", token),),
    ]
    with raw_stub(daemon) as (stub, _):
        for name, call in CLIENT_CALLS.items():
            for key in keys:
                sentence = denied(lambda call=call, key=key: call(stub, key))
                assert "token" in sentence, name
                assert not any(secret in sentence for secret in (token, secrets.session, secrets.launch))
    assert daemon.client.run("victim").state == "EXEC"


def test_no_worker_call_goes_through_with_another_runs_token(
    daemon: DaemonProcess, victim: tuple[str, Secrets], tmp_path: Path
) -> None:
    """The daemon's own token opens no worker's door either."""
    run_id, secrets = victim
    _, thief = live_run(daemon, tmp_path, "thief")
    keys = [(), bearer(""), bearer("wrong"), bearer(thief.session), bearer(thief.launch)]
    keys.append(bearer(daemon.paths.token_file.read_text()))
    with raw_stub(daemon) as (stub, _):
        for name, call in WORKER_CALLS.items():
            own_other_key = bearer(secrets.session if name == "RegisterWorker" else secrets.launch)
            for key in [*keys, own_other_key]:
                denied(lambda call=call, key=key: call(stub, key, run_id))
    before = daemon.client.run(run_id)
    assert (before.state, before.outcome) == ("EXEC", "")
    assert before.last_step < 10**9
    wait_for("both to go on", lambda: daemon.client.run(run_id).last_step > before.last_step)
    assert daemon.client.run("thief").state == "EXEC"


def test_tokens_open_nothing_after_their_run_is_over(daemon: DaemonProcess, victim: tuple[str, Secrets]) -> None:
    run_id, secrets = victim
    daemon.client.cancel(run_id)
    ended = daemon.wait_over(run_id)
    with raw_stub(daemon) as (stub, _):
        for name, call in WORKER_CALLS.items():
            for token in (secrets.launch, secrets.session):
                sentence = denied(lambda call=call, token=token: call(stub, bearer(token), run_id))
                assert secrets.launch not in sentence and secrets.session not in sentence, name
    after = daemon.client.run(run_id)
    assert (after.state, after.outcome, after.revision) == ("TERM", "canceled", ended.revision)


def test_a_call_that_does_not_exist_is_turned_away(daemon: DaemonProcess) -> None:
    endpoint = Endpoint.read(daemon.paths.endpoint_file)
    assert endpoint is not None
    with endpoint.channel() as channel:
        for name in ("/mosaic.trainer.v1.TrainerService/OpenSesame", "/grpc.reflection.v1.ServerReflection/Info", "/"):
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(name)(b"", timeout=10)  # type: ignore[arg-type]
            assert refusal(error.value)[0] in (*DENIED, grpc.StatusCode.UNIMPLEMENTED)
    assert "Traceback" not in daemon.output()


def test_bytes_that_are_no_grpc_harm_nobody(daemon: DaemonProcess) -> None:
    endpoint = Endpoint.read(daemon.paths.endpoint_file)
    assert endpoint is not None
    host, _, port = endpoint.target.rpartition(":")
    for noise in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        os.urandom(4096),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 99,
    ):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(noise)
    assert daemon.client.health().pid


def test_listening_beyond_this_machine_needs_tls(make_daemon: MakeDaemon) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        sentence = refused(make_daemon("--host", host))
        assert "TLS" in sentence and "--tls-cert" in sentence and "127.0.0.1" in sentence


@pytest.mark.parametrize("broken", ["missing", "garbage", "key of another", "no key"])
def test_a_certificate_that_cannot_be_used_is_told(make_daemon: MakeDaemon, tmp_path: Path, broken: str) -> None:
    cert, key = self_signed(tmp_path / "ours")
    if broken == "missing":
        cert = tmp_path / "nowhere.pem"
    elif broken == "garbage":
        cert.write_text("not a certificate")
    elif broken == "key of another":
        _, key = self_signed(tmp_path / "theirs")
    options = ["--tls-cert", str(cert), "--tls-key", str(key)] if broken != "no key" else ["--tls-cert", str(cert)]
    sentence = refused(make_daemon(*options))
    assert str(cert) in sentence or "--tls-key" in sentence


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_daemon_with_tls_serves_clients_and_workers(make_daemon: MakeDaemon, tmp_path: Path, host: str) -> None:
    cert, key = self_signed(tmp_path / "tls")
    relative = os.path.relpath(cert)
    daemon = make_daemon("--host", host, "--tls-cert", relative, "--tls-key", str(key)).start()
    run_id = daemon.submit(total_timesteps=20)
    assert daemon.wait_over(run_id).outcome == "completed"
    assert steps_of(daemon, run_id) == list(range(1, 21))
    endpoint = Endpoint.read(daemon.paths.endpoint_file)
    assert endpoint is not None and Path(endpoint.tls_certificate).is_absolute()
    plain = TrainerClient(Endpoint(endpoint.target), daemon.paths.token_file.read_text())
    try:
        with pytest.raises(Exception, match="cannot be reached"):
            plain.health(timeout=5)
    finally:
        plain.close()


# ---- getting out -----------------------------------------------------------------------------------------------------


def files_with(home: Path, secrets: Iterable[str]) -> list[tuple[str, str]]:
    """(file, secret) for every file that holds a secret, as it is or as hex or JSON would write it."""
    found = []
    for path in (path for path in home.rglob("*") if path.is_file()):
        content = path.read_bytes()
        found += [(str(path.relative_to(home)), secret) for secret in secrets if secret.encode() in content]
    return found


@pytest.mark.parametrize("warm", [0, 1], ids=["spawned", "forked"])
def test_no_token_is_found_in_any_file_but_its_own(make_daemon: MakeDaemon, tmp_path: Path, warm: int) -> None:
    daemon = make_daemon(warm_starts=warm).start()
    token = daemon.paths.token_file.read_text()
    live_run(daemon, tmp_path, "warmer")
    if warm:
        wait_for("the fork server", lambda: "ready" in daemon.client.health().warm_servers.values())
    run_id, secrets = live_run(daemon, tmp_path, "victim")
    with raw_stub(daemon) as (stub, _):
        for key in (secrets.session, secrets.launch, token):
            denied(lambda key=key: CLIENT_CALLS["GetHealth"](stub, bearer(key + "-mistyped")))
            denied(lambda key=key: WORKER_CALLS["Heartbeat"](stub, bearer(key + "-mistyped"), run_id))
    daemon.kill()
    daemon.start()
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
    assert daemon.terminate() == 0
    secrets_of_all = {token, secrets.session, secrets.launch}
    assert files_with(daemon.paths.root, secrets_of_all) == [("trainer/token", token)]


def shown_by(process: ProcessIdentity, file: str) -> str:
    """What /proc tells of a process, "" when it ended meanwhile."""
    try:
        return Path(f"/proc/{process.pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_no_token_stands_on_a_command_line_or_is_inherited(daemon: DaemonProcess, tmp_path: Path) -> None:
    told = tmp_path / "told"
    run_id = daemon.submit(total_timesteps=10_000_000, whisper_to=str(told), misbehave="grandchildren", at_step=2)
    secrets = Secrets(told)
    family = wait_for("the grandchildren", lambda: f if len(f := daemon.processes(run_id)) == 4 else None)
    token = daemon.paths.token_file.read_text()
    leader = worker_of(daemon, run_id)
    for process in family:
        command = shown_by(process, "cmdline")
        assert not any(secret in command for secret in (token, secrets.launch, secrets.session))
        environment = shown_by(process, "environ")
        assert token not in environment and secrets.session not in environment
        if process != leader and "time.sleep" in command:
            assert secrets.launch not in environment, "a program that the worker started inherited the launch token"


def test_only_their_owner_can_read_what_is_private(daemon: DaemonProcess) -> None:
    daemon.wait_over(daemon.submit(total_timesteps=3))
    paths = daemon.paths
    assert stat.S_IMODE(paths.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.lock_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.trainer.stat().st_mode) == 0o700


def test_a_token_file_that_somebody_opened_up_is_closed_again(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    daemon.terminate()
    daemon.paths.token_file.chmod(0o644)
    daemon.paths.trainer.chmod(0o755)
    daemon.start()
    assert stat.S_IMODE(daemon.paths.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.paths.trainer.stat().st_mode) == 0o700


def test_a_secret_in_a_config_is_refused_and_not_repeated(daemon: DaemonProcess) -> None:
    secret = "sk-never-show-this-to-anyone"
    config = json.dumps(toy_config(name="leaky", wandb_api_key=secret))
    with raw_stub(daemon) as (stub, token), pytest.raises(grpc.RpcError) as error:
        stub.SubmitRun(pb.SubmitRunRequest(config_json=config), metadata=token)
    status, sentence = refusal(error.value)
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "wandb_api_key" in sentence and secret not in sentence
    assert files_with(daemon.paths.root, [secret]) == []
