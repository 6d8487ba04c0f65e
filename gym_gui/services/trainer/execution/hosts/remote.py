"""The executor of one host: processes are looked after by the agent there, files are read here, where they come home.

While the host is away, what a decision about a run waits for waits (:meth:`wait`, :meth:`kill_all`, :meth:`survivors`,
:meth:`claimant`), and anything else raises :class:`ConnectionError`. A run that was given up (:meth:`give_up`) waits no
more: nobody can know what became of its processes until the host is back.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.execution.hosts.link import HostAwayError, HostLink
from gym_gui.services.trainer.execution.hosts.mirror import RunMirror
from mosaic_host.capacity import HostCapacity
from mosaic_host.client import AgentClient
from mosaic_host.errors import Refusal, StartError, start_error
from mosaic_host.executor import Claimant, Executor, LaunchSpec, LogPart, OutboxPart, StartedWorker, WorkerHandle
from mosaic_host.hosting import CONFIGS, PIECE_BYTES, RUN, STAGED
from mosaic_host.log_files import LogPlace
from mosaic_host.staging import digest_of
from mosaic_protocol.outbox import OutboxPlace
from mosaic_protocol.paths import MosaicPaths

logger = logging.getLogger(__name__)
T = TypeVar("T")

_STAGE_TRIES = 2
_FOLLOW_SECONDS = 1.0
"""Between two looks for new files of a run."""


class Hashes:
    """The SHA-256 of files that are sent, kept as long as a file is the same. Blocks; safe to use from threads."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}

    def of(self, file: Path) -> str:
        found = file.stat()
        identity = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(file)
        if known is None or known[0] != identity:
            known = self._known[file] = (identity, digest_of(file))
        return known[1]

    def forget(self, file: Path) -> None:
        self._known.pop(file, None)


