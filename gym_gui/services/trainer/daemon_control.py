"""Starting, finding and stopping the daemon of a data root from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import grpc

from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.instance_lock import holder
from gym_gui.services.trainer.process_sweep import send_signal
from gym_gui.services.trainer.tokens import read_daemon_token
from mosaic_protocol.endpoint import Endpoint, bearer
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0


def ensure_daemon(paths: MosaicPaths) -> Endpoint:
    """Where the daemon listens, starting one when none runs. Raises :class:`WorldError` with the daemon's own words."""
    return running_endpoint(paths) or start_daemon(paths)


def running_endpoint(paths: MosaicPaths) -> Endpoint | None:
    """Where a daemon listens that holds the lock of this data root, None when there is none."""
    held = holder(paths.lock_file)
    if held is None or "target" not in held:
        return None
    endpoint = Endpoint.read(paths.endpoint_file)
    return endpoint if endpoint is not None and endpoint.target == held["target"] else None


def start_daemon(paths: MosaicPaths, arguments: list[str] | None = None) -> Endpoint:
    """Start a daemon that outlives us and wait until it answers. One that is being started by somebody else is as
    good."""
    try:
        paths.logs.mkdir(parents=True, exist_ok=True)
        log_path = paths.logs / "daemon.out"
        log = log_path.open("ab")
    except OSError as error:
        raise WorldError(
            f"cannot use {paths.root} for data: {error.strerror} ({error.filename}). "
            "Set MOSAIC_HOME to a folder you can write to."
        ) from error
    with log:
        begin = log.tell()
        child = _spawn(paths, arguments or [], log)
    return _wait_for_answer(paths, child, log_path, begin)


def _spawn(paths: MosaicPaths, arguments: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gym_gui.services.trainer", "--home", str(paths.root), *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=paths.root
    )


def _wait_for_answer(paths: MosaicPaths, child: subprocess.Popen[bytes], log: Path, begin: int) -> Endpoint:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        endpoint = running_endpoint(paths)
        if endpoint is not None and answers(paths, endpoint):
            # It is meant to outlive us; where it does not, a cockpit that stays open must not keep its remains.
            threading.Thread(target=child.wait, name="daemon-reaper", daemon=True).start()
            return endpoint
        if child.poll() is not None and holder(paths.lock_file) is None:
            raise WorldError(_last_words(log, begin))
        time.sleep(0.05)
    raise WorldError(f"the trainer daemon did not answer within {_START_SECONDS:g} s; its output is in {log}")


def _last_words(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").strip().splitlines()
    words = lines[-1].removeprefix("mosaic trainer: ") if lines else "it said nothing"
    return f"the trainer daemon could not start: {words}"


def answers(paths: MosaicPaths, endpoint: Endpoint, timeout: float = 2.0) -> bool:
    """Whether a daemon answers there with our token."""
    channel = endpoint.channel()
    try:
        meta = bearer(read_daemon_token(paths.token_file))
        TrainerServiceStub(channel).GetHealth(pb.HealthRequest(), metadata=meta, timeout=timeout)
    except (grpc.RpcError, OSError):
        return False
    finally:
        channel.close()
    return True


def stop_daemon(paths: MosaicPaths) -> bool:
    """SIGTERM to the daemon and wait until nobody holds the lock; False when nobody did. One that was being started
    beside it, and takes the lock now, is told to leave as well."""
    deadline = time.monotonic() + _STOP_SECONDS
    told: ProcessIdentity | None = None
    while (held := holder(paths.lock_file)) is not None:
        if "pid" in held and told != (process := ProcessIdentity(held["pid"], held["start_ticks"], held["boot"])):
            told = process
            send_signal(process, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise WorldError(_does_not_stop(told))
        time.sleep(0.05)
    return told is not None


def _does_not_stop(told: ProcessIdentity | None) -> str:
    if told is None:
        return "somebody holds the lock of the trainer daemon and does not say who; see `mosaic daemon status`"
    return f"the trainer daemon (process {told.pid}) does not stop; `kill -9 {told.pid}` is safe"
