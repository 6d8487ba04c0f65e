"""A real daemon in a process of its own, with a data root of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.services.trainer.daemon_control import answers
from gym_gui.services.trainer.errors import UnknownRunError
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.marked_processes import end_all, workers_using
from gym_gui.tests.support.warm_popen import DAEMON
from mosaic_host.executor import process_of
from mosaic_host.process_sweep import RunMarks, processes_of
from mosaic_protocol.endpoint import Endpoint
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.unix_socket import listener

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
        self.arguments = [*arguments]
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
        self.prefix: list[str] = []
        """A command that becomes the daemon, for one with fewer rights."""
        self.process: subprocess.Popen[bytes] | None = None
        self._client: TrainerClient | None = None

    # ---- life ----------------------------------------------------------------------------------------------------

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it to answer."""
        self.paths.logs.mkdir(parents=True, exist_ok=True)
        with (self.paths.logs / "daemon.out").open("ab") as output:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", DAEMON, *self.arguments],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self.process

    def start(self) -> DaemonProcess:
        process = self.launch()

        def answering() -> bool:
            assert process.poll() is None, f"the daemon ended: {self.output()}"
            return listener(self.paths.socket) == process.pid and answers(self.paths)

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
        end_all(lambda: workers_using(self.paths.root))

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

    @property
    def has_cpus(self) -> dict[str, int]:
        """What it was told to give, for the checker of histories."""
        interactive = self.env.get("MOSAIC_TRAINER_INTERACTIVE_CPUS", TrainerSettings.interactive_cpus)
        return {"cpus": int(self.env["MOSAIC_TRAINER_CPUS"]), "interactive_cpus": int(interactive)}

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
        if not run.locator:
            return []
        leader = process_of(run.locator)
        return processes_of(RunMarks(run_id, self.paths.run(run_id).directory, run.attempt, leader))


def over_tcp(daemon: DaemonProcess, *, read_token: Callable[[], str] | None = None, **changes: Any) -> TrainerClient:
    """A client with a TCP address, as on another machine; of the data root it knows certificate and token. ``changes``
    are those of the endpoint."""
    endpoint = replace(Endpoint.at(daemon.client.health().tcp_target, daemon.paths), **changes)
    return TrainerClient(endpoint, read_token or daemon.paths.token_file.read_text, patience=0, timeout=HANG_GUARD)


def wait_until_trimmed(daemon: DaemonProcess, run_id: str, *, to: int) -> None:
    """Wait until the oldest chunk of a run holds this step: then nothing more goes."""

    def oldest_holds_it() -> bool:
        chunk = next(daemon.client.step_chunks(run_id))
        return chunk.first_step + chunk.count > to

    wait_for(f"steps before {to} to go", oldest_holds_it)


def toy_config(
    *,
    name: str = "toy",
    cpus: int = 1,
    max_wallclock_minutes: float | None = None,
    max_stall_minutes: float | None = None,
    worker: str = "toy",
    **worker_config: Any,
) -> dict[str, Any]:
    """A run config for the toy worker, or another of its kind; the rest of the arguments are its own settings."""
    return {
        "run_name": name,
        "resources": {"cpus": {"requested": cpus}},
        "artifacts": {},
        "metadata": {
            "worker": {"type": worker, "module": f"{worker}_worker.cli", "config": {"algo": "count", **worker_config}}
        },
        "schedule": {
            "max_wallclock_minutes": max_wallclock_minutes,
            "max_stall_minutes": max_stall_minutes,
        },
    }
