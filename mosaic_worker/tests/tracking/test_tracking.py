"""Tracking with the real wandb, offline: what goes in comes out, and nothing that goes wrong reaches the training."""

from __future__ import annotations

import base64
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.tracking_record import FINISHED, read_record
from mosaic_protocol.wandb_files import find_runs, read_run
from mosaic_worker.tests.tracking.wandb_server import wandb_server
from mosaic_worker.tracking import Tracker, open_tracker
from mosaic_worker.tracking import tracker as tracker_module

RUN_ID = "01K9ZQ3V7X0000000000000000"
KEY = "5ecre7" * 7
PATIENCE = 60.0
Environ = dict[str, str]


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    """An environment without keys, whose home is the test's own."""
    left_out = ("WANDB_", "MOSAIC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"HOME": str(tmp_path / "home"), "WANDB_RUN_ID": RUN_ID, "MOSAIC_RUN_ID": RUN_ID}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Tracker]]:
    """Open trackers that are closed after the test."""
    opened: list[Tracker] = []

    def start(environ: Environ, **args: Any) -> Tracker:
        found = open_tracker({"track": True, **args}, tmp_path / "run", environ)
        assert found is not None
        opened.append(found)
        return found

    yield start
    for one in opened:
        one.close(1, patience=0)


def only_run(run_dir: Path) -> Any:
    (file,) = find_runs(run_dir)
    return read_run(file)


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)
    return found


def children_of(pid: int) -> list[ProcessIdentity]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in (ProcessIdentity.of(int(one)) for one in listed) if child is not None]


