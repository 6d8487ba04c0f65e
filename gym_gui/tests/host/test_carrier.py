"""Connections that share one pair of streams arrive whole, apart and in order, and end with the way."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from mosaic_host.carrier import Carrier, Streams

HANG_GUARD = 60.0


async def pair() -> tuple[Streams, Streams]:
    one, other = socket.socketpair()
    return await asyncio.open_unix_connection(sock=one), await asyncio.open_unix_connection(sock=other)


async def refused() -> Streams:
    raise ConnectionRefusedError


async def echo() -> Streams:
    """Somebody who says everything again."""
    ours, theirs = await pair()

    async def say_again() -> None:
        try:
            while piece := await theirs[0].read(1000):
                theirs[1].write(piece)
                await theirs[1].drain()
        finally:
            theirs[1].close()

    _running.add(task := asyncio.create_task(say_again()))
    task.add_done_callback(_running.discard)
    return ours


_running: set[asyncio.Task[None]] = set()


@asynccontextmanager
async def carriers(
    dial: Callable[[], Awaitable[Streams]] = echo, **of_the_far: float
) -> AsyncIterator[tuple[Carrier, Streams, asyncio.Task[None]]]:
    """The near one, its streams, and the run of the far one."""
    near, far = await pair()
    first = Carrier(near, refused, is_first=True)
    second = Carrier(far, dial, is_first=False, **of_the_far)
    tasks = [asyncio.create_task(one.run()) for one in (first, second)]
    try:
        async with asyncio.timeout(HANG_GUARD):
            yield first, near, tasks[1]
    finally:
        for task in (*tasks, *_running):
            task.cancel()
        await asyncio.wait([*tasks, *_running])
        near[1].close()
        far[1].close()


async def test_many_connections_arrive_whole_and_apart() -> None:
    async with carriers() as (carrier, _, _far):

        async def converse(content: bytes) -> bytes:
            mine, carried = await pair()
            carrier.carry_along(*carried)
            sending = asyncio.create_task(_send(mine[1], content))
            answer = await mine[0].readexactly(len(content))
            await sending
            mine[1].close()
            return answer

        contents = [os.urandom(size) for size in (1, 100, 70_000, 1_000_000)] + [b"\n" * 500]
        assert await asyncio.gather(*map(converse, contents)) == contents


async def _send(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    await writer.drain()


async def test_a_connection_that_nobody_takes_over_there_ends_and_no_other_one() -> None:
    async with carriers(refused) as (carrier, _, far):
        mine, carried = await pair()
        carrier.carry_along(*carried)
        assert await mine[0].read() == b""
        assert not far.done()
        mine[1].close()


async def test_a_way_that_breaks_ends_what_it_carried() -> None:
    async with carriers() as (carrier, near, far):
        mine, carried = await pair()
        carrier.carry_along(*carried)
        mine[1].write(b"hello")
        assert await mine[0].readexactly(5) == b"hello"
        near[1].close()
        assert await mine[0].read() == b""
        await asyncio.wait([far])
        mine[1].close()


async def test_an_end_that_hears_nothing_takes_the_other_one_for_gone() -> None:
    async with carriers(patience=0.05) as (_, _near, far):
        await asyncio.wait([far])
        assert far.exception() is None


async def test_what_is_no_frame_ends_the_way() -> None:
    async with carriers() as (_, near, far):
        near[1].write(b"a banner of the login shell, say\n")
        await asyncio.wait([far])
        assert isinstance(far.exception(), ValueError)
