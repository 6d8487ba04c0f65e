"""How worker processes are started, watched and ended: the interface, whatever the place they run in.

Every implementation passes ``gym_gui/tests/executor_conformance.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mosaic_protocol.process_identity import ProcessIdentity


@dataclass(frozen=True)
class LaunchSpec:
    """All that is needed to start one worker: ``python -m module *argv`` and its surroundings."""

    run_id: str
    attempt: int
    python: Path
    module: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    run_dir: Path
    stdout: Path
    stderr: Path
    warm_module: str = ""

    @property
    def command(self) -> list[str]:
        return [str(self.python), "-m", self.module, *self.argv]


@dataclass(frozen=True)
class StartedWorker:
    """The leading process of a worker, and whether it was forked ``warm`` or spawned ``cold``."""

    process: ProcessIdentity
    mode: str


@dataclass(frozen=True)
class WorkerHandle:
    """What is needed to find a worker again after the daemon was restarted. The process is None while a launch is
    recorded but not known to have happened."""

    run_id: str
    run_dir: Path
    attempt: int
    process: ProcessIdentity


class Executor(ABC):
    """Starts, watches and ends workers.

    All coroutines belong to the daemon's event loop. An executor owns no run state: everything it needs to go on after
    a restart is in the :class:`WorkerHandle`. Closing an executor never ends a worker.
    """

    @abstractmethod
    async def start(self, spec: LaunchSpec) -> StartedWorker:
        """Start a worker in a session of its own. Raises :class:`LaunchError` when no process came to be,
        :class:`NotReadyError` or :class:`StorageFullError` when none could for now."""

    @abstractmethod
    async def wait(self, handle: WorkerHandle) -> int | None:
        """Wait until the leading process is gone: its exit status (negative: signal), None when nobody can know.

        Returns at once for a process that is gone already, also when its pid belongs to another process now.
        """

    @abstractmethod
    async def ask_to_stop(self, handle: WorkerHandle) -> None:
        """SIGTERM to the leading process alone, which then stops what it started. No error when it is gone."""

    @abstractmethod
    async def kill_all(self, handle: WorkerHandle) -> None:
        """End every process of the run, also those that left its process group or session; return when none is left.

        Never touches a process that does not belong to the run.
        """

    @abstractmethod
    async def survivors(self, handle: WorkerHandle) -> list[ProcessIdentity]:
        """The processes of the run that live now."""

    @abstractmethod
    async def prepare(self, spec: LaunchSpec) -> None:
        """Get ready to start such workers faster, in the background. May do nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything but the workers."""
