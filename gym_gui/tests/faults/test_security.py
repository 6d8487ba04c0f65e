"""No one gets in, and no secret gets out."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from gym_gui.services.trainer.client import DaemonAwayError, TrainerClient
from gym_gui.services.trainer.daemon_control import answers, stop_daemon
from gym_gui.tests.support.daemon_process import DaemonProcess, over_tcp, toy_config, wait_for
from gym_gui.tests.support.fault_tools import (
    Metadata,
    raw_stub,
    refusal,
    refused,
    self_signed,
    steps_of,
    worker_of,
)
from mosaic_protocol.endpoint import Endpoint, InsecureEndpointError, bearer, worker_pass
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub
from mosaic_protocol.unix_socket import dialled, listener

MakeDaemon = Callable[..., DaemonProcess]
DENIED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)

CLIENT_CALLS: dict[str, Callable[[TrainerServiceStub, Metadata], Any]] = {
    "SubmitRun": lambda stub, m: stub.SubmitRun(pb.SubmitRunRequest(), metadata=m),
    "ImportRun": lambda stub, m: stub.ImportRun(pb.ImportRunRequest(), metadata=m),
    "ImportRecords": lambda stub, m: next(stub.ImportRecords(iter([forged("victim")]), metadata=m)),
    "ExportRun": lambda stub, m: next(stub.ExportRun(pb.RunRef(run_id="victim"), metadata=m)),
    "CancelRun": lambda stub, m: stub.CancelRun(pb.CancelRunRequest(run_id="victim"), metadata=m),
    "PauseRun": lambda stub, m: stub.PauseRun(pb.RunRef(run_id="victim"), metadata=m),
    "ResumeRun": lambda stub, m: stub.ResumeRun(pb.RunRef(run_id="victim"), metadata=m),
    "DeleteRun": lambda stub, m: stub.DeleteRun(pb.DeleteRunRequest(run_id="victim", purge=True), metadata=m),
    "RestoreRun": lambda stub, m: stub.RestoreRun(pb.RunRef(run_id="victim"), metadata=m),
    "GetStorage": lambda stub, m: stub.GetStorage(pb.StorageRequest(), metadata=m),
    "RemoveRunParts": lambda stub, m: stub.RemoveRunParts(
        pb.RemoveRunPartsRequest(run_id="victim", parts=["logs"]), metadata=m
    ),
    "UpdateRun": lambda stub, m: stub.UpdateRun(pb.UpdateRunRequest(run_id="victim", name="mine"), metadata=m),
    "MoveRun": lambda stub, m: stub.MoveRun(pb.MoveRunRequest(run_id="victim", first=True), metadata=m),
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
    "GetStepTotals": lambda stub, m: stub.GetStepTotals(pb.RunRef(run_id="any"), metadata=m),
    "GrantCredits": lambda stub, m: stub.GrantCredits(pb.CreditGrant(watch_id="any", credits=1), metadata=m),
    "StreamLogs": lambda stub, m: next(stub.StreamLogs(pb.StreamLogsRequest(run_id="victim"), metadata=m)),
    "LiveSession": lambda stub, m: next(stub.LiveSession(iter([pb.LiveInput(run_id="victim")]), metadata=m)),
    "SubmitSweep": lambda stub, m: stub.SubmitSweep(pb.SubmitSweepRequest(), metadata=m),
    "ListSweeps": lambda stub, m: stub.ListSweeps(pb.ListSweepsRequest(), metadata=m),
    "GetSweep": lambda stub, m: stub.GetSweep(pb.SweepRef(), metadata=m),
    "GetTrials": lambda stub, m: stub.GetTrials(pb.SweepRef(), metadata=m),
    "PauseSweep": lambda stub, m: stub.PauseSweep(pb.SweepRef(), metadata=m),
    "ResumeSweep": lambda stub, m: stub.ResumeSweep(pb.ResumeSweepRequest(), metadata=m),
    "StopSweep": lambda stub, m: stub.StopSweep(pb.SweepRef(), metadata=m),
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
    """The tokens of one run, which its worker reveals for the test."""

    def __init__(self, path: Path) -> None:
        told = json.loads(
            wait_for("the worker to reveal its tokens", lambda: path.read_text() if path.exists() else None)
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
    with Endpoint.of(daemon.paths).channel() as channel:
        for name in ("/mosaic.trainer.v1.TrainerService/OpenSesame", "/grpc.reflection.v1.ServerReflection/Info", "/"):
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(name)(b"", timeout=10)  # type: ignore[arg-type]
            assert refusal(error.value)[0] in (*DENIED, grpc.StatusCode.UNIMPLEMENTED)
    assert "Traceback" not in daemon.output()


def test_bytes_that_are_no_grpc_harm_nobody(daemon: DaemonProcess) -> None:
    for noise in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        os.urandom(4096),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 99,
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(dialled(daemon.paths.socket))
            connection.sendall(noise)
    assert daemon.client.health().pid


@pytest.mark.parametrize("broken", ["missing", "garbage", "key of another", "no key"])
def test_a_certificate_that_cannot_be_used_is_reported(make_daemon: MakeDaemon, tmp_path: Path, broken: str) -> None:
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


@pytest.mark.parametrize(("host", "own"), [("0.0.0.0", False), ("::1", False), ("127.0.0.1", True)])
def test_tcp_is_served_beside_the_socket_with_a_certificate_that_clients_pin(
    make_daemon: MakeDaemon, tmp_path: Path, host: str, own: bool
) -> None:
    cert, key = self_signed(tmp_path / "tls")
    options = ["--tls-cert", os.path.relpath(cert), "--tls-key", str(key)] if own else []
    daemon = make_daemon("--host", host, *options).start()
    run_id = daemon.submit(total_timesteps=20)
    assert daemon.wait_over(run_id).outcome == "completed"
    with over_tcp(daemon) as client:
        assert client.run(run_id).outcome == "completed"
    other, _ = self_signed(tmp_path / "other")
    with over_tcp(daemon, certificate=other) as client, pytest.raises(DaemonAwayError, match="cannot be reached"):
        client.health()


def test_a_certificate_of_the_same_authority_is_not_taken_for_the_daemons(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Of a chain only the daemon's own certificate is pinned: an authority signs for others as well."""
    authority = self_signed(tmp_path / "authority")
    (ours, ours_key), (theirs, theirs_key) = (signed(tmp_path / name, *authority) for name in ("ours", "theirs"))
    ours.write_bytes(ours.read_bytes() + authority[0].read_bytes())
    daemon = make_daemon("--host", "127.0.0.1", "--tls-cert", str(ours), "--tls-key", str(ours_key)).start()
    with over_tcp(daemon) as client:
        assert client.health().pid
    heard: list[str] = []
    with thief(theirs.read_bytes() + authority[0].read_bytes(), theirs_key.read_bytes(), heard) as target:
        endpoint = replace(Endpoint.at(target, daemon.paths))
        with (
            TrainerClient(endpoint, daemon.paths.token_file.read_text, patience=0, timeout=5) as client,
            pytest.raises(DaemonAwayError),
        ):
            client.health()
    assert heard == []


