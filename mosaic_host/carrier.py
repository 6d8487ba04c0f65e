"""Several connections through one pair of streams, for a way to a host that forwards no sockets of its own.

Both ends are alike: what dials here is carried there, where the other end dials for it. A frame is the number of a
connection, what happens to it, a length, so many bytes, and a newline: ``srun`` holds back output that does not end a
line.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_HEAD = struct.Struct(">IBI")
_OPENED, _DATA, _CLOSED = 1, 2, 3
_PIECE = 64 * 1024
_END = b"\n"


class Carrier:
    """One end. Belongs to one event loop. ``dial`` connects what the other end carries here."""

    def __init__(
        self, streams: Streams, dial: Callable[[], Awaitable[Streams]], *, is_first: bool, patience: float | None = None
    ) -> None:
        """Exactly one of the two ends is the first: they number what they carry apart. An end that hears nothing for
        the seconds of ``patience`` takes the other one for gone."""
        self._reader, self._writer = streams
        self._dial, self._patience = dial, patience
        self._numbers = count(1 if is_first else 2, 2)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._carried: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Carry until the other end is gone. Raises ValueError when it sends what is no frame."""
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                while True:
                    number, what, length = _HEAD.unpack(await self._next(_HEAD.size))
                    if length > _PIECE:
                        raise ValueError(f"a frame of {length} bytes is none of a carrier")
                    content = await self._next(length + len(_END))
                    await self._take(number, what, content[:length])
        finally:
            for task in list(self._carried):
                task.cancel()
            for writer in self._writers.values():
                writer.close()

    async def _next(self, size: int) -> bytes:
        async with asyncio.timeout(self._patience):
            return await self._reader.readexactly(size)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let the other end dial for this connection; return when it is over."""
        number = next(self._numbers)
        self._writers[number] = writer
        await self._send(number, _OPENED)
        await self._pass_on(number, reader)

    def carry_along(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The same in the background."""
        self._spawn(self.carry(reader, writer))

    async def _take(self, number: int, what: int, content: bytes) -> None:
        writer = self._writers.get(number)
        if what == _OPENED:
            await self._opened(number)
        elif writer is not None and what == _DATA:
            writer.write(content)
            with suppress(ConnectionError):
                await writer.drain()
        elif writer is not None:
            del self._writers[number]
            writer.close()

    async def _opened(self, number: int) -> None:
        try:
            reader, writer = await self._dial()
        except OSError:
            await self._send(number, _CLOSED)
            return
        self._writers[number] = writer
        self._spawn(self._pass_on(number, reader))

    async def _pass_on(self, number: int, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(_PIECE):
                await self._send(number, _DATA, piece)
            await self._send(number, _CLOSED)
        if (writer := self._writers.pop(number, None)) is not None:
            writer.close()

    async def _send(self, number: int, what: int, content: bytes = b"") -> None:
        self._writer.write(_HEAD.pack(number, what, len(content)) + content + _END)
        async with self._turn:  # one waits for room at a time
            await self._writer.drain()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._carried.add(task)
        task.add_done_callback(self._carried.discard)
