"""The local executor: workers as processes of this machine, each leading a session of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
import time

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer import process_sweep
from gym_gui.services.trainer.errors import LaunchError, NotReadyError, StorageFullError, is_shortage
from gym_gui.services.trainer.executor import Executor, LaunchSpec, StartedWorker, WorkerHandle
from gym_gui.services.trainer.warm_pool import WarmPool
from mosaic_protocol.process_identity import ProcessIdentity, boot_id, stat_fields

logger = logging.getLogger(__name__)

_STATUS_DELAY = 2.0
"""How long an exit status may come later than the exit itself."""
_STUBBORN_AFTER = 10.0


class LocalExecutor(Executor):
    """Forks from a warm server when one is ready for the worker, spawns otherwise; the same behaviour both ways."""

    def __init__(self, warm_pool: WarmPool) -> None:
        self._warm = warm_pool
        self._children: dict[ProcessIdentity, subprocess.Popen[bytes]] = {}
        self._forked: set[ProcessIdentity] = set()
        """Whose end the warm servers will tell. Not by pid, which may be somebody else's by then."""
        self._seen_alive: set[ProcessIdentity] = set()

    async def start(self, spec: LaunchSpec) -> StartedWorker:
        if any("\0" in text for text in [*spec.command, *spec.env, *spec.env.values()]):
            raise LaunchError("never started: there is a null character in its command or environment")
        pid = await self._warm.fork(spec)
        if pid is not None:
            started = StartedWorker(_identity_at_birth(pid), "warm")
            self._forked.add(started.process)
        else:
            started = StartedWorker(await asyncio.to_thread(self._spawn, spec), "cold")
        self._seen_alive.add(started.process)
        return started

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
            if error.errno == errno.ENOSPC:
                raise StorageFullError(f"cannot open {error.filename}: {error.strerror}") from error
            if is_shortage(error):
                raise NotReadyError(f"no process can be started now: {error.strerror}") from error
            raise LaunchError(f"never started: {error.strerror or error} ({error.filename or spec.python})") from error
        process = _identity_at_birth(child.pid)
        self._children[process] = child
        return process

    async def wait(self, handle: WorkerHandle) -> int | None:
        if handle.process.is_alive():
            self._seen_alive.add(handle.process)
        await _wait_until_gone(handle.process)
        child = self._children.pop(handle.process, None)
        if child is not None:
            return await asyncio.to_thread(child.wait)
        if handle.process not in self._forked:
            return None
        self._forked.discard(handle.process)
        return await self._warm.exit_status(handle.process.pid, _STATUS_DELAY)

    async def ask_to_stop(self, handle: WorkerHandle) -> None:
        process_sweep.send_signal(handle.process, signal.SIGTERM)

    async def kill_all(self, handle: WorkerHandle) -> None:
        began = time.monotonic()
        pause = 0.01
        while living := await self.survivors(handle):
            for process in living:
                process_sweep.send_signal(process, signal.SIGKILL)
            if time.monotonic() - began > _STUBBORN_AFTER:
                log_event(
                    logger, codes.LOG_TRAINER_STUBBORN_PROCESS, run_id=handle.run_id, pids=[p.pid for p in living]
                )
                began = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(0.5, pause * 2)

    async def survivors(self, handle: WorkerHandle) -> list[ProcessIdentity]:
        seen = handle.process in self._seen_alive
        living = await asyncio.to_thread(process_sweep.processes_of, handle, leader_was_seen=seen)
        if not living:
            self._seen_alive.discard(handle.process)
        return living

    async def prepare(self, spec: LaunchSpec) -> None:
        await self._warm.prepare(spec)

    async def close(self) -> None:
        for child in self._children.values():
            child.returncode = child.poll() or 0  # without a status it would complain that it is left running
        self._children.clear()
        await self._warm.close()


def _identity_at_birth(pid: int) -> ProcessIdentity:
    """The identity of a process that was just started; it is our child or the warm server's, so its pid is not reused
    before it was reaped. One that died already, or cannot be looked at for want of a descriptor, equals no living
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
