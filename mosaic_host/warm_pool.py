"""Fork servers, one for each worker environment: started on demand, dropped when stale, idle or unwell.

Warm starts are an optimisation that may fail at any time: every method degrades to "not available", and the executor
then spawns the worker instead.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic_host.executor import LaunchSpec
from mosaic_host.telling import HostEvent, Tell, to_plain_log
from mosaic_host.threads import single_threaded
from mosaic_protocol.worker_packages import fingerprint

_WARM_UP_TIMEOUT = 120.0
_FORK_TIMEOUT = 5.0
_LAST_WORD_TIMEOUT = 1.0
"""How long what a killed server had still sent may take to arrive."""
_PRIVATE_VARIABLES = ("MOSAIC_LAUNCH_TOKEN", "MOSAIC_RUN_ID", "MOSAIC_RUN_DIR", "MOSAIC_ATTEMPT")
ServerKey = tuple[str, str]


@dataclass(eq=False)
class _Server:
    """One fork server process and the conversation with it."""

    child: subprocess.Popen[bytes]
    writer: asyncio.StreamWriter
    fingerprint: str
    state: str = "warming up"
    used_at: float = field(default_factory=time.monotonic)
    answers: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    workers: set[int] = field(default_factory=set)
    """Pids of its workers that live; no other process learns how they end."""
    retired: bool = False
    listener: asyncio.Task[None] | None = None

    @property
    def owes(self) -> bool:
        """Whether somebody still waits for a pid or an exit status."""
        return bool(self.workers) or any(not answer.done() for answer in self.answers.values())

    async def ended(self, timeout: float | None = None) -> None:
        """Wait for the end of the conversation. A waiter that is cancelled does not take the listener with it."""
        if self.listener is not None:
            await asyncio.wait([self.listener], timeout=timeout)

    def settle(self) -> None:
        """Nobody waits for an answer any more: there will be none."""
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(RuntimeError("the fork server ended"))


class WarmPool:
    """Belongs to one event loop. Closing it ends the servers, never the workers they forked."""

    def __init__(
        self, log_file: Path, *, idle_seconds: float = 900.0, enabled: bool = True, tell: Tell = to_plain_log
    ) -> None:
        self._log_file, self._idle_seconds, self._enabled, self._tell = log_file, idle_seconds, enabled, tell
        self._servers: dict[ServerKey, _Server] = {}
        self._retired: set[_Server] = set()
        self._preparing = asyncio.Lock()
        self._statuses: dict[int, asyncio.Future[int | None]] = {}
        self._last_id = 0

    def states(self) -> dict[str, str]:
        """What each server is doing, for health reports."""
        return {f"{module} ({python})": server.state for (python, module), server in self._servers.items()}

    async def prepare(self, spec: LaunchSpec) -> None:
        """Start the server for such workers if there is none; does not wait for it to be ready. One that could not warm
        up is not tried again with the same code."""
        if not self._enabled or not spec.warm_module:
            return
        async with self._preparing:
            fingerprint = await asyncio.to_thread(_fingerprint, spec)
            server = self._servers.get(_key(spec))
            if server is not None and server.fingerprint == fingerprint and server.state != "failed":
                return
            if server is not None:
                await self._retire(server)
            await self._launch(spec, fingerprint)

    async def wait_ready(self, spec: LaunchSpec, timeout: float = _WARM_UP_TIMEOUT) -> bool:
        """Wait until the server for such workers can fork."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            server = self._servers.get(_key(spec))
            if server is None or server.state != "warming up":
                return server is not None and server.state == "ready"
            await asyncio.sleep(0.02)
        return False

    async def fork(self, spec: LaunchSpec) -> int | None:
        """Start a worker from its warm server; its pid, None when there is no fresh and ready server."""
        server = self._servers.get(_key(spec))
        if not spec.warm_module or server is None or server.state != "ready":
            return None
        if server.fingerprint != await asyncio.to_thread(_fingerprint, spec):
            await self._retire(server)  # the code on disk changed since it was imported
            return None
        if not await asyncio.to_thread(_places_can_be_opened, spec):
            return None
        try:
            return await self._request_fork(server, spec)
        except RuntimeError as error:
            self._tell(HostEvent.WARM_START_FAILED, {"run_id": spec.run_id, "reason": str(error)})
            await self._retire(server)
            return None

    async def exit_status(self, pid: int, patience: float) -> int | None:
        """The exit status of a forked worker, None when its server does not know it any more."""
        future = self._statuses.get(pid)
        if future is None:
            return None
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(future)
        except TimeoutError:
            return None
        finally:
            self._statuses.pop(pid, None)

    async def drop_idle(self) -> None:
        """End the servers that nobody has used for long; they hold memory."""
        now = time.monotonic()
        for server in list(self._servers.values()):
            if server.state == "failed" or now - server.used_at > self._idle_seconds:
                await self._retire(server)

    async def close(self) -> None:
        async with self._preparing:
            self._enabled = False
            for server in [*self._servers.values(), *self._retired]:
                server.writer.close()
                await server.ended()
            self._servers.clear()

    # ---- one server ----------------------------------------------------------------------------------------------

    async def _launch(self, spec: LaunchSpec, fingerprint: str) -> None:
        ours, theirs = socket.socketpair()
        try:
            child = await asyncio.to_thread(self._spawn, spec, theirs)
        except OSError as error:
            ours.close()
            self._tell(HostEvent.WARM_START_FAILED, {"reason": str(error)})
            return
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours)
        server = self._servers[_key(spec)] = _Server(child, writer, fingerprint)
        server.listener = asyncio.create_task(self._listen(server, reader))

    def _spawn(self, spec: LaunchSpec, theirs: socket.socket) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in spec.env.items() if name not in _PRIVATE_VARIABLES}
        environment.update(single_threaded())
        command = [str(spec.python), "-m", "mosaic_protocol.fork_server"]
        command += ["--socket-fd", str(theirs.fileno()), "--warm", spec.warm_module]
        with theirs, self._log_file.open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    async def _listen(self, server: _Server, reader: asyncio.StreamReader) -> None:
        """Take the server's messages until one end closes; then everything it still owes is unknown. The code that is
        warmed up can write to the socket as well, so no message is certain to make sense: one that does not is the
        last, and the server is not tried again with the same code."""
        try:
            while line := await reader.readline():
                self._take(server, json.loads(line))
                if server.retired and not server.owes:
                    server.writer.close()
        except OSError as error:
            self._tell(HostEvent.WARM_START_FAILED, {"reason": str(error)})
        except Exception as error:  # noqa: BLE001 - whatever it said
            server.state = "refused"
            reason = f"its fork server sent what is no message of one ({type(error).__name__}: {error})"
            self._tell(HostEvent.WARM_START_FAILED, {"reason": reason[:500]})
        finally:
            server.state = "failed" if server.state == "ready" else "refused"
            server.settle()
            for pid in server.workers:
                self._settle(pid, None)
            server.workers.clear()
            self._retired.discard(server)
            server.writer.close()
        await asyncio.to_thread(_end, server.child)

    def _take(self, server: _Server, message: dict[str, Any]) -> None:
        match message:
            case {"ready": True}:
                server.state = "ready"
            case {"refused": reason}:
                self._tell(HostEvent.WARM_START_FAILED, {"reason": str(reason)})
            case {"id": int(number), "pid": int(pid)} if number in server.answers:
                server.workers.add(pid)
                self._statuses[pid] = asyncio.get_running_loop().create_future()
                server.answers.pop(number).set_result(pid)
            case {"id": int(number), "error": reason} if number in server.answers:
                server.answers.pop(number).set_exception(RuntimeError(str(reason)))
            case {"exit": pid, "status": status} if pid in server.workers:
                server.workers.discard(pid)
                self._settle(pid, status)
            case {"exit": int()}:
                pass  # of a process that it did not start for us
            case _:
                raise ValueError(f"it says {str(message)[:100]!r}")

    def _settle(self, pid: int, status: int | None) -> None:
        """Report the end of a worker to the caller that waits for it; that may have given up already."""
        future = self._statuses.get(pid)
        if future is not None and not future.done():
            future.set_result(status)

    async def _request_fork(self, server: _Server, spec: LaunchSpec) -> int:
        """The pid of a new worker. Raises RuntimeError when the server cannot, and then it certainly will not."""
        self._last_id += 1
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server.answers[self._last_id] = answer
        server.used_at = time.monotonic()
        request = {
            "id": self._last_id,
            "module": spec.module,
            "argv": spec.argv,
            "env": dict(spec.env),
            "cwd": str(spec.run_dir),
            "stdout": str(spec.stdout),
            "stderr": str(spec.stderr),
        }
        server.writer.write(json.dumps(request).encode() + b"\n")
        done, _ = await asyncio.wait([answer], timeout=_FORK_TIMEOUT)
        if not done:
            server.child.kill()  # it may not start late what will have been started otherwise by then
            await server.ended(_LAST_WORD_TIMEOUT)  # it may have answered in the last moment
            server.writer.close()  # a process that it left behind may hold the other end
            await server.ended()
        if not answer.done():
            raise RuntimeError("the fork server did not answer")
        return answer.result()

    async def _retire(self, server: _Server) -> None:
        """Fork from it no more, and end it as soon as it owes nobody an exit status."""
        for key in [key for key, known in self._servers.items() if known is server]:
            del self._servers[key]
        server.retired = True
        if server.owes:
            self._retired.add(server)
        else:
            server.writer.close()
            await server.ended()


def _end(child: subprocess.Popen[bytes]) -> None:
    """A fork server ends by itself when its socket closes; one that is still importing is ended."""
    try:
        child.wait(0.5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _key(spec: LaunchSpec) -> ServerKey:
    return (str(spec.python), spec.warm_module)


def _fingerprint(spec: LaunchSpec) -> str:
    """Changes when code that a fork server imported has changed on disk."""
    return fingerprint(spec.warm_module.partition(".")[0], spec.env.get("PYTHONPATH", ""), spec.python)


def _places_can_be_opened(spec: LaunchSpec) -> bool:
    """A forked worker could not report it; the plain start can, with a reason."""
    try:
        for path in (spec.stdout, spec.stderr):
            path.open("ab").close()
        return spec.run_dir.is_dir()
    except OSError:
        return False
