"""An executor whose workers run where an agent listens: each call is a line to it, and a line back."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

from mosaic_host import wire
from mosaic_host.capacity import HostCapacity
from mosaic_host.executor import Claimant, Executor, LaunchSpec, LogPart, OutboxPart, StartedWorker, WorkerHandle
from mosaic_host.hosting import CommandAnswer, FileState, HostFacts, Hosting
from mosaic_host.log_files import LogPlace
from mosaic_host.telling import HostEvent, Tell, to_plain_log
from mosaic_protocol.outbox import OutboxPlace
from mosaic_protocol.unix_socket import dialled


class AgentClient(Executor, Hosting):
    """Belongs to one event loop. A broken pipe ends every call that waits, with a :class:`wire.PipeError`; it says
    nothing about the workers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tell: Tell = to_plain_log) -> None:
        self._writer, self._tell = writer, tell
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listener = asyncio.create_task(self._listen(reader))

    @classmethod
    async def connect(cls, socket: Path, tell: Tell = to_plain_log) -> AgentClient:
        return cls(*await asyncio.open_unix_connection(dialled(socket), limit=wire.LINE_BYTES), tell)

    async def hung_up(self) -> None:
        """Return when the agent cannot be reached through this pipe any more."""
        await asyncio.wait([self._listener])

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        reason = "the host agent hung up"
        try:
            while line := await reader.readline():
                self._take(wire.decode(line))
        except OSError as error:
            reason = f"the host agent hung up: {error}"
        except ValueError as error:
            reason = f"the host agent sent what is not an answer: {error}"
        finally:
            waiting, self._waiting = self._waiting, {}
            for answer in waiting.values():
                if not answer.done():
                    answer.set_exception(wire.PipeError(reason))
            self._writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"event": event, "fields": fields}:
                self._tell(HostEvent(event), fields)
            case {"id": number, **said} if (answer := self._waiting.pop(number, None)) and not answer.done():
                if "error" in said:
                    answer.set_exception(wire.error_from(said["error"]))
                else:
                    answer.set_result(said["result"])

    async def _call(self, call: str, *args: Any) -> Any:
        if self._listener.done():
            raise wire.PipeError("the host agent hung up")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(wire.encode({"id": number, "call": call, "args": args}))
        try:
            await self._writer.drain()
            return wire.result(call, await answer)
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None and not self._writer.is_closing():
                self._writer.write(wire.encode({"cancel": number}))
            raise

    async def close(self) -> None:
        """Hang up. The agent goes on for those who come back to it."""
        self._writer.close()
        self._listener.cancel()
        await asyncio.wait([self._listener])

    # ---- the interface -------------------------------------------------------------------------------------------

    async def start(self, spec: LaunchSpec) -> StartedWorker:
        started: StartedWorker = await self._call("start", spec)
        return started

    async def wait(self, worker: WorkerHandle) -> int | None:
        status: int | None = await self._call("wait", worker)
        return status

    async def is_alive(self, worker: WorkerHandle) -> bool:
        return bool(await self._call("is_alive", worker))

    async def ask_to_stop(self, worker: WorkerHandle) -> None:
        await self._call("ask_to_stop", worker)

    async def kill_all(self, worker: WorkerHandle) -> None:
        await self._call("kill_all", worker)

    async def survivors(self, worker: WorkerHandle) -> list[int]:
        return list(await self._call("survivors", worker))

    async def claimant(self, worker: WorkerHandle) -> Claimant | None:
        found: Claimant | None = await self._call("claimant", worker)
        return found

    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        found: Claimant | None = await self._call("revoke", worker)
        return found

    async def hindrance(self, run_id: str) -> str:
        return str(await self._call("hindrance", run_id))

    async def streams(self, run_id: str) -> list[str]:
        return list(await self._call("streams", run_id))

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        part: OutboxPart = await self._call("read_outbox", run_id, stream, after_seq, place)
        return part

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        line: bytes | None = await self._call("read_open_chunk", run_id, stream)
        return line

    async def log_place(self, run_id: str, source: str, tail_lines: int, *, follow: bool) -> LogPlace:
        place: LogPlace = await self._call("log_place", run_id, source, tail_lines, follow)
        return place

    async def read_log(self, place: LogPlace) -> LogPart:
        part: LogPart = await self._call("read_log", place)
        return part

    async def rotate_logs(self, run_id: str, limit: int) -> None:
        await self._call("rotate_logs", run_id, limit)

    async def last_error_line(self, run_id: str) -> str:
        return str(await self._call("last_error_line", run_id))

    async def read_file(self, run_id: str, name: str) -> bytes:
        return bytes(await self._call("read_file", run_id, name))

    async def write_ending(self, run_id: str, state: str, outcome: str, reason: str) -> None:
        await self._call("write_ending", run_id, state, outcome, reason)

    async def capacity(self, cpus: int | None, memory_mb: int | None) -> HostCapacity:
        found: HostCapacity = await self._call("capacity", cpus, memory_mb)
        return found

    async def prepare(self, spec: LaunchSpec) -> None:
        await self._call("prepare", spec)

    async def warm_servers(self) -> dict[str, str]:
        return dict(await self._call("warm_servers"))

    async def drop_idle(self) -> None:
        await self._call("drop_idle")

    # ---- for a daemon elsewhere ----------------------------------------------------------------------------------

    async def describe(self) -> HostFacts:
        facts: HostFacts = await self._call("describe")
        return facts

    async def retire(self) -> bool:
        return bool(await self._call("retire"))

    async def runs(self) -> list[str]:
        return list(await self._call("runs"))

    async def make_run(self, run_id: str) -> None:
        await self._call("make_run", run_id)

    async def put(self, run_id: str, area: str, name: str, offset: int, content: bytes) -> None:
        await self._call("put", run_id, area, name, offset, content)

    async def files(self, run_id: str) -> list[FileState]:
        return list(await self._call("files", run_id))

    async def read_piece(self, run_id: str, area: str, name: str, offset: int, most: int) -> bytes:
        return bytes(await self._call("read_piece", run_id, area, name, offset, most))

    async def digest(self, run_id: str, area: str, name: str) -> str:
        return str(await self._call("digest", run_id, area, name))

    async def stage(self, run_id: str, name: str, sha256: str) -> bool:
        return bool(await self._call("stage", run_id, name, sha256))

    async def start_once(self, spec: LaunchSpec) -> StartedWorker:
        started: StartedWorker = await self._call("start_once", spec)
        return started

    async def end_run(self, run_id: str) -> None:
        await self._call("end_run", run_id)

    async def forget_run(self, run_id: str) -> None:
        await self._call("forget_run", run_id)

    async def batch_command(self, words: list[str], given: str) -> CommandAnswer:
        answer: CommandAnswer = await self._call("batch_command", words, given)
        return answer
