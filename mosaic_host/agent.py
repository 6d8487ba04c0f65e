"""The host agent: workers as processes of this machine, each leading a session of its own, and the files they write."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from mosaic_host import log_files, process_sweep
from mosaic_host.capacity import HostCapacity
from mosaic_host.errors import Refusal, StartError, is_shortage, start_error
from mosaic_host.executor import (
    Claimant,
    Executor,
    LaunchSpec,
    LogPart,
    OutboxPart,
    StartedWorker,
    WorkerHandle,
    locator_of,
    process_of,
)
from mosaic_host.hindrance import hindrance
from mosaic_host.log_files import LogFollower, LogPlace
from mosaic_host.telling import HostEvent, Tell, to_plain_log
from mosaic_host.warm_pool import WarmPool
from mosaic_protocol import claims, events
from mosaic_protocol.outbox import MESSAGE_BYTES, OutboxPlace, OutboxReader, oldest_seq, streams
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.process_identity import ProcessIdentity, boot_id, stat_fields
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.run_manifest import refresh_manifest
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.open_chunk import path_of, read_left

_STATUS_DELAY = 2.0
"""How long an exit status may come later than the exit itself."""
_STUBBORN_AFTER = 10.0
_PART_RECORDS = 5000
_MOST_FILE_BYTES = 64 * 1024 * 1024


class HostAgent(Executor):
    """Forks from a warm server when one is ready for the worker, spawns otherwise; the same behaviour both ways.

    The runs are those below one data root, and a locator names a process of this machine.
    """

    def __init__(self, paths: MosaicPaths, warm_pool: WarmPool, tell: Tell = to_plain_log) -> None:
        self._paths, self._warm, self._tell = paths, warm_pool, tell
        self._children: dict[ProcessIdentity, subprocess.Popen[bytes]] = {}
        self._forked: set[ProcessIdentity] = set()
        """Workers whose end the warm servers will report. Not by pid, which another process may have by then."""
        self._seen_alive: set[ProcessIdentity] = set()

    # ---- processes -----------------------------------------------------------------------------------------------

    async def start(self, spec: LaunchSpec) -> StartedWorker:
        if any("\0" in text for text in [*spec.command, *spec.env, *spec.env.values()]):
            raise StartError(Refusal.NEVER, "never started: there is a null character in its command or environment")
        pid = await self._warm.fork(spec)
        if pid is not None:
            process, mode = _identity_at_birth(pid), "warm"
            self._forked.add(process)
        else:
            process, mode = await asyncio.to_thread(self._spawn, spec), "cold"
        self._seen_alive.add(process)
        return StartedWorker(locator_of(process), process.pid, mode)

    def _spawn(self, spec: LaunchSpec) -> ProcessIdentity:
        try:
            with spec.stdout.open("ab") as out, spec.stderr.open("ab") as err:
                child = subprocess.Popen(
                    spec.command,
                    env=dict(spec.env),
                    cwd=spec.run_dir,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
        except OSError as error:
            if is_shortage(error):
                sentence = f"no process can be started now: {error.strerror}"
                raise StartError(Refusal.LATER, sentence) from error
            if error.filename in (None, str(spec.python)):  # not a folder that MOSAIC made but the interpreter
                sentence = f"never started: {error.strerror or error} ({spec.python})"
                raise StartError(Refusal.NEVER, sentence) from error
            raise start_error(error, f"cannot use {error.filename}: {error.strerror}") from error
        process = _identity_at_birth(child.pid)
        self._children[process] = child
        return process

    async def wait(self, worker: WorkerHandle) -> int | None:
        process = process_of(worker.locator)
        if process.is_alive():
            self._seen_alive.add(process)
        await _wait_until_gone(process)
        child = self._children.pop(process, None)
        if child is not None:
            return await asyncio.to_thread(child.wait)
        if process not in self._forked:
            return None
        self._forked.discard(process)
        return await self._warm.exit_status(process.pid, _STATUS_DELAY)

    async def is_alive(self, worker: WorkerHandle) -> bool:
        return process_of(worker.locator).is_alive()

    async def ask_to_stop(self, worker: WorkerHandle) -> None:
        process_sweep.send_signal(process_of(worker.locator), signal.SIGTERM)

    async def kill_all(self, worker: WorkerHandle) -> None:
        began = time.monotonic()
        pause = 0.01
        while living := await self._living(worker):
            for process in living:
                process_sweep.send_signal(process, signal.SIGKILL)
            if time.monotonic() - began > _STUBBORN_AFTER:
                pids = [process.pid for process in living]
                self._tell(HostEvent.STUBBORN_PROCESS, {"run_id": worker.run_id, "pids": pids})
                began = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(0.5, pause * 2)

    async def survivors(self, worker: WorkerHandle) -> list[int]:
        return [process.pid for process in await self._living(worker)]

    async def _living(self, worker: WorkerHandle) -> list[ProcessIdentity]:
        if not worker.locator:
            return []  # no launch of it is known; what carries its mark may be one that is just being made
        leader = process_of(worker.locator)
        marks = process_sweep.RunMarks(worker.run_id, self._run(worker.run_id).directory, worker.attempt, leader)
        seen = leader in self._seen_alive
        living = await asyncio.to_thread(process_sweep.processes_of, marks, leader_was_seen=seen)
        if not living:
            self._seen_alive.discard(leader)
        return living

    # ---- claims --------------------------------------------------------------------------------------------------

    async def claimant(self, worker: WorkerHandle) -> Claimant | None:
        return await self._look(claims.claimant, worker)

    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        folder = self._run(worker.run_id).directory
        if not folder.is_dir() and await asyncio.to_thread(process_sweep.lives_without_its_folder, worker.run_id):
            raise FileNotFoundError(
                errno.ENOENT, "its worker lives, but the folder with its claim is away", str(folder)
            )
        return await self._look(claims.revoke, worker)

    async def _look(self, look: Callable[[Path, int], ProcessIdentity | None], worker: WorkerHandle) -> Claimant | None:
        process = await asyncio.to_thread(look, self._run(worker.run_id).claims, worker.attempt)
        return None if process is None else Claimant(locator_of(process), process.pid, process.is_alive())

    async def hindrance(self, run_id: str) -> str:
        config, logs = self._paths.worker_config(run_id), self._paths.run_logs(run_id)
        return await asyncio.to_thread(hindrance, self._run(run_id), config, logs)

    # ---- what a run wrote ----------------------------------------------------------------------------------------

    async def streams(self, run_id: str) -> list[str]:
        outbox = self._run(run_id).outbox
        await asyncio.to_thread(outbox.lstat)  # it is made before the launch: one that is not there is away
        return await asyncio.to_thread(streams, outbox)

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        return await asyncio.to_thread(outbox_part, self._run(run_id).outbox, stream, after_seq, place)

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        return await asyncio.to_thread(open_chunk_line, self._run(run_id).outbox, stream)

    async def log_place(self, run_id: str, source: str, tail_lines: int, *, follow: bool) -> LogPlace:
        return await asyncio.to_thread(_log_place, self._paths.run_logs(run_id), source, tail_lines, follow)

    async def read_log(self, place: LogPlace) -> LogPart:
        if not self._is_log(place.path):
            raise OSError(errno.EINVAL, "that is no log of a run", str(place.path))
        follower = LogFollower.at(place)
        chunks = await asyncio.to_thread(follower.read_new)
        return LogPart(chunks, follower.place)

    def _is_log(self, path: Path) -> bool:
        """A place comes back from who reads, perhaps over a socket: it names nothing that it was not given."""
        try:
            logs = self._paths.run_logs(path.parent.name)
        except ValueError:
            return False
        return path in [logs / f"{source}.log" for source in log_files.SOURCES]

    async def rotate_logs(self, run_id: str, limit: int) -> None:
        await asyncio.to_thread(log_files.rotate_run_logs, self._paths.run_logs(run_id), limit, self._tell)

    async def last_error_line(self, run_id: str) -> str:
        return await asyncio.to_thread(log_files.stderr_summary, self._paths.run_logs(run_id))

    async def read_file(self, run_id: str, name: str) -> bytes:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise OSError(errno.EINVAL, "that is no file of a run", name)
        file = self._run(run_id).directory.joinpath(*parts)
        return await asyncio.to_thread(read_regular, file, _MOST_FILE_BYTES)

    async def write_ending(self, run_id: str, state: str, outcome: str, reason: str) -> None:
        ending = {"state": state, "outcome": outcome or None, "reason": reason}
        await asyncio.to_thread(_refresh_manifest, self._run(run_id), ending)

    # ---- the host ------------------------------------------------------------------------------------------------

    async def capacity(self, cpus: int | None, memory_mb: int | None) -> HostCapacity:
        return await asyncio.to_thread(lambda: HostCapacity.detect(cpus=cpus, memory_mb=memory_mb))

    async def prepare(self, spec: LaunchSpec) -> None:
        await self._warm.prepare(spec)

    async def warm_servers(self) -> dict[str, str]:
        return self._warm.states()

    async def drop_idle(self) -> None:
        await self._warm.drop_idle()

    async def close(self) -> None:
        for child in self._children.values():
            child.returncode = child.poll() or 0  # without a status it would complain that it is left running
        self._children.clear()
        await self._warm.close()

    def _run(self, run_id: str) -> RunPaths:
        return self._paths.run(run_id)


def outbox_part(outbox: Path, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
    """From the oldest record there is: a store that was begun again knows nothing of what an earlier one had."""
    oldest = oldest_seq(outbox, stream)
    if place is None:
        reader = OutboxReader(outbox, stream, after_seq=max(after_seq, oldest - 1), salvage=True)
    else:
        reader = OutboxReader.at(outbox, stream, place, salvage=True)
    try:
        lines = reader.read(_PART_RECORDS, MESSAGE_BYTES)
        if not lines:
            outbox.lstat()  # else it was moved away meanwhile, and this is not the end
        return OutboxPart(reader.next_seq - len(lines), lines, oldest, reader.place)
    finally:
        reader.close()


def open_chunk_line(outbox: Path, stream: str) -> bytes | None:
    """A damaged file is an OSError like any other that says no."""
    try:
        left = read_left(path_of(outbox, stream))
    except ChunkError as error:
        raise OSError(errno.EBADMSG, str(error)) from error
    return None if left is None or left.record is None else events.encode(left.record)


def _log_place(logs: Path, source: str, tail_lines: int, follow: bool) -> LogPlace:
    if source not in log_files.SOURCES:
        raise OSError(errno.EINVAL, f"that is no log of a run: there are {' and '.join(log_files.SOURCES)}", source)
    follower = LogFollower(logs / f"{source}.log")
    follower.start_at_tail(tail_lines)
    if not follow:
        follower.stop_at_end()
    return follower.place


def _refresh_manifest(folders: RunPaths, ending: dict[str, str | None]) -> None:
    if folders.directory.is_dir():
        refresh_manifest(folders, **ending)


def _identity_at_birth(pid: int) -> ProcessIdentity:
    """The identity of a process that was just started; it is our child or the warm server's, so its pid is not reused
    before it was reaped. One that died already, or cannot be looked at because no descriptor is left, equals no living
    process, but it and what it left behind are still found by their marks."""
    try:
        fields = stat_fields(pid)
    except OSError:
        fields = None
    return ProcessIdentity(pid, int(fields[19]) if fields else 0, boot_id())


async def _wait_until_gone(process: ProcessIdentity) -> None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if process.is_alive():
            await _readable(descriptor)
    finally:
        os.close(descriptor)


async def _readable(descriptor: int) -> None:
    """A pidfd becomes readable when its process ends."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, settle)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
