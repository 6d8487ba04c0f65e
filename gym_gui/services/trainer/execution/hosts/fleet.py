"""All places that runs can go to: this machine, and the hosts of ``hosts.toml``.

Which one a run is at is in its record; here each call finds its way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.hosts.book import Host, HostBook
from gym_gui.services.hosts.code import Code, pack
from gym_gui.services.trainer.errors import NotReadyError, RefusedError
from gym_gui.services.trainer.execution.hosts.link import HostLink
from gym_gui.services.trainer.execution.hosts.remote import RemoteExecutor
from gym_gui.services.trainer.execution.hosts.slurm import SlurmExecutor, capacity_of, sockets_of
from mosaic_host.capacity import HostCapacity
from mosaic_host.executor import (
    Claimant,
    Executor,
    LaunchSpec,
    LogPart,
    OutboxPart,
    PlaceEnd,
    StartedWorker,
    WorkerHandle,
)
from mosaic_host.hosting import HostFacts
from mosaic_host.log_files import LogPlace
from mosaic_protocol.outbox import OutboxPlace
from mosaic_protocol.paths import MosaicPaths

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
"""How long a link is kept that nobody needs."""


@dataclass(frozen=True)
class Site:
    """What a launch on a host is built from."""

    host: Host
    facts: HostFacts
    code: PurePosixPath
    target: str
    agent: PurePosixPath
    """The socket of its agent."""
    leave_seconds: float
    """How long a worker there goes on when nobody can be reached."""

    @property
    def paths(self) -> MosaicPaths:
        """The layout over there."""
        return MosaicPaths(Path(self.facts.home))

    def python(self, bundle: str | None) -> Path:
        """The interpreter of a bundle: an environment of its own, or the one that the host is said to have all in."""
        built = self.facts.pythons.get(bundle or "")
        return Path(built or self.facts.python)


@dataclass(frozen=True)
class HostState:
    """How a host is doing, for people."""

    host: Host
    why_away: str
    is_wanted: bool
    facts: HostFacts | None


class Fleet(Executor):
    """Belongs to the daemon's event loop. ``where`` names the host of a run, "" for this machine."""

    def __init__(self, paths: MosaicPaths, here: Executor, leave_seconds: float) -> None:
        self._paths, self._here, self._leave_seconds = paths, here, leave_seconds
        self._book = HostBook(paths)
        self._seen: object = None
        self._hosts: dict[str, Host] = {}
        self._remotes: dict[str, RemoteExecutor] = {}
        self._needed_at: dict[str, float] = {}
        self._code: Code | None = None
        self.where: Callable[[str], str] = lambda _: ""
        self.changed: Callable[[], None] = lambda: None
        """Called when a host was reached or lost, or the list of hosts changed."""

    # ---- hosts ---------------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> dict[str, Host]:
        """Those that a person added, as they were at the last look."""
        return self._hosts

    def look(self) -> None:
        """Read the list of hosts again if it changed. One that cannot be read leaves the list as it is."""
        try:
            found = self._book.file.stat()
            seen: object = (found.st_mtime_ns, found.st_ino, found.st_size)
        except OSError:
            seen = None
        if seen == self._seen:
            return
        self._seen = seen
        try:
            hosts = self._book.hosts()
        except RefusedError as error:
            log_event(logger, codes.LOG_HOST_AWAY, host="", reason=str(error))
            return
        if hosts != self._hosts:
            self._hosts = hosts
            self.changed()

    def states(self) -> list[HostState]:
        found = []
        for name, host in self._hosts.items():
            link = self._remotes[name].link if name in self._remotes else None
            away = self._remotes[name].why_closed if link is not None and link.is_open else ""
            found.append(HostState(host, away, link is not None and link.is_open, link.facts if link else None))
        return found

    def need(self, names: Iterable[str]) -> None:
        """Reach these hosts, and let go of those that nobody needed for a while."""
        now = time.monotonic()
        for name in names:
            self._needed_at[name] = now
            self._remote(name).link.open()
        for name, remote in list(self._remotes.items()):
            if now - self._needed_at.get(name, now) > _IDLE_SECONDS and remote.link.is_open:
                task = asyncio.ensure_future(remote.link.close())
                task.add_done_callback(lambda _: self.changed())

    def site(self, name: str, run_id: str) -> Site:
        """Where a run on a host is launched. Raises :class:`NotReadyError` while the host cannot be reached."""
        link = self._remote(name).link
        if link.why_away or link.facts is None:
            raise NotReadyError(f"waits: {link.why_away}")
        if link.host.is_batch_system:
            target, agent = sockets_of(link.facts.home, run_id)
        else:
            target, agent = link.target, PurePosixPath(link.facts.home) / "agent" / "agent.sock"
        return Site(link.host, link.facts, PurePosixPath(link.code_folder), target, agent, self._leave_seconds)

    def give_up(self, run_id: str) -> None:
        """Wait no more for the host of a run."""
        if (name := self.where(run_id)) != "":
            self._remote(name).give_up(run_id)

    async def tidy(self, name: str, is_finished: Callable[[str], bool]) -> None:
        """Remove from a host what is finished; ``is_finished`` is asked in a thread."""
        await self._remote(name).tidy(is_finished)

    def _remote(self, name: str) -> RemoteExecutor:
        host = self._hosts.get(name, Host(name, ""))
        remote = self._remotes.get(name)
        if remote is None:
            link = HostLink(host, self._paths.socket, self._packed, self._tell)
            remote = self._remotes[name] = self._executor_of(link)
        elif name in self._hosts:
            remote.link.host = host
        return remote

    def _executor_of(self, link: HostLink) -> RemoteExecutor:
        if link.host.is_batch_system:
            return SlurmExecutor(self._paths, link, self._here, self._tell)
        return RemoteExecutor(self._paths, link, self._here)

    def _tell(self) -> None:
        self.changed()

    def _packed(self) -> Code:
        """Packed once: the daemon and what it was started from do not change while it runs. Blocks."""
        if self._code is None:
            self._code = pack()
        return self._code

    def _of(self, run_id: str) -> Executor:
        name = self.where(run_id)
        return self._remote(name) if name else self._here

    def why_away(self, run_id: str) -> str:
        return self._of(run_id).why_away(run_id)

    async def why_ended(self, run_id: str) -> PlaceEnd | None:
        return await self._of(run_id).why_ended(run_id)

    # ---- the interface -------------------------------------------------------------------------------------------

    async def start(self, spec: LaunchSpec) -> StartedWorker:
        return await self._of(spec.run_id).start(spec)

    async def wait(self, worker: WorkerHandle) -> int | None:
        return await self._of(worker.run_id).wait(worker)

    async def is_alive(self, worker: WorkerHandle) -> bool:
        return await self._of(worker.run_id).is_alive(worker)

    async def ask_to_stop(self, worker: WorkerHandle) -> None:
        await self._of(worker.run_id).ask_to_stop(worker)

    async def kill_all(self, worker: WorkerHandle) -> None:
        await self._of(worker.run_id).kill_all(worker)

    async def survivors(self, worker: WorkerHandle) -> list[int]:
        return await self._of(worker.run_id).survivors(worker)

    async def claimant(self, worker: WorkerHandle) -> Claimant | None:
        return await self._of(worker.run_id).claimant(worker)

    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        return await self._of(worker.run_id).revoke(worker)

    async def hindrance(self, run_id: str) -> str:
        return await self._of(run_id).hindrance(run_id)

    async def streams(self, run_id: str) -> list[str]:
        return await self._of(run_id).streams(run_id)

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        return await self._of(run_id).read_outbox(run_id, stream, after_seq, place)

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        return await self._of(run_id).read_open_chunk(run_id, stream)

    async def log_place(self, run_id: str, source: str, tail_lines: int, *, follow: bool) -> LogPlace:
        return await self._of(run_id).log_place(run_id, source, tail_lines, follow=follow)

    async def read_log(self, place: LogPlace) -> LogPart:
        return await self._of(place.path.parent.name).read_log(place)

    async def rotate_logs(self, run_id: str, limit: int) -> None:
        await self._of(run_id).rotate_logs(run_id, limit)

    async def last_error_line(self, run_id: str) -> str:
        return await self._of(run_id).last_error_line(run_id)

    async def read_file(self, run_id: str, name: str) -> bytes:
        return await self._of(run_id).read_file(run_id, name)

    async def write_ending(self, run_id: str, state: str, outcome: str, reason: str) -> None:
        await self._of(run_id).write_ending(run_id, state, outcome, reason)

    async def capacity(self, cpus: int | None, memory_mb: int | None) -> HostCapacity:
        return await self._here.capacity(cpus, memory_mb)

    async def prepare(self, spec: LaunchSpec) -> None:
        await self._here.prepare(spec)

    async def warm_servers(self) -> dict[str, str]:
        return await self._here.warm_servers()

    async def drop_idle(self) -> None:
        await self._here.drop_idle()

    async def close(self) -> None:
        for remote in self._remotes.values():
            await remote.close()
        await self._here.close()


def allowed(host: Host, found: HostCapacity) -> HostCapacity:
    """What a person lets runs have of what a host has."""
    if host.is_batch_system:
        return capacity_of(host)
    return replace(found, cpus=host.cpus or found.cpus, memory_mb=host.memory_mb or found.memory_mb)
