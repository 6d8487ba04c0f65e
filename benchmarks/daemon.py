"""A real trainer daemon for a benchmark: with a data root of its own, nothing left behind."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from benchmarks.machine import SCRATCH
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.daemon_control import start_daemon, stop_daemon
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from mosaic_host.executor import process_of
from mosaic_host.process_sweep import RunMarks, processes_of, send_signal
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import last_line
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Outcome, RunState

T = TypeVar("T")

HANG_GUARD = 300.0
CPUS = 8
"""What daemons of benchmarks take for their capacity, so that a queue can be blocked on any machine."""


class BenchmarkError(RuntimeError):
    """A measurement that could not be made; the message says why."""


def wait_for(what: str, probe: Callable[[], T | None], timeout: float = HANG_GUARD, interval: float = 0.01) -> T:
    """Poll until a probe returns something true. Raises :class:`BenchmarkError` naming what was waited for."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(interval)
    raise BenchmarkError(f"waited {timeout:g} s for {what}, which did not come")


class ScratchHome:
    """A data root that is removed at the end. Files can be put there before a daemon starts on it."""

    def __init__(self) -> None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        self.paths = MosaicPaths(Path(tempfile.mkdtemp(prefix="home-", dir=SCRATCH)))

    def __enter__(self) -> MosaicPaths:
        return self.paths

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.paths.root, ignore_errors=True)


class BenchDaemon:
    """A daemon on a data root, with one client. Leaving the context ends it and every worker it started."""

    def __init__(self, paths: MosaicPaths, *arguments: str) -> None:
        self.paths = paths
        self._arguments = ["--cpus", str(CPUS), *arguments]

    def __enter__(self) -> BenchDaemon:
        start_daemon(self.paths, self._arguments)
        self.client = TrainerClient.connect(self.paths, start=False)
        self.pid = self.client.health().pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        stop_daemon(self.paths)
        self._kill_workers()

    def wait_warm(self) -> None:
        """Wait until every fork server is ready. Raises when there is none or one failed."""

        def ready() -> bool:
            states = dict(self.client.health().warm_servers)
            if "failed" in states.values():
                raise BenchmarkError(f"the fork server failed: {self._last_words()}")
            return bool(states) and all(state == "ready" for state in states.values())

        wait_for("the fork server to be ready", ready, interval=0.1)

    def _last_words(self) -> str:
        return last_line((self.paths.logs / "fork_server.log").read_text()) or "it said nothing"

    def wait_state(self, run_id: str, *states: str) -> pb.Run:
        """Wait for a run. Raises when it ended instead, with its own words."""

        def reached() -> pb.Run | None:
            run = self.client.run(run_id)
            if run.state == RunState.TERM and RunState.TERM not in states:
                raise BenchmarkError(f"the run ended as {run.outcome}: {run.reason}")
            return run if run.state in states else None

        return wait_for(f"run {run_id} to reach {' or '.join(states)}", reached, interval=0.05)

    def wait_completed(self, run_id: str) -> pb.Run:
        """Wait for a run that was to be started warm. Raises when it was not, or did not complete."""
        run = self.wait_state(run_id, RunState.TERM)
        if run.outcome != Outcome.COMPLETED:
            raise BenchmarkError(f"the run ended as {run.outcome}: {run.reason}")
        if run.start_mode != "warm":
            raise BenchmarkError(
                f"a run was started {run.start_mode} instead of warm: leave the worker's code alone while measuring"
            )
        return run

    def _kill_workers(self) -> None:
        registry = RunRegistry(self.paths.registry_db)
        try:
            left = [run for run in registry.unfinished() if run.locator]
        finally:
            registry.close()
        for run in left:
            folder, leader = self.paths.run(run.run_id).directory, process_of(run.locator)
            for process in processes_of(RunMarks(run.run_id, folder, run.attempt, leader)):
                send_signal(process, signal.SIGKILL)


def ppo_config(name: str, *, env_id: str = "CartPole-v1", steps: int, cpus: int = 1, seed: int = 1) -> dict[str, Any]:
    """A run config for our PPO."""
    worker = {"algo": "ppo", "env_id": env_id, "seed": seed, "total_timesteps": steps}
    return {
        "run_name": name,
        "resources": {"cpus": {"requested": cpus}},
        "artifacts": {},
        "metadata": {"worker": {"type": "cleanrl", "module": "cleanrl_worker.cli", "config": worker}},
    }
