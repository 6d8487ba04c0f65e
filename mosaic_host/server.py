"""An agent behind a socket: calls of clients run side by side, events go to all of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

from mosaic_host import wire
from mosaic_host.executor import Executor
from mosaic_host.telling import HostEvent, to_plain_log

_FIRST_CLIENT_SECONDS = 60.0


class AgentServer:
    """Serves until nobody was connected for ``linger`` seconds; workers go on. Belongs to one event loop."""

    def __init__(self, linger: float, is_busy: Callable[[], bool] = lambda: False) -> None:
        """``is_busy``: whether it has to stay all the same; asked in a thread."""
        self._linger, self._is_busy = linger, is_busy
        self._leaving = False
        self._clients: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()

    def tell(self, event: HostEvent, fields: Mapping[str, Any]) -> None:
        """For the agent, in any thread."""
        to_plain_log(event, fields)
        line = wire.encode({"event": event, "fields": dict(fields)})
        self._loop.call_soon_threadsafe(self._broadcast, line)

    def _broadcast(self, line: bytes) -> None:
        for client in self._clients:
            client.write(line)

    async def serve(self, agent: Executor, listening: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._agent = agent
        server = await asyncio.start_unix_server(self._converse, sock=listening, limit=wire.LINE_BYTES)
        async with server:
            await self._until_abandoned()
        await agent.close()

    async def _until_abandoned(self) -> None:
        patience = max(self._linger, _FIRST_CLIENT_SECONDS)
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(None if self._clients else patience):
                    await self._changed.wait()
            except TimeoutError:
                if not await asyncio.to_thread(self._is_busy):
                    return
            if self._leaving:
                return
            patience = self._linger

    def leave(self) -> None:
        """Serve nobody any more. Belongs to the loop."""
        self._leaving = True
        self._changed.set()
        for client in self._clients:
            client.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls: dict[int, asyncio.Task[None]] = {}
        self._clients.add(writer)
        self._changed.set()
        try:
            while line := await reader.readline():
                self._take(wire.decode(line), calls, writer)
        except (OSError, ValueError):
            pass  # a client that breaks off, or that cannot be understood, is a client that left
        finally:
            self._clients.discard(writer)
            self._changed.set()
            for call in calls.values():
                call.cancel()
            writer.close()

    def _take(
        self, message: dict[str, Any], calls: dict[int, asyncio.Task[None]], writer: asyncio.StreamWriter
    ) -> None:
        match message:
            case {"cancel": int(number)}:
                if (call := calls.get(number)) is not None:
                    call.cancel()
            case {"id": int(number), "call": str(name), "args": list(args)}:
                calls[number] = asyncio.create_task(self._answer(number, name, args, writer))
                calls[number].add_done_callback(lambda _: calls.pop(number, None))
            case _:
                raise ValueError(f"not a call: {str(message)[:200]}")

    async def _answer(self, number: int, name: str, args: list[Any], writer: asyncio.StreamWriter) -> None:
        try:
            if name not in wire.CALLS:
                raise ValueError(f"{name[:60]!r} is no call: there are {', '.join(sorted(wire.CALLS))}")
            result = await getattr(self._agent, name)(**wire.arguments(name, args))
            line = wire.encode({"id": number, "result": result})
        except Exception as error:  # noqa: BLE001 - whatever it was, the caller is the one who has to hear it
            line = wire.encode({"id": number, "error": wire.error_fields(error)})
        if not writer.is_closing():
            writer.write(line)
            await writer.drain()