class RemoteExecutor(Executor):
    """Belongs to the daemon's event loop. ``here`` reads what has come home."""

    def __init__(self, paths: MosaicPaths, link: HostLink, here: Executor) -> None:
        self._paths, self.link, self._here = paths, link, here
        self._mirrors: dict[str, RunMirror] = {}
        """Of the runs that have files over there."""
        self._followed: set[str] = set()
        """Those that go on."""
        self._given_up: dict[str, asyncio.Event] = {}
        self._home: set[str] = set()
        """Runs of which everything is here and nothing needs to be over there."""
        self._bringing: asyncio.Task[None] | None = None
        self._told: dict[str, str] = {}
        self._hashes = Hashes()

    def why_away(self, run_id: str) -> str:
        return self.link.why_away

    @property
    def why_closed(self) -> str:
        """Why no run can start there now, "" when one can."""
        return self.link.why_away

    async def tidy(self, is_finished: Callable[[str], bool]) -> None:
        """Remove what a daemon that was killed did not get to: files of runs that are here whole. Others may be another
        daemon's."""
        with suppress(ConnectionError):
            client = self.link.client_now()
            for run_id in await client.runs():
                if await asyncio.to_thread(is_finished, run_id):
                    await client.forget_run(run_id)

    def give_up(self, run_id: str) -> None:
        """Wait for the host no more where this run is concerned."""
        self._given_up_event(run_id).set()

    # ---- processes -----------------------------------------------------------------------------------------------

    async def start(self, spec: LaunchSpec) -> StartedWorker:
        """The launch may have been made when the link breaks: it is asked again, and the agent makes it once."""
        self._follow(spec.run_id)
        try:
            client = self.link.client_now()
        except HostAwayError as error:
            raise StartError(Refusal.LATER, f"waits: {error}") from None
        while True:
            try:
                await self._push(client, spec)
                return await client.start_once(replace(spec, inputs=()))
            except ConnectionError:
                client = await self.link.client()
            except OSError as error:
                raise self._not_taken(error) from error

    async def wait(self, worker: WorkerHandle) -> int | None:
        self._follow(worker.run_id)
        return await self._once_reached(worker.run_id, lambda client: client.wait(worker), None)

    async def is_alive(self, worker: WorkerHandle) -> bool:
        self._follow(worker.run_id)
        return await self.link.client_now().is_alive(worker)

    async def ask_to_stop(self, worker: WorkerHandle) -> None:
        await self.link.client_now().ask_to_stop(worker)

    async def kill_all(self, worker: WorkerHandle) -> None:
        await self._once_reached(worker.run_id, lambda client: client.kill_all(worker), None)

    async def survivors(self, worker: WorkerHandle) -> list[int]:
        return await self._once_reached(worker.run_id, lambda client: client.survivors(worker), [])

    # ---- claims --------------------------------------------------------------------------------------------------

    async def claimant(self, worker: WorkerHandle) -> Claimant | None:
        return await self._once_reached(worker.run_id, lambda client: client.claimant(worker), None)

    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        return await self.link.client_now().revoke(worker)

    async def hindrance(self, run_id: str) -> str:
        return await self.link.client_now().hindrance(run_id)

    # ---- what a run wrote ----------------------------------------------------------------------------------------

    async def streams(self, run_id: str) -> list[str]:
        """Once all of the run is here."""
        await self._bring_home(run_id)
        return await self._here.streams(run_id)

    async def _bring_home(self, run_id: str) -> None:
        if run_id in self._home:
            return
        try:
            client = self.link.client_now()
            await self._end_over_there(client, run_id)
            await self._mirror(run_id).complete(client)
            streams = await client.streams(run_id)  # raises where the outbox is away over there
            await asyncio.to_thread(self._paths.run(run_id).outbox.mkdir, parents=True, exist_ok=True)
            if streams != await self._here.streams(run_id):
                raise OSError(errno.EIO, f"the journals of the run changed while they came home: {streams}")
        except ConnectionError as error:
            if self._given_up_event(run_id).is_set():
                away = f"host {self.link.host.name} cannot be reached"
                raise FileNotFoundError(errno.ENOENT, away) from error
            raise
        self._home.add(run_id)

    async def _end_over_there(self, client: AgentClient, run_id: str) -> None:
        """What is left of a run that was given up, and goes on."""
        await client.end_run(run_id)

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        await self._bring_home(run_id)
        return await self._here.read_outbox(run_id, stream, after_seq, place)

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        await self._bring_home(run_id)
        return await self._here.read_open_chunk(run_id, stream)

    async def log_place(self, run_id: str, source: str, tail_lines: int, *, follow: bool) -> LogPlace:
        await self._freshen(run_id)
        return await self._here.log_place(run_id, source, tail_lines, follow=follow)

    async def read_log(self, place: LogPlace) -> LogPart:
        await self._freshen(place.path.parent.name)
        return await self._here.read_log(place)

    async def rotate_logs(self, run_id: str, limit: int) -> None:
        """Over there, where they are written; what is here follows."""
        if not self.link.why_away and run_id not in self._home:
            await self.link.client_now().rotate_logs(run_id, limit)

    async def last_error_line(self, run_id: str) -> str:
        await self._freshen(run_id)
        return await self._here.last_error_line(run_id)

    async def read_file(self, run_id: str, name: str) -> bytes:
        if run_id not in self._home:
            with suppress(ConnectionError, FileNotFoundError):  # what the daemon notes of a run is here alone
                return await self.link.client_now().read_file(run_id, name)
        return await self._here.read_file(run_id, name)

    async def write_ending(self, run_id: str, state: str, outcome: str, reason: str) -> None:
        """The last that is done for a run: what is over there is not needed any more."""
        await self._here.write_ending(run_id, state, outcome, reason)
        if run_id in self._home:
            self._followed.discard(run_id)
            self._mirrors.pop(run_id, None)
            with suppress(ConnectionError):  # a folder that stays costs space and nothing else
                await self.link.client_now().forget_run(run_id)

    # ---- the host ------------------------------------------------------------------------------------------------

    async def capacity(self, cpus: int | None, memory_mb: int | None) -> HostCapacity:
        return await self.link.client_now().capacity(cpus, memory_mb)

    async def prepare(self, spec: LaunchSpec) -> None:
        """Workers over there are spawned."""

    async def warm_servers(self) -> dict[str, str]:
        return {}

    async def drop_idle(self) -> None:
        return None

    async def close(self) -> None:
        if self._bringing is not None:
            self._bringing.cancel()
            await asyncio.wait([self._bringing])
        await self.link.close()

    # ---- waiting -------------------------------------------------------------------------------------------------

    async def _once_reached(self, run_id: str, ask: Callable[[AgentClient], Awaitable[T]], unknown: T) -> T:
        """Ask until there is an answer; ``unknown`` when the run is given up."""
        return await self._unless([self._given_up_event(run_id)], lambda: self._asked(ask), unknown)

    async def _unless(self, ends: list[asyncio.Event], ask: Callable[[], Awaitable[T]], unknown: T) -> T:
        """Ask until there is an answer; ``unknown`` when one of the events says that there will be none."""
        waits = [asyncio.ensure_future(end.wait()) for end in ends]
        try:
            while not any(wait.done() for wait in waits):
                answer = asyncio.ensure_future(ask())
                try:
                    await asyncio.wait([*waits, answer], return_when=asyncio.FIRST_COMPLETED)
                    if answer.done():
                        with suppress(ConnectionError):
                            return answer.result()
                finally:
                    answer.cancel()
                    await asyncio.wait([answer])
        finally:
            for wait in waits:
                wait.cancel()
        return unknown

    async def _asked(self, ask: Callable[[AgentClient], Awaitable[T]]) -> T:
        return await ask(await self.link.client())

    def _given_up_event(self, run_id: str) -> asyncio.Event:
        return self._given_up.setdefault(run_id, asyncio.Event())

    # ---- files ---------------------------------------------------------------------------------------------------

    async def _freshen(self, run_id: str) -> None:
        """Bring home what was written since the last look, where that can be done now: else what is here is shown."""
        if run_id not in self._home and not self.link.why_away:
            with suppress(OSError, ValueError):
                await self._mirror(run_id).follow(self.link.client_now())

    def _not_taken(self, error: OSError) -> StartError:
        where = f"{error.strerror or error}: {error.filename}" if error.filename else error.strerror or error
        return start_error(error, f"host {self.link.host.name} does not take its files ({where})")

    async def _push(self, client: AgentClient, spec: LaunchSpec) -> None:
        """Everything that the worker reads, before it is started."""
        run_id = spec.run_id
        await client.make_run(run_id)
        manifest = self._paths.run(run_id).manifest
        configs = (self._paths.run_config(run_id), self._paths.worker_config(run_id))
        for area, file in [*((CONFIGS, config) for config in configs), (RUN, manifest)]:
            if file.is_file():
                await _send(client, run_id, area, file.name, file)
        for source, place in spec.inputs:
            for file, below in _files_of(source):
                await self._stage(client, run_id, (Path(*_below_inputs(place, run_id)) / below).as_posix(), file)

    async def _stage(self, client: AgentClient, run_id: str, name: str, file: Path) -> None:
        """What several runs begin from travels once, and is what was hashed here or does not start."""
        sha256 = await asyncio.to_thread(self._hashes.of, file)
        for _ in range(_STAGE_TRIES):
            if await client.stage(run_id, name, sha256):
                return
            await _send(client, run_id, STAGED, sha256, file)
        if await client.stage(run_id, name, sha256):
            return
        self._hashes.forget(file)
        raise OSError(errno.EIO, "it was changed while it was sent", str(file))

    def _follow(self, run_id: str) -> None:
        self._followed.add(run_id)
        if self._bringing is None:
            self._bringing = asyncio.create_task(self._bring_all())

    def _mirror(self, run_id: str) -> RunMirror:
        return self._mirrors.setdefault(run_id, RunMirror(self._paths, run_id))

    async def _bring_all(self) -> None:
        while True:
            client = await self.link.client()
            for run_id in sorted(self._followed - self._home):
                try:
                    await self._mirror(run_id).follow(client)
                    self._told.pop(run_id, None)
                except ConnectionError:
                    break
                except FileNotFoundError:
                    continue  # its launch is not there yet
                except OSError as error:  # a full disk here, say
                    self._tell(run_id, f"{error.strerror or error} ({error.filename})")
            await asyncio.sleep(_FOLLOW_SECONDS)

    def _tell(self, run_id: str, reason: str) -> None:
        if self._told.get(run_id) != reason:
            self._told[run_id] = reason
            chore = "bring files home"
            log_event(logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, chore=chore, reason=reason)


async def _send(client: AgentClient, run_id: str, area: str, name: str, file: Path) -> None:
    offset = 0
    with await asyncio.to_thread(file.open, "rb") as stream:
        while True:
            piece = await asyncio.to_thread(stream.read, PIECE_BYTES)
            if piece or not offset:
                await client.put(run_id, area, name, offset, piece)
            offset += len(piece)
            if len(piece) < PIECE_BYTES:
                return


def _below_inputs(place: Path, run_id: str) -> tuple[str, ...]:
    """The parts of a place behind the folder of what the run begins from."""
    return place.parts[place.parts.index(run_id) + 1 :]


def _files_of(source: Path) -> Iterator[tuple[Path, Path]]:
    """The plain files of what a run begins from, and where each stands in it."""
    if source.is_file():
        yield source, Path()
        return
    for file in sorted(source.rglob("*")):
        if file.is_file() and not file.is_symlink():
            yield file, file.relative_to(source)
