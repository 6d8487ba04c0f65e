"""Publishes every stream of an outbox directory to the daemon, resuming after the last acknowledged record."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic_protocol.outbox import MESSAGE_BYTES, OutboxReader, discard_through, oldest_seq, streams
from mosaic_protocol.proto import trainer_pb2 as pb

BATCH_RECORDS = 1000
POLL_SECONDS = 0.25
"""How often the journals of other processes are looked at; no portable notification exists. More often shows people
nothing more, and every look costs this process and the daemon CPU time that training beside them would use."""


class OutboxPublisher:
    """Owns the readers of one outbox directory. :meth:`run` belongs to one asyncio loop; the rest is thread-safe."""

    def __init__(self, directory: Path, run_id: str, on_sent: Callable[[str, bytes], None] | None = None) -> None:
        """``on_sent`` hears the stream and the last line of each batch, in the loop."""
        self._directory, self._run_id = directory, run_id
        self._on_sent = on_sent
        self._acked: dict[str, int] = {}
        self._readers: dict[str, OutboxReader] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudged: asyncio.Event | None = None
        self._delivered = threading.Condition()

    def nudge(self) -> None:
        """Something was appended: publish soon instead of at the next poll."""
        loop, nudged = self._loop, self._nudged
        if loop is not None and nudged is not None and not nudged.is_set():
            try:
                loop.call_soon_threadsafe(nudged.set)
            except RuntimeError:  # the loop ended meanwhile; the outbox keeps the record
                self._loop = None

    def wait_until_delivered(self, timeout: float) -> bool:
        """Wait until all that was written is acknowledged, at most ``timeout`` seconds; True when it is."""
        deadline = time.monotonic() + timeout
        self.nudge()
        with self._delivered:
            while self._backlog() and (left := deadline - time.monotonic()) > 0:
                self._delivered.wait(min(left, POLL_SECONDS))
        return not self._backlog()

    def _backlog(self) -> bool:
        """Whether some stream has a record that is not acknowledged, or may have: it cannot be looked at now."""
        try:
            return any(self._is_behind(stream) for stream in streams(self._directory))
        except OSError:
            return True

    def _is_behind(self, stream: str) -> bool:
        reader = OutboxReader(self._directory, stream, after_seq=self._acked.get(stream, 0))
        try:
            return bool(reader.read(1))
        finally:
            reader.close()

    async def run(self, stub: Any, metadata: tuple[tuple[str, str], ...], ended: threading.Event) -> None:
        """Publish until ``ended`` is set or the call fails. One batch is in flight at a time: simple, and an
        acknowledged batch of 1,000 records costs milliseconds."""
        self._loop, self._nudged = asyncio.get_running_loop(), asyncio.Event()
        self._forget_positions()
        call = stub.PublishRecords(metadata=metadata)
        try:
            while not ended.is_set():
                if not await self._publish_once(call):
                    await self._wait_for_more()
            await call.done_writing()
        finally:
            call.cancel()
            self._forget_positions()

    def _forget_positions(self) -> None:
        """Nothing is assumed about what reached the daemon on an earlier connection."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    async def _publish_once(self, call: Any) -> bool:
        """Send what is new of every stream; False when there was nothing."""
        sent = False
        for stream in streams(self._directory):
            if stream not in self._readers:
                await self._ask_where_to_go_on(call, stream)
            lines = self._readers[stream].read(BATCH_RECORDS, MESSAGE_BYTES)
            if lines:
                first = self._readers[stream].next_seq - len(lines)
                await self._exchange(call, stream, first, lines)
                if self._on_sent is not None:
                    self._on_sent(stream, lines[-1])
                sent = True
        return sent

    async def _ask_where_to_go_on(self, call: Any, stream: str) -> None:
        """An empty batch is answered with the last acknowledged number."""
        acked = await self._exchange(call, stream, 0, [])
        start = max(acked, oldest_seq(self._directory, stream) - 1)
        self._readers[stream] = OutboxReader(self._directory, stream, after_seq=start)

    async def _exchange(self, call: Any, stream: str, first_seq: int, lines: list[bytes]) -> int:
        oldest = oldest_seq(self._directory, stream)
        batch = pb.RecordBatch(run_id=self._run_id, stream=stream, first_seq=first_seq, lines=lines, oldest_seq=oldest)
        await call.write(batch)
        answer = await call.read()
        if not isinstance(answer, pb.RecordAck):
            raise ConnectionError("the daemon closed the record stream")
        self._note_ack(stream, answer.acked_seq)
        return int(answer.acked_seq)

    def _note_ack(self, stream: str, acked: int) -> None:
        with self._delivered:
            self._acked[stream] = acked
            self._delivered.notify_all()
        discard_through(self._directory, stream, acked)

    async def _wait_for_more(self) -> None:
        assert self._nudged is not None
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._nudged.wait()
        except TimeoutError:
            return
        self._nudged.clear()