@contextmanager
def thief(cert: bytes, key: bytes, heard: list[str]) -> Iterator[str]:
    """A server that notes every token it is shown."""

    class Noting(grpc.ServerInterceptor):
        def intercept_service(self, _: Any, details: Any) -> Any:
            heard.extend(str(value) for name, value in details.invocation_metadata if name == "authorization")

    server = grpc.server(ThreadPoolExecutor(1), interceptors=[Noting()])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def signed(folder: Path, authority: Path, authority_key: Path) -> tuple[Path, Path]:
    """A certificate for this machine that an authority signed, and its key."""
    folder.mkdir()
    cert, key, request, names = (folder / name for name in ("cert.pem", "key.pem", "request.pem", "names"))
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    sign = ["openssl", "x509", "-req", "-days", "2", "-CAcreateserial", "-extfile", str(names)]
    for command in (
        [*new, "-keyout", str(key), "-out", str(request)],
        [*sign, "-in", str(request), "-CA", str(authority), "-CAkey", str(authority_key), "-out", str(cert)],
    ):
        subprocess.run(command, capture_output=True, check=True)
    return cert, key


def test_no_token_is_ever_sent_over_tcp_without_tls(daemon: DaemonProcess) -> None:
    with pytest.raises(InsecureEndpointError, match="certificate"):
        TrainerClient(Endpoint("127.0.0.1:50055"), lambda: "token")


