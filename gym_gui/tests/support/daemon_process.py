"""A real daemon in a process of its own, on a free port, with a data root of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.services.trainer.daemon_control import answers, running_endpoint
from gym_gui.services.trainer.errors import UnknownRunError
from gym_gui.services.trainer.executor import WorkerHandle
from gym_gui.services.trainer.process_sweep import processes_of, send_signal
from gym_gui.services.trainer.run_registry import RunRegistry
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb

WORKERS = Path(__file__).resolve().parents[1] / "workers"
HANG_GUARD = 60.0
T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T | None], timeout: float = HANG_GUARD, interval: float = 0.02) -> T:
    """Poll until a probe returns something true; a failure names what was waited for."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        found = probe()
        if found:
            return found
        time.sleep(interval)
    raise AssertionError(f"waited {timeout:g} s in vain for {what}")


class DaemonProcess:
    """Start, kill and restart a daemon. :meth:`clean_up` leaves no process behind, whatever the test did."""

    def __init__(self, home: Path, *arguments: str, **settings: Any) -> None:
        self.paths = MosaicPaths(home)
        self.arguments = ["--port", "0", *arguments]
        self.env = {
            **os.environ,
            "MOSAIC_HOME": str(home),
            "MOSAIC_WORKER_PATH": str(WORKERS),
            "MOSAIC_TRAINER_CPUS": "8",
            "MOSAIC_TRAINER_MEMORY_MB": "100000",
            "MOSAIC_TRAINER_HEARTBEAT_SECONDS": "0.2",
            "MOSAIC_TRAINER_WARM_STARTS": "0",
            **{f"MOSAIC_TRAINER_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._client: TrainerClient | None = None

    # ---- life ----------------------------------------------------------------------------------------------------

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it to answer."""
        self.paths.logs.mkdir(parents=True, exist_ok=True)
        with (self.paths.logs / "daemon.out").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gym_gui.services.trainer", *self.arguments],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def start(self) -> DaemonProcess:
        process = self.launch()

        def answering() -> bool:
            assert process.poll() is None, f"the daemon ended: {self.output()}"
            endpoint = running_endpoint(self.paths)
            return endpoint is not None and endpoint.pid == process.pid and answers(self.paths, endpoint)

        wait_for("the daemon to answer", answering)
        return self

    def output(self) -> str:
        """What the daemon printed, over all its starts."""
        return (self.paths.logs / "daemon.out").read_text(errors="replace")

    def structured_log(self) -> str:
        return self.paths.daemon_log.read_text()

    def kill(self) -> None:
        """``kill -9``."""
        assert self.process is not None
        self._forget_client()
        self.process.kill()
        self.process.wait(HANG_GUARD)

    def terminate(self) -> int:
        """SIGTERM and wait; the exit status."""
        assert self.process is not None
        self._forget_client()
        self.process.terminate()
        return self.process.wait(HANG_GUARD)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        self._forget_client()
        for process in self.worker_processes():
            send_signal(process, signal.SIGKILL)

    # ---- asking --------------------------------------------------------------------------------------------------

    @property
    def client(self) -> TrainerClient:
        if self._client is None:
            self._client = TrainerClient.connect(self.paths, start=False)
        return self._client

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def submit(self, **config: Any) -> str:
        """Submit a toy run; its id."""
        return self.client.submit(toy_config(**config)).run.run_id

    def wait_state(self, run_id: str, *states: str, timeout: float = HANG_GUARD) -> pb.Run:
        def reached() -> pb.Run | None:
            run = self.client.run(run_id)
            if run.state == "TERM" and "TERM" not in states:
                raise AssertionError(f"run {run_id} ended before it reached {' or '.join(states)}")
            return run if run.state in states else None

        try:
            return wait_for(f"run {run_id} to reach {' or '.join(states)}", reached, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self._describe(run_id)}") from None

    def wait_over(self, run_id: str, timeout: float = HANG_GUARD) -> pb.Run:
        return self.wait_state(run_id, "TERM", timeout=timeout)

    def _describe(self, run_id: str) -> str:
        try:
            run = self.client.run(run_id)
        except ClientError as error:
            return str(error)
        moves = [f"{t.from_state}→{t.to_state} {t.cause}" for t in self.client.history(run_id)]
        return f"{run.state} {run.outcome} {run.reason!r}; {moves}"

    # ---- looking behind the curtain ------------------------------------------------------------------------------

    def registry(self) -> RunRegistry:
        """A registry of one's own on the same file; close it."""
        return RunRegistry(self.paths.registry_db)

    def starts(self, run_id: str) -> int:
        """How often the toy worker of a run began."""
        path = self.paths.run(run_id).directory / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def processes(self, run_id: str) -> list[ProcessIdentity]:
        """The living processes of a run."""
        registry = self.registry()
        try:
            run = registry.get(run_id)
        except UnknownRunError:
            return []  # its registry was lost
        finally:
            registry.close()
        if run.process is None:
            return []
        handle = WorkerHandle(run_id, self.paths.run(run_id).directory, run.attempt, run.process)
        return processes_of(handle)

    def worker_processes(self) -> list[ProcessIdentity]:
        """The living processes of every run of this data root."""
        if not self.paths.runs.is_dir():
            return []
        found = (self.processes(entry.name) for entry in self.paths.runs.iterdir())
        return [process for processes in found for process in processes]


def toy_config(
    *,
    name: str = "toy",
    cpus: int = 1,
    max_wallclock_minutes: float | None = None,
    max_stall_minutes: float | None = None,
    **worker_config: Any,
) -> dict[str, Any]:
    """A run config for the toy worker; the rest of the arguments are its own settings."""
    return {
        "run_name": name,
        "resources": {"cpus": {"requested": cpus}},
        "artifacts": {},
        "metadata": {
            "worker": {"type": "toy", "module": "toy_worker.cli", "config": {"algo": "count", **worker_config}}
        },
        "schedule": {
            "max_wallclock_minutes": max_wallclock_minutes,
            "max_stall_minutes": max_stall_minutes,
        },
    }
