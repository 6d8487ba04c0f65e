"""Watching and steering a live session, for a screen of any kind. Needs neither Qt nor NumPy."""

from __future__ import annotations

import select
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mosaic_protocol.live.frames import Frame
from mosaic_protocol.live.messages import (
    LONGEST_LINE,
    Command,
    Hello,
    MessageError,
    Refused,
    State,
    line_of,
    read_told,
)
from mosaic_protocol.live.transport import LiveTransport, LocalTransport, SessionAwayError, WayBrokenError

__all__ = ["LiveClient", "SessionAwayError", "WayBrokenError"]


class LiveClient:
    """One watcher of one session. Belongs to one thread.

    Call :meth:`receive` when :meth:`fileno` is readable, or with a timeout. :attr:`state` is the newest one; states in
    between are passed over.
    """

    def __init__(self, way: Path | LiveTransport) -> None:
        """Connect to the session in the folder of a run on this machine, or use a connection that was made. Raises
        :class:`SessionAwayError`."""
        self.hello: Hello | None = None
        self.state = State()
        self.refusals: list[str] = []
        """What was refused since the list was last emptied, which is the caller's business."""
        self._received = b""
        self._transport = LocalTransport(way) if isinstance(way, Path) else way

    def fileno(self) -> int:
        return self._transport.fileno()

    def send(self, *commands: Command) -> None:
        """Raises :class:`SessionAwayError` when nobody reads them."""
        self._transport.send(b"".join(map(line_of, commands)))

    def offer(self, *commands: Command) -> bool:
        """Send without waiting, for a thread that must not; whether everything is on its way. What is not goes first
        with the next call. Raises :class:`SessionAwayError` as :meth:`send` does, and when too much waits."""
        return self._transport.offer(b"".join(map(line_of, commands)))

    def receive(self, timeout: float = 0.0) -> bool:
        """Take what came; whether anything did. Raises :class:`SessionAwayError` at the end of the session, and
        :class:`WayBrokenError` when the session may well go on."""
        came, patience = False, timeout
        while select.select([self._transport], [], [], patience)[0]:
            self._take(self._transport.read())
            came, patience = True, 0.0
        return came

    def wait_for_hello(self, timeout: float = 10.0) -> Hello:
        """Raises :class:`SessionAwayError` when the session does not speak."""
        deadline = time.monotonic() + timeout
        while self.hello is None:
            if not self.receive(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                raise SessionAwayError(f"the session said nothing within {timeout:g} s")
        return self.hello

    def frame(self, seat: int = 1) -> Frame | None:
        """The newest picture of a seat that was not given yet; None when there is none."""
        seats = self.state.seats
        path = seats[seat - 1].frames if seat <= len(seats) else self.state.frames if seat == 1 else ""
        return self._transport.frame(seat, path)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> LiveClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        if len(self._received) > LONGEST_LINE:
            raise SessionAwayError("the session sent a line without an end")
        for line in lines:
            with suppress(MessageError):  # of a newer version: what is understood goes on
                told = read_told(line)
                if isinstance(told, State):
                    self.state = told
                elif isinstance(told, Refused):
                    self.refusals.append(told.why)
                else:
                    self.hello = told