def files_holding(folder: Path, secret: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_nothing_is_started_unless_asked_for(tmp_path: Path, environ: Environ, capfd: pytest.CaptureFixture) -> None:
    assert open_tracker({"track": False}, tmp_path, environ) is None
    assert open_tracker({}, tmp_path, environ) is None
    assert capfd.readouterr().err == ""


def test_config_rows_and_exit_code_come_back_from_an_offline_run(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    tracker = started(environ, wandb_project_name="walks", seed=3, note=None, rates=[0.5, 1])
    tracker.scalars(10, {"charts/episodic_return": 1.5})
    tracker.scalars(10, {"charts/episodic_return": 2.5, "losses/value": math.nan})
    tracker.scalars(20, {"charts/SPS": 300.0})
    tracker.close(7, patience=PATIENCE)
    run = only_run(tmp_path / "run")
    assert (run.run_id, run.project, run.exit_code, run.complete) == (RUN_ID, "walks", 7, True)
    assert run.config["seed"] == 3 and run.config["rates"] == [0.5, 1] and run.config["note"] is None
    rows = [{key: value for key, value in row.items() if not key.startswith("_")} for row in run.history]
    assert rows[0] == {"global_step": 10, "charts/episodic_return": 1.5}
    assert rows[1]["charts/episodic_return"] == 2.5 and math.isnan(rows[1]["losses/value"])
    assert rows[2] == {"global_step": 20, "charts/SPS": 300}
    assert run.summary["charts/SPS"] == 300
    told = capfd.readouterr().err
    assert "there is no key" in told and "wandb sync" in told and len(told.splitlines()) == 1
    assert tracker.dropped_rows == 0


def test_only_arguments_and_scalars_are_recorded(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker]
) -> None:
    started(environ).close(0, patience=PATIENCE)
    record = json.loads((tmp_path / "run" / "wandb" / "tracking.json").read_text())
    folder = tmp_path / "run" / "wandb" / record["files"]
    assert record["mode"] == "offline" and record["url"] is None and folder.is_dir()
    assert list((folder / "files").iterdir()) == []
    assert not (tmp_path / "home").exists()


def test_an_unreachable_server_makes_the_run_an_offline_one_and_no_secret_is_written(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        proxy = f"http://someone:pa55word@{address}"
        environ |= {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": "http://wandb.invalid", "WANDB_INIT_TIMEOUT": "1"}
        environ |= {"WANDB_VPN_HTTP_PROXY": proxy, "WANDB_VPN_HTTPS_PROXY": proxy, "MOSAIC_WANDB_PROXY": "1"}
        tracker = started(environ)
        tracker.scalars(1, {"a": 1.0})
        command = Path(f"/proc/{tracker.pid}/cmdline").read_text()
        tracker.close(0, patience=PATIENCE)
    told = capfd.readouterr().err
    assert f"through the proxy http://{address} (from the environment)" in told
    assert "Tracked offline: W&B cannot be used online" in told
    assert len(read_run(find_runs(tmp_path / "run")[-1]).history) == 1
    for secret in (KEY, "pa55word"):
        assert secret not in told + command
        assert files_holding(tmp_path, secret) == []


def test_with_a_key_the_run_goes_online_and_the_key_nowhere_else(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    with wandb_server() as server:
        tracker = started(
            environ | {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": server.address}, wandb_entity="team", seed=3
        )
        for step in range(1000):
            tracker.scalars(step, {"charts/SPS": step * 1.0})
        tracker.close(4, patience=PATIENCE)
    assert server.rows() == [{"global_step": step, "charts/SPS": step} for step in range(1000)]
    (created, *_) = [variables for name, variables in server.operations if name == "UpsertBucket"]
    assert (created["name"], created["entity"], created["project"]) == (RUN_ID, "team", "cleanRL")
    assert json.loads(created["config"])["seed"]["value"] == 3
    assert server.streamed[-1]["exitcode"] == 4
    coded = base64.b64encode(f"api:{KEY}".encode()).decode()
    assert all(headers["Authorization"] == f"Basic {coded}" for headers in server.headers if "Authorization" in headers)
    url = f"{server.address}/team/cleanRL/runs/{RUN_ID}"
    assert capfd.readouterr().err == f"Tracked at {url}\n"
    record = read_record(tmp_path / "run")
    assert record is not None and (record.url, record.state) == (url, FINISHED)
    assert (record.rows, record.dropped_rows) == (1000, 0)
    assert record.cpu_seconds > 0 and record.seconds > 0
    for secret in (KEY, coded):
        assert files_holding(tmp_path, secret) == []


@pytest.mark.parametrize("place", ["keyring", "netrc"])
def test_a_key_in_the_keyring_or_in_netrc_is_as_good(
    place: str, tmp_path: Path, environ: Environ, started: Callable[..., Tracker]
) -> None:
    with wandb_server() as server:
        if place == "keyring":
            (tmp_path / "keyring.py").write_text(
                f"def get_password(service, user): return {{('mosaic-wandb', 'api_key'): {KEY!r}}}[service, user]\n"
            )
        else:
            netrc = tmp_path / "netrc"
            netrc.write_text(f"machine {server.address.removeprefix('http://')} login user password {KEY}\n")
            environ["NETRC"] = str(netrc)
        tracker = started(environ | {"PYTHONPATH": str(tmp_path), "WANDB_BASE_URL": server.address})
        tracker.close(0, patience=PATIENCE)
    assert server.headers[0]["Authorization"] == f"Basic {base64.b64encode(f'api:{KEY}'.encode()).decode()}"
    assert files_holding(tmp_path / "run", KEY) == []


def test_a_run_with_a_proxy_reaches_the_server_through_it(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker]
) -> None:
    with wandb_server() as server:
        (tmp_path / ".env").write_text(f"WANDB_VPN_HTTP_PROXY={server.address.replace('//', '//someone:pa55word@')}\n")
        online = {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": "http://wandb.invalid"}
        tracker = started(environ | online | {"MOSAIC_HOME": str(tmp_path / "var")}, wandb_use_proxy=True)
        tracker.scalars(1, {"a": 2.0})
        tracker.close(0, patience=PATIENCE)
    assert server.rows() == [{"global_step": 1, "a": 2}]
    login = base64.b64encode(b"someone:pa55word").decode()
    assert server.headers[0]["Proxy-Authorization"] == f"Basic {login}"
    assert files_holding(tmp_path / "run", "pa55word") == files_holding(tmp_path / "run", login) == []


def test_a_crash_of_wandbs_helper_is_one_sentence(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    tracker = started(environ | {"WANDB_MODE": "offline"})
    wait_for("the run to be open", (tmp_path / "run" / "wandb" / "tracking.json").exists)
    (core,) = children_of(tracker.pid)
    os.kill(core.pid, signal.SIGSEGV)
    wait_for("it to be gone", lambda: not core.is_alive())
    tracker.scalars(1, {"a": 1.0})
    tracker.close(0, patience=PATIENCE)
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 2 and told[0].startswith("Tracked offline") and told[1].startswith("Tracking ended early: ")


def test_training_does_not_get_the_proxy(
    environ: Environ, started: Callable[..., Tracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    address = "http://127.0.0.1:9"
    tracker = started(environ | {"WANDB_VPN_HTTPS_PROXY": address, "MOSAIC_WANDB_PROXY": "1", "WANDB_MODE": "offline"})
    theirs = wait_for("the child", lambda: Path(f"/proc/{tracker.pid}/environ").read_bytes()).split(b"\0")
    assert f"HTTPS_PROXY={address}".encode() in theirs
    assert "HTTPS_PROXY" not in os.environ and "https_proxy" not in os.environ


def test_a_proxy_that_was_asked_for_and_is_not_named_keeps_the_run_offline(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    started(environ | {"WANDB_API_KEY": KEY}, wandb_use_proxy=True).close(0, patience=PATIENCE)
    assert "a proxy was asked for, but neither the environment nor a .env file names one" in capfd.readouterr().err
    assert only_run(tmp_path / "run").exit_code == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"WANDB_MODE": "disabled"}, "WANDB_MODE is 'disabled'"), ({}, "mosaic_worker.extras --set wandb")],
)
def test_tracking_that_is_not_possible_is_one_sentence(
    change: Environ,
    sentence: str,
    tmp_path: Path,
    environ: Environ,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(tracker_module, "find_spec", lambda name: None)
    assert open_tracker({"track": True}, tmp_path, environ | change) is None
    told = capfd.readouterr().err
    assert sentence in told and told.endswith("Training goes on without W&B.\n") and told.count("\n") == 1


def with_fake_wandb(environ: Environ, folder: Path, source: str) -> Environ:
    """An environment in which wandb is what the test says."""
    (folder / "fake" / "wandb").mkdir(parents=True)
    (folder / "fake" / "wandb" / "__init__.py").write_text(source)
    return environ | {"PYTHONPATH": str(folder / "fake")}


FAKE = """
import time
class Settings:
    def __init__(self, **options): pass
class Run:
    id, url = "x", None
    def __init__(self, directory): self.dir = directory + "/wandb/offline-run-1-x/files"
    def define_metric(self, *names, **options): pass
    def log(self, row): {log}
    def finish(self, exit_code): pass
def init(**options):
    {init}
    return Run(options["dir"])
"""


@pytest.mark.parametrize(
    "broken",
    [
        FAKE.format(init="raise OSError(28, 'No space left on device')", log="pass"),
        FAKE.format(init="pass", log="raise OSError(28, 'No space left on device')"),
        "raise ImportError('No space left on device')",
    ],
    ids=["at its start", "in the middle", "at import"],
)
def test_a_tracker_that_breaks_says_so_once_and_training_goes_on(
    broken: str, tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    tracker = started(with_fake_wandb(environ, tmp_path, broken) | {"WANDB_MODE": "offline"})
    tracker.scalars(1, {"a": 1.0})
    wait_for("the tracking process to end", lambda: tracker._process.poll() is not None)
    for step in range(1000):
        tracker.scalars(step, {"a": 1.0})
    tracker.close(0, patience=PATIENCE)
    endings = [line for line in capfd.readouterr().err.splitlines() if "Tracked offline" not in line]
    assert len(endings) == 1
    assert endings[0].startswith("Tracking ended early: ") and "No space left" in endings[0]


def test_a_slow_wandb_costs_rows_and_no_time_and_the_rows_are_counted(
    tmp_path: Path,
    environ: Environ,
    started: Callable[..., Tracker],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(tracker_module, "MAX_PENDING_ROWS", 500)
    hanging = with_fake_wandb(environ, tmp_path, FAKE.format(init="time.sleep(3600)", log="pass"))
    tracker = started(hanging | {"WANDB_MODE": "offline"})
    values = {f"tag/{number}": 1.0 for number in range(20)}
    for step in range(20_000):
        tracker.scalars(step, values)
    assert tracker.dropped_rows > 10_000
    tracker.close(0, patience=0.1)
    told = capfd.readouterr().err
    assert "W&B does not keep up" in told
    assert "had not begun when the training was over, nor 0.1 s later: nothing of this run was tracked" in told
    assert "wandb sync" not in told, "there is nothing to send"
    assert f"{tracker.dropped_rows:,} rows were left out" in told


def test_what_a_wandb_that_does_not_finish_has_recorded_can_be_sent(
    tmp_path: Path, environ: Environ, started: Callable[..., Tracker], capfd: pytest.CaptureFixture
) -> None:
    begins = "import pathlib; file = pathlib.Path(options['dir'], 'wandb', 'offline-run-1-x', 'run-x.wandb')"
    writes = "file.parent.mkdir(parents=True); file.write_bytes(b'x'); time.sleep(3600)"
    hanging = with_fake_wandb(environ, tmp_path, FAKE.format(init=f"{begins}; {writes}", log="pass"))
    tracker = started(hanging | {"WANDB_MODE": "offline"})
    wait_for("the file", lambda: list(tmp_path.rglob("run-x.wandb")))
    tracker.close(0, patience=0.1)
    told = capfd.readouterr().err
    assert "did not finish within 0.1 s" in told and "(`wandb sync` sends it)" in told


TRAINING = """
import os, sys, time
from pathlib import Path
from mosaic_worker.tracking import open_tracker
tracker = open_tracker({"track": True}, Path(sys.argv[1]), os.environ)
tracker.scalars(1, {"a": 1.0})
print(tracker.pid, flush=True)
time.sleep(600)
"""


def start_training(run_dir: Path, environ: Environ) -> tuple[subprocess.Popen[str], list[ProcessIdentity]]:
    """A tracked training process, and everything that was started for its tracking."""
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(run_dir)], env=environ, stdout=subprocess.PIPE, text=True
    )
    assert training.stdout is not None
    tracking = ProcessIdentity.of(int(training.stdout.readline()))
    assert tracking is not None
    wait_for("the run to be open", (run_dir / "wandb" / "tracking.json").exists)
    (core,) = children_of(tracking.pid)
    return training, [tracking, core]


def gone(processes: list[ProcessIdentity]) -> bool:
    return not any(process.is_alive() for process in processes)


def test_a_killed_training_leaves_no_wandb_process_and_its_run_counts_as_failed(
    tmp_path: Path, environ: Environ
) -> None:
    training, helpers = start_training(tmp_path / "run", environ)
    training.kill()
    training.communicate()
    wait_for("the helpers to end", lambda: gone(helpers))
    run = only_run(tmp_path / "run")
    assert run.exit_code == 1 and len(run.history) == 1


def test_wandbs_helper_ends_with_the_tracking_process_and_carries_the_mark_of_the_run(
    tmp_path: Path, environ: Environ
) -> None:
    training, helpers = start_training(tmp_path / "run", environ)
    try:
        for helper in helpers:
            # By this mark the trainer's sweep finds processes that left the session of the run.
            assert f"MOSAIC_RUN_ID={RUN_ID}".encode() in Path(f"/proc/{helper.pid}/environ").read_bytes().split(b"\0")
        assert os.getsid(helpers[1].pid) != os.getsid(training.pid)
        os.kill(helpers[0].pid, signal.SIGKILL)
        wait_for("the helpers to end", lambda: gone(helpers))
        assert training.poll() is None
    finally:
        training.kill()
        training.communicate()


def test_a_polite_stop_of_the_whole_group_does_not_cost_the_last_rows(tmp_path: Path, environ: Environ) -> None:
    training, helpers = start_training(tmp_path / "run", environ)
    os.kill(helpers[0].pid, signal.SIGTERM)
    os.kill(helpers[0].pid, signal.SIGINT)
    training.kill()
    training.communicate()
    wait_for("the helpers to end", lambda: gone(helpers))
    assert only_run(tmp_path / "run").exit_code == 1
