"""What an agent offers to a daemon on another machine, beside what every executor does: to say what its host is, to
take and give files, and to start a launch once however often it is asked.

A daemon that shares the disk with its workers needs none of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from mosaic_host.capacity import HostCapacity
from mosaic_host.executor import LaunchSpec, StartedWorker

PROTOCOL = 2
"""Of the calls. An agent of another number is let go and another one started."""
RUN, LOGS, CONFIGS, INPUTS, STAGED = "run", "logs", "configs", "inputs", "staged"
AREAS = (RUN, LOGS, CONFIGS, INPUTS, STAGED)
"""Where the files of a run are: its folder, its logs, its config files, what it begins from, and what is on its way to
be kept for all runs, by its hash."""
LEFT_NOTE = "place.json"
"""In the folder of a run whose place was about to end, such as the job of a batch system: how that was known."""
BATCH_COMMANDS = ("sbatch", "squeue", "scancel", "sacct", "sinfo")
"""Slurm's commands that a daemon may have run where it has an account."""
PIECE_BYTES = 1024 * 1024
"""How much of a file travels in one message."""


@dataclass(frozen=True)
class HostFacts:
    """What a host is, as its agent sees it."""

    protocol: int
    code: str
    """Which code the agent was started from."""
    home: str
    python: str
    """The interpreter of the agent, which is that of workers without a bundle of their own."""
    pythons: Mapping[str, str]
    """The interpreters of the environments that were built there, by bundle."""
    environ: Mapping[str, str]
    """What a worker inherits there."""
    wall_time: float
    free_bytes: int
    capacity: HostCapacity


@dataclass(frozen=True)
class CommandAnswer:
    """What a command of a batch system said."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class FileState:
    """A file of a run. One with the same name and inode that only grew is read from where the last look ended."""

    area: str
    name: str
    """Relative, with slashes."""
    size: int
    mtime_ns: int
    inode: int
    mode: int = 0o600


class Hosting(ABC):
    """The calls. All of them may be repeated; an OSError says why one could not be done now."""

    @abstractmethod
    async def describe(self) -> HostFacts:
        """What this host is now."""

    @abstractmethod
    async def retire(self) -> bool:
        """Leave, unless a worker lives here; whether it does."""

    @abstractmethod
    async def runs(self) -> list[str]:
        """The ids of the runs that have a folder here, be they of this daemon or of another."""

    @abstractmethod
    async def make_run(self, run_id: str) -> None:
        """Make the folders that a launch needs."""

    @abstractmethod
    async def put(self, run_id: str, area: str, name: str, offset: int, content: bytes) -> None:
        """Write a piece of a file. The one at 0 begins it anew."""

    @abstractmethod
    async def files(self, run_id: str) -> list[FileState]:
        """The files of a run that people look at: its folder and its logs, without what is hidden or no plain file."""

    @abstractmethod
    async def read_piece(self, run_id: str, area: str, name: str, offset: int, most: int) -> bytes:
        """Some bytes of a file; none at its end."""

    @abstractmethod
    async def digest(self, run_id: str, area: str, name: str) -> str:
        """The SHA-256 of a file."""

    @abstractmethod
    async def stage(self, run_id: str, name: str, sha256: str) -> bool:
        """Let a run begin from a file of this content under this name; False where nobody brought it yet: then it is
        put into STAGED under its hash, and asked for again. A file that came with another content is thrown away."""

    @abstractmethod
    async def start_once(self, spec: LaunchSpec) -> StartedWorker:
        """Start a launch that may have been started before, by a call whose answer was lost: then what is there is
        the answer. Raises like :meth:`mosaic_host.executor.Executor.start`."""

    @abstractmethod
    async def end_run(self, run_id: str) -> None:
        """End every process of a run, whichever launch it belongs to."""

    @abstractmethod
    async def forget_run(self, run_id: str) -> None:
        """Remove the files of a run that has come home."""

    @abstractmethod
    async def batch_command(self, words: list[str], given: str) -> CommandAnswer:
        """Run one of :data:`BATCH_COMMANDS` to its end. Raises OSError when it cannot be run or does not answer."""
