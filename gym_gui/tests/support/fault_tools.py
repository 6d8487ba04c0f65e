"""What several fault tests need: raw calls, looking at processes, editing a registry whose daemon is dead."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from gym_gui.services.trainer.daemon_control import EXIT_ALREADY_RUNS
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.daemon_process import DaemonProcess
from mosaic_host.executor import process_of
from mosaic_protocol.endpoint import Endpoint, bearer
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub

Metadata = tuple[tuple[str, str], ...]


@contextmanager
def raw_stub(daemon: DaemonProcess) -> Iterator[tuple[TrainerServiceStub, Metadata]]:
    """The generated stub and the metadata that opens the door: no retries, no translation of errors."""
    channel = Endpoint.of(daemon.paths).channel()
    try:
        yield TrainerServiceStub(channel), bearer(daemon.paths.token_file.read_text())
    finally:
        channel.close()


def refusal(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    """Status and sentence of a refused call."""
    return error.code(), error.details() or ""


def refused(daemon: DaemonProcess, *, prefix: tuple[str, ...] = ()) -> str:
    """Start a daemon that cannot start: what it says, which must be one line and no traceback."""
    command = [*prefix, sys.executable, "-m", "gym_gui.services.trainer", *daemon.arguments]
    ended = subprocess.run(
        command, env=daemon.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode in (1, EXIT_ALREADY_RUNS) and not ended.stdout, ended.stdout + ended.stderr
    (sentence,) = ended.stderr.splitlines()
    assert sentence.startswith("mosaic trainer: ")
    return sentence


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine and its key, in a new folder."""
    folder.mkdir()
    cert, key = folder / "cert.pem", folder / "key.pem"
    alternatives = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", alternatives, "-keyout", str(key), "-out", str(cert)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return cert, key


def steps_of(daemon: DaemonProcess, run_id: str, tag: str = "charts/episodic_return") -> list[int]:
    """The steps of every stored point of a metric, in order; a step that was stored twice appears twice."""
    (series,) = daemon.client.metrics(run_id, [tag], max_points=1_000_000)
    assert series.total_points <= len(series.steps), "some were left out"
    return list(series.steps)


def journalled(daemon: DaemonProcess, run_id: str) -> int:
    """How many records the worker of a run has in its outbox; works while no daemon runs."""
    reader = OutboxReader(daemon.paths.run(run_id).outbox, "worker")
    try:
        return sum(len(lines) for lines in iter(reader.read, []))
    finally:
        reader.close()


def worker_of(daemon: DaemonProcess, run_id: str) -> ProcessIdentity:
    """The leading process of a run."""
    with closing(daemon.registry()) as registry:
        locator = registry.get(run_id).locator
    assert locator, f"run {run_id} has no process"
    return process_of(locator)


def rewrite_run(registry: RunRegistry, run_id: str, **changes: Any) -> RunRecord:
    """Change a stored run behind the daemon's back, without a transition."""
    return registry.save(replace(registry.get(run_id), **changes), ()).result()


def check_integrity(path: Path) -> None:
    """SQLite's own, full check of a database."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