def test_tcp_is_off_unless_asked_for(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    assert daemon.process is not None
    assert daemon.client.health().tcp_target == ""
    assert listening_tcp_ports(daemon.process.pid) == []


def listening_tcp_ports(pid: int) -> list[str]:
    """The TCP sockets on which a process listens, as the kernel lists them."""
    inodes = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    rows = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def certificate_without_names(folder: Path) -> Path:
    cert, key = folder / "nameless.pem", folder / "nameless-key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], capture_output=True, check=True)
    return cert


def test_the_daemon_keeps_its_certificate_and_makes_another_when_it_does_not_fit(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon("--tcp").start()
    first = daemon.paths.certificate.read_bytes()
    assert stat.S_IMODE(daemon.paths.certificate_key.stat().st_mode) == 0o600
    daemon.kill()
    daemon.start()
    assert daemon.paths.certificate.read_bytes() == first
    daemon.kill()
    daemon.paths.certificate_key.write_text("not a key")
    daemon.start()
    assert daemon.paths.certificate.read_bytes() != first
    daemon.kill()
    shutil.copyfile(certificate_without_names(tmp_path), daemon.paths.certificate)
    daemon.start()
    with over_tcp(daemon) as client:
        assert client.health().pid


def test_two_users_and_two_homes_do_not_meet(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """Also where both ask for TCP without naming a port."""
    daemons = [make_daemon("--tcp", home=tmp_path / name).start() for name in ("one", "two")]
    runs = [daemon.submit(name="mine", total_timesteps=3) for daemon in daemons]
    for daemon, run_id in zip(daemons, runs, strict=True):
        daemon.wait_over(run_id)
        assert [run.run_id for run in daemon.client.runs().runs] == [run_id]


# ---- somebody who waits for the daemon to die ------------------------------------------------------------------------


NOBODY = 65534


def test_another_user_cannot_take_the_place_of_a_dead_daemon(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon().start()
    daemon.kill()
    assert stat.S_IMODE(daemon.paths.trainer.stat().st_mode) == 0o700
    if os.geteuid() == 0:  # nobody else can become another user and try
        let_strangers_come_as_far_as(daemon.paths.root)
        assert set(tried_by_a_stranger(daemon)) == {"kept out"}


def let_strangers_come_as_far_as(folder: Path) -> None:
    """pytest keeps strangers out of its folders; only the daemon's own walls are on trial."""
    for one in [folder, *folder.parents]:
        one.chmod(one.stat().st_mode | 0o055)


def tried_by_a_stranger(daemon: DaemonProcess) -> list[str]:
    program = f"""
import os, socket
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
os.chdir({str(daemon.paths.root)!r})
for attempt in (
    lambda: socket.socket(socket.AF_UNIX).bind("trainer/mine.sock"),
    lambda: socket.socket(socket.AF_UNIX).connect("trainer/daemon.sock"),
    lambda: os.unlink("trainer/daemon.sock"),
    lambda: os.rename("trainer", "elsewhere"),
    lambda: os.listdir("trainer"),
    lambda: open("trainer/token"),
):
    try:
        attempt()
        print("got in")
    except PermissionError:
        print("kept out")
"""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_the_token_of_a_dead_daemon_opens_nothing(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    before = daemon.paths.token_file.read_text()
    daemon.kill()
    daemon.start()
    assert daemon.paths.token_file.read_text() != before
    with raw_stub(daemon) as (stub, _):
        denied(lambda: CLIENT_CALLS["GetHealth"](stub, bearer(before)))


def test_a_client_that_keeps_its_connection_reads_the_new_token(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    run_id = daemon.submit(total_timesteps=3)
    daemon.wait_over(run_id)
    with TrainerClient.connect(daemon.paths, start=False) as client:
        assert client.run(run_id).outcome == "completed"
        daemon.kill()
        daemon.start()
        assert client.run(run_id).outcome == "completed"
        daemon.kill()
        daemon.start()
        assert next(client.watch()).run.run_id == run_id


def test_a_worker_outlives_a_change_of_the_clients_token(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon().start()
    run_id, _ = live_run(daemon, tmp_path, "long")
    daemon.kill()
    daemon.start()
    reached = daemon.client.run(run_id).last_step
    wait_for("the run to go on", lambda: daemon.client.run(run_id).last_step > reached + 5)


# ---- strangers cost nothing ------------------------------------------------------------------------------------------


def memory_of(pid: int) -> int:
    """Megabytes in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def unbounded_channel(daemon: DaemonProcess) -> grpc.Channel:
    """Of somebody who does not keep to what our clients keep to."""
    options = [("grpc.max_send_message_length", -1)]
    return grpc.insecure_channel(f"unix:{dialled(daemon.paths.socket)}", options=options)


def test_large_messages_without_a_token_are_not_read(daemon: DaemonProcess) -> None:
    assert daemon.process is not None
    before = memory_of(daemon.process.pid)
    large = pb.SubmitRunRequest(config_json="x" * (30 << 20))
    beat = pb.HeartbeatRequest(run_id="x" * (30 << 20))
    with unbounded_channel(daemon) as channel:
        stub = TrainerServiceStub(channel)
        for _ in range(6):
            denied(lambda: stub.SubmitRun(large, timeout=60))
            denied(lambda: stub.Heartbeat(beat, timeout=60))
    assert memory_of(daemon.process.pid) - before < 100, "megabytes"


def test_a_message_beyond_every_record_is_refused(daemon: DaemonProcess) -> None:
    large = pb.SubmitRunRequest(config_json="x" * (50 << 20))
    token = bearer(daemon.paths.token_file.read_text())
    with unbounded_channel(daemon) as channel, pytest.raises(grpc.RpcError) as error:
        TrainerServiceStub(channel).SubmitRun(large, metadata=token, timeout=60)
    assert refusal(error.value)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert daemon.client.health().pid


def test_strangers_do_not_fill_the_log(daemon: DaemonProcess) -> None:
    before = daemon.paths.daemon_log.stat().st_size
    with raw_stub(daemon) as (stub, _):
        for number in range(500):
            call = (lambda: stub.GetHealth(pb.HealthRequest())) if number % 2 else (lambda: heartbeat(stub, "x", ()))
            denied(call)
    assert daemon.paths.daemon_log.stat().st_size - before < 2000
    assert "request without a valid token" in daemon.structured_log()


def heartbeat(stub: TrainerServiceStub, run_id: str, metadata: Metadata) -> None:
    stub.Heartbeat(pb.HeartbeatRequest(run_id=run_id), metadata=metadata)


def test_a_stranger_does_not_learn_which_runs_there_are(daemon: DaemonProcess, victim: tuple[str, Secrets]) -> None:
    run_id, _ = victim
    over = daemon.submit(total_timesteps=2)
    daemon.wait_over(over)
    answers = set()
    with raw_stub(daemon) as (stub, _):
        for known in (run_id, over, "01K9ZQ3V7X0000000000000000", "", "nonsense"):
            for key in ((), bearer("guess"), worker_pass("guess", known)):
                for call in WORKER_CALLS.values():
                    with pytest.raises(grpc.RpcError) as error:
                        call(stub, key, known)
                    answers.add(refusal(error.value))
    assert len(answers) == 1, answers


# ---- files that somebody removes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "", "nonsense"], ids=["removed", "emptied", "scribbled over"])
def test_the_daemon_is_found_again_whatever_becomes_of_the_files_it_is_found_by(
    daemon: DaemonProcess, content: str | None
) -> None:
    assert daemon.process is not None
    for name in ("token", "daemon.json", "daemon.lock", "daemon.sock"):
        path = daemon.paths.trainer / name
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(content)
        wait_for("the daemon to be found", lambda: answers(daemon.paths))
        with TrainerClient.connect(daemon.paths) as client:
            assert client.health().pid == daemon.process.pid
    assert "a trainer daemon already runs" in refused(daemon)
    daemon.paths.daemon_file.unlink()
    assert stop_daemon(daemon.paths)
    assert daemon.process.wait(60) == 0


def test_all_sockets_removed_are_made_again(daemon: DaemonProcess) -> None:
    assert daemon.process is not None
    run_id = daemon.submit(total_timesteps=1_000_000, step_seconds=0.01)
    daemon.wait_state(run_id, "EXEC")
    reached = daemon.client.run(run_id).last_step
    for path in daemon.paths.trainer.glob("*.sock"):
        path.unlink()
    wait_for("the daemon to listen again", lambda: listener(daemon.paths.socket) == daemon.process.pid)  # type: ignore[union-attr]
    wait_for("its worker to go on", lambda: daemon.client.run(run_id).last_step > reached + 5)


def test_removing_every_file_a_lock_could_be_brings_no_second_daemon(daemon: DaemonProcess) -> None:
    """Two daemons on one registry would end each other's runs."""
    run_id = daemon.submit(total_timesteps=1_000_000, step_seconds=0.01)
    daemon.wait_state(run_id, "EXEC")
    for path in daemon.paths.trainer.iterdir():
        if (path.is_file() and "sqlite" not in path.name) or path.is_socket():
            path.unlink()
    assert "a trainer daemon already runs" in refused(daemon)
    assert daemon.client.run(run_id).state == "EXEC"


def test_databases_that_somebody_removed_are_written_again(daemon: DaemonProcess) -> None:
    """What was acknowledged must not be lost with the process that still has it."""
    over = daemon.submit(name="over", total_timesteps=5)
    daemon.wait_over(over)
    live = daemon.submit(name="live", total_timesteps=1_000_000, step_seconds=0.01)
    daemon.wait_state(live, "EXEC")
    for database in (daemon.paths.registry_db, daemon.paths.telemetry_db):
        for path in database.parent.glob(database.name + "*"):
            path.unlink()
    late = daemon.submit(name="late", total_timesteps=5)

    def back() -> bool:
        return daemon.paths.registry_db.exists() and daemon.paths.telemetry_db.exists() and answers(daemon.paths)

    wait_for("the databases to be written again", back)
    daemon.kill()
    daemon.start()
    assert daemon.wait_over(late).outcome == "completed"
    assert daemon.client.run(over).outcome == "completed" and steps_of(daemon, over) == [1, 2, 3, 4, 5]
    reached = daemon.client.run(live).last_step
    wait_for("the live run to go on", lambda: daemon.client.run(live).last_step > reached + 5)
    daemon.client.cancel(live)
    assert daemon.wait_over(live).outcome == "canceled"


def test_recorded_steps_that_somebody_removed_are_written_again(daemon: DaemonProcess) -> None:
    """Their database is made with the first steps, long after the others."""
    run_id = daemon.submit(total_timesteps=5, record=5)
    daemon.wait_over(run_id)
    recorded = [step.step for step in daemon.client.steps(run_id)]
    assert recorded
    for path in daemon.paths.steps_db.parent.glob(daemon.paths.steps_db.name + "*"):
        path.unlink()
    wait_for("the steps to be written again", lambda: daemon.paths.steps_db.exists() and answers(daemon.paths))
    daemon.kill()
    daemon.start()
    assert [step.step for step in daemon.client.steps(run_id)] == recorded


def test_a_daemon_whose_data_root_was_replaced_leaves(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert daemon.process is not None
    daemon.paths.trainer.rename(tmp_path / "moved")
    daemon.paths.trainer.mkdir()
    assert daemon.process.wait(60) == 0
    shutil.rmtree(daemon.paths.trainer)
    (tmp_path / "moved").rename(daemon.paths.trainer)
    assert daemon.start().client.health().pid


@pytest.mark.parametrize("name", ["d" * 150, "with a space, 100% & #more?"])
def test_a_data_root_may_lie_deep_or_have_any_name(make_daemon: MakeDaemon, tmp_path: Path, name: str) -> None:
    """The kernel takes 107 bytes for a socket, gRPC reads addresses as URIs."""
    daemon = make_daemon(home=tmp_path / name / "home").start()
    run_id = daemon.submit(total_timesteps=5)
    assert daemon.wait_over(run_id).outcome == "completed"
    daemon.kill()
    daemon.start()
    assert daemon.client.run(run_id).outcome == "completed"
    assert stop_daemon(daemon.paths)


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
    assert files_with(daemon.paths.root, secrets_of_all) == []


def shown_by(process: ProcessIdentity, file: str) -> str:
    """What /proc says of a process, "" when it ended meanwhile."""
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
    assert stat.S_IMODE(paths.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.trainer.stat().st_mode) == 0o700


def test_a_token_that_others_could_read_is_replaced(daemon: DaemonProcess) -> None:
    """Closing the file again would not take back what was read."""
    read_by_others = daemon.paths.token_file.read_text()
    daemon.paths.token_file.chmod(0o644)
    wait_for("another token", lambda: daemon.paths.token_file.read_text() != read_by_others)
    assert stat.S_IMODE(daemon.paths.token_file.stat().st_mode) == 0o600
    with raw_stub(daemon) as (stub, _):
        denied(lambda: CLIENT_CALLS["GetHealth"](stub, bearer(read_by_others)))
    assert daemon.client.health().pid


def test_a_folder_that_somebody_opened_up_is_closed_again(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    daemon.terminate()
    daemon.paths.trainer.chmod(0o755)
    daemon.start()
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
