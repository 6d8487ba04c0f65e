"""How workers are started, watched, ended and read, whatever the place they run in: the interface.

Every implementation passes ``gym_gui/tests/host/executor_conformance.py``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mosaic_host.capacity import HostCapacity
from mosaic_host.log_files import LogPlace
from mosaic_protocol.outbox import OutboxPlace
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
    inputs: tuple[tuple[Path, Path], ...] = ()
    """Files and folders that have to be where the worker runs, and where there."""
    cpus: int = 1
    """What it may use, for a place that has to be asked for that much."""
    memory_mb: int = 0
    gpus: int = 0

    @property
    def command(self) -> list[str]:
        return [str(self.python), "-m", self.module, *self.argv]


@dataclass(frozen=True)
class WorkerHandle:
    """What is needed to find a worker again after the daemon was restarted. The locator is empty while a launch is
    recorded but not known to have happened."""

    run_id: str
    attempt: int
    locator: str = ""
    """Where the leading process is. Only the executor that gave it reads it; two of them are equal exactly when they
    mean the same process."""


@dataclass(frozen=True)
class StartedWorker:
    """The leading process of a worker, and whether it was forked ``warm`` or spawned ``cold``."""

    locator: str
    pid: int
    """The number by which people find it on its machine."""
    mode: str


@dataclass(frozen=True)
class Claimant:
    """The process that claimed a launch: it is the worker, whichever process was thought to be."""

    locator: str
    pid: int
    alive: bool


@dataclass(frozen=True)
class OutboxPart:
    """Consecutive lines of a journal stream; ``first_seq`` numbers the first one. Empty at the end."""

    first_seq: int
    lines: list[bytes]
    oldest_seq: int
    """The oldest record that the stream still has."""
    place: OutboxPlace | None
    """Where to go on."""


@dataclass(frozen=True)
class LogPart:
    """What came to a log, in chunks, and where to go on."""

    chunks: list[bytes]
    place: LogPlace


@dataclass(frozen=True)
class PlaceEnd:
    """The place of a run ended before the run did."""

    sentence: str
    was_time: bool = False
    """Whether it was granted for a time that is over."""


class Executor(ABC):
    """Starts, watches, ends and reads for workers.

    All coroutines belong to one event loop. An executor owns no run state: everything it needs to go on after a restart
    is in the :class:`WorkerHandle` and in the files of the run. Every method but :meth:`start` may be repeated, and
    raises OSError when it could not be done now, also when the place cannot be reached. Closing an executor never ends
    a worker.
    """

    # ---- processes ----

    @abstractmethod
    async def start(self, spec: LaunchSpec) -> StartedWorker:
        """Start a worker in a session of its own. Raises :class:`mosaic_host.errors.StartError` when no process came to
        be."""

    @abstractmethod
    async def wait(self, worker: WorkerHandle) -> int | None:
        """Wait until the leading process is gone: its exit status (negative: signal), None when nobody can know.

        Returns at once for a process that is gone already, also when its pid belongs to another process now.
        """

    @abstractmethod
    async def is_alive(self, worker: WorkerHandle) -> bool:
        """Whether the leading process lives."""

    @abstractmethod
    async def ask_to_stop(self, worker: WorkerHandle) -> None:
        """SIGTERM to the leading process alone, which then stops what it started. No error when it is gone."""

    @abstractmethod
    async def kill_all(self, worker: WorkerHandle) -> None:
        """End every process of the run, also those that left its process group or session; return when none is left.

        Never touches a process that does not belong to the run. A handle without a locator names no process: nothing
        is ended.
        """

    @abstractmethod
    async def survivors(self, worker: WorkerHandle) -> list[int]:
        """The pids of the run's processes that live now."""

    # ---- claims ----

    @abstractmethod
    async def claimant(self, worker: WorkerHandle) -> Claimant | None:
        """Who claimed the attempt, None when nobody did or it was revoked."""

    @abstractmethod
    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        """None when the attempt can no longer start, else who claimed it."""

    @abstractmethod
    async def hindrance(self, run_id: str) -> str:
        """Why a worker cannot begin in the folder of its run now, "" when it can."""

    # ---- what a run wrote ----

    @abstractmethod
    async def streams(self, run_id: str) -> list[str]:
        """The journal streams of a run's outbox. Raises FileNotFoundError when the outbox is not there, be it because
        the folder of the run is away or an empty one is in its place."""

    @abstractmethod
    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        """The next lines of a stream whose writer is gone, damaged ones among them: from its oldest record after
        ``after_seq`` on, or from the place that the part before named."""

    @abstractmethod
    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        """The record of the steps that a worker which is gone had not yet put into its journal; None when there are
        none. The same bytes each time. Raises OSError when it cannot be read now."""

    @abstractmethod
    async def log_place(self, run_id: str, source: str, tail_lines: int, *, follow: bool) -> LogPlace:
        """Where the last lines of a log begin (0: all that is kept of it). Without ``follow``, reading from there ends
        where the log ends now."""

    @abstractmethod
    async def read_log(self, place: LogPlace) -> LogPart:
        """Some of what came since; no chunks when nothing did. Raises OSError for a place in no log of a run."""

    @abstractmethod
    async def rotate_logs(self, run_id: str, limit: int) -> None:
        """Rotate the logs of a run that are larger than ``limit`` bytes."""

    @abstractmethod
    async def last_error_line(self, run_id: str) -> str:
        """The line of stderr that says most, "" when there is none."""

    @abstractmethod
    async def read_file(self, run_id: str, name: str) -> bytes:
        """A file of a run, by its name relative to the run's folder."""

    @abstractmethod
    async def write_ending(self, run_id: str, state: str, outcome: str, reason: str) -> None:
        """Note in the manifest of a run, where its folder is still there, how the run ended."""

    # ---- the host ----

    @abstractmethod
    async def capacity(self, cpus: int | None, memory_mb: int | None) -> HostCapacity:
        """What the host has to give; what is passed in is taken as it is."""

    @abstractmethod
    async def prepare(self, spec: LaunchSpec) -> None:
        """Get ready to start such workers faster, in the background. May do nothing."""

    @abstractmethod
    async def warm_servers(self) -> dict[str, str]:
        """What stands ready for that, and in which state."""

    @abstractmethod
    async def drop_idle(self) -> None:
        """Let go of what stands ready and was not used for long."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything but the workers."""

    def why_away(self, run_id: str) -> str:
        """Why the place where a run goes on cannot be reached in this moment, "" when it can. A run whose place is away
        says nothing, and is not late because of that."""
        return ""

    async def why_ended(self, run_id: str) -> PlaceEnd | None:
        """How the place of a run that has no process any more ended, None when it did not. Asked once its files are
        read."""
        return None

    def give_up(self, run_id: str) -> None:
        """Wait no more for a place that cannot be reached, where this run is concerned. What is not known of it stays
        unknown until the place is back."""
        raise NotImplementedError("nobody gives up this machine")


def locator_of(process: ProcessIdentity) -> str:
    """The locator of a process of the machine that reads it."""
    return json.dumps(asdict(process), separators=(",", ":"))


def process_of(locator: str) -> ProcessIdentity:
    """Raises ValueError for a locator that no executor of this machine gave."""
    if (process := ProcessIdentity.parsed(locator)) is None:
        raise ValueError(f"{locator[:80]!r} is no locator of a process on this machine")
    return process
