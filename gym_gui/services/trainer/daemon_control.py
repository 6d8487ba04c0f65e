"""Starting, finding and stopping the daemon of a data root from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import grpc

from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.instance_lock import holder
from gym_gui.services.trainer.rpc.tokens import read_client_token
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.endpoint import Endpoint, bearer
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub
from mosaic_protocol.unix_socket import listener

EXIT_ALREADY_RUNS = 3
"""Exit status of a daemon that found another one."""
_START_SECONDS = 30.0
_SLOW_START_SECONDS = 90.0
"""How much longer our daemon is waited for while it is on its way: an overloaded machine is slow, not broken."""
_STOP_SECONDS = 15.0


def ensure_daemon(paths: MosaicPaths) -> Endpoint:
    """Where the daemon listens, starting one when none runs. Raises :class:`WorldError` with the daemon's own words."""
    return running_endpoint(paths) or start_daemon(paths)


def running_endpoint(paths: MosaicPaths) -> Endpoint | None:
    """Where a daemon listens, None when there is none. One that is frozen or overloaded listens as well."""
    return None if listener(paths.socket) is None else Endpoint.of(paths)


def start_daemon(paths: MosaicPaths, arguments: list[str] | None = None) -> Endpoint:
    """Start a daemon that outlives us and wait until it answers. One that is being started by somebody else is as
    good."""
    try:
        paths.logs.mkdir(parents=True, exist_ok=True)
        log_path = paths.logs / "daemon.out"
        log_path.touch()
    except OSError as error:
        raise WorldError(
            f"cannot use {paths.root} for data: {error.strerror} ({error.filename}). "
            "Set MOSAIC_HOME to a folder you can write to."
        ) from error
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with log_path.open("ab") as log:
            begin = log.tell()
            child = _spawn(paths, arguments or [], log)
        try:
            return _wait_for_answer(paths, child, log_path, begin, deadline)
        except _LeftMeanwhileError:
            continue


def _spawn(paths: MosaicPaths, arguments: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gym_gui.services.trainer", "--home", str(paths.root), *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=paths.root
    )


class _LeftMeanwhileError(Exception):
    """The daemon that kept ours from starting was on its way out, and is gone."""


def _wait_for_answer(
    paths: MosaicPaths, child: subprocess.Popen[bytes], log: Path, begin: int, deadline: float
) -> Endpoint:
    begun, patient_until = time.monotonic(), deadline + _SLOW_START_SECONDS
    while time.monotonic() < (patient_until if child.poll() is None else deadline):
        endpoint = running_endpoint(paths)
        if endpoint is not None and answers(paths):
            # It is meant to outlive us; where it does not, a cockpit that stays open must not keep its remains.
            threading.Thread(target=child.wait, name="daemon-reaper", daemon=True).start()
            return endpoint
        if child.poll() is not None and holder(paths) is None:
            if child.returncode == EXIT_ALREADY_RUNS:
                raise _LeftMeanwhileError
            raise WorldError(_last_words(log, begin))
        time.sleep(0.05)
    waited = time.monotonic() - begun
    raise WorldError(f"the trainer daemon did not answer within {waited:.0f} s; its output is in {log}")


def _last_words(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").strip().splitlines()
    words = lines[-1].removeprefix("mosaic trainer: ") if lines else "it said nothing"
    return f"the trainer daemon could not start: {words}"


def answers(paths: MosaicPaths, timeout: float = 2.0) -> bool:
    """Whether the daemon of a data root answers with our token."""
    channel = Endpoint.of(paths).channel()
    try:
        meta = bearer(read_client_token(paths.token_file))
        TrainerServiceStub(channel).GetHealth(pb.HealthRequest(), metadata=meta, timeout=timeout)
    except (grpc.RpcError, OSError, WorldError):
        return False
    finally:
        channel.close()
    return True


def stop_daemon(paths: MosaicPaths) -> bool:
    """SIGTERM to the daemon and wait until nobody holds the lock; False when nobody did. One that was being started
    beside it, and takes the lock now, gets the signal as well."""
    deadline = time.monotonic() + _STOP_SECONDS
    told: ProcessIdentity | None = None
    while (held := holder(paths)) is not None:
        process = _daemon_process(paths, held)
        if process is not None and told != process:
            told = process
            send_signal(process, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise WorldError(_does_not_stop(told))
        time.sleep(0.05)
    return told is not None


def _daemon_process(paths: MosaicPaths, held: dict[str, Any]) -> ProcessIdentity | None:
    """The daemon by its own words, or, where somebody removed them, by its socket."""
    if "pid" in held:
        return ProcessIdentity(held["pid"], held["start_ticks"], held["boot"])
    pid = listener(paths.socket)
    return ProcessIdentity.of(pid) if pid else None


def _does_not_stop(told: ProcessIdentity | None) -> str:
    if told is None:
        return "somebody holds the lock of the trainer daemon and does not say who; see `mosaic daemon status`"
    return f"the trainer daemon (process {told.pid}) does not stop; `kill -9 {told.pid}` is safe"
