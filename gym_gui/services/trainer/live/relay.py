"""Passes the live channel of a session on to a watcher that reached the daemon, and to the session what it says.

The latest wins here as on the channel itself. A watcher that does not read costs what is in one message: the newest
state and a picture that it asked for. While it does not read, nothing more is read for it from the session, which goes
on as if nobody watched. All watchers together are sent a bounded number of messages a second, so that fifty of them do
not hold up anybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from pathlib import Path

from gym_gui.services.trainer.errors import LeavingError, RefusedError, WrongStateError
from gym_gui.services.trainer.live.pictures import MOST_PICTURE_BYTES, SharedPictures
from gym_gui.services.trainer.live.session_link import NobodyListensError, SessionLink
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.telemetry.watching import until_set
from mosaic_protocol.live.frames import FramesError, FramesGoneError
from mosaic_protocol.live.messages import LONGEST_LINE, Refused, line_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

MOST_A_SECOND = 30
"""Messages to one watcher, each with a picture of every seat that it wants."""
_MOST_A_SECOND_TO_ALL = 600
_LOOK_SECONDS = 0.5
"""How often a watcher that waits for a picture, and for a session that says nothing, is looked after."""
_MOST_SEATS = 64
_BEFORE = (RunState.INIT, RunState.HSHK, RunState.RDY)


class LiveRelay:
    """Belongs to the daemon's event loop."""

    def __init__(self, shutdown: asyncio.Event) -> None:
        self._shutdown = shutdown
        self._pictures = SharedPictures()
        self._watchers = 0

    async def serve(
        self, run: RunRecord, run_directory: Path, first: pb.LiveInput, inputs: AsyncIterator[pb.LiveInput]
    ) -> AsyncGenerator[pb.LiveOutput, None]:
        """What one watcher is sent, until the session ends. Raises :class:`WrongStateError` when there is none,
        :class:`RefusedError` for what no watcher may send, :class:`LeavingError` with the daemon."""
        if run.is_over:
            raise WrongStateError(_no_session(run))
        try:
            link = SessionLink(run_directory)
        except NobodyListensError:
            raise WrongStateError(_no_session(run)) from None
        watcher = _Watcher(link, self._pictures)
        hearing = asyncio.ensure_future(watcher.hear(first, inputs))
        hearing.add_done_callback(lambda _: watcher.news.set())
        self._watchers += 1
        try:
            async for output in self._outputs(watcher, hearing):
                yield output
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._pictures.forget()
            hearing.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await hearing
            link.close()

    async def _outputs(self, watcher: _Watcher, hearing: asyncio.Future[None]) -> AsyncIterator[pb.LiveOutput]:
        link = watcher.link
        while not self._shutdown.is_set():
            link.call_when_readable(watcher.news)
            await until_set(watcher.news, _LOOK_SECONDS)
            watcher.news.clear()
            link.read()
            if link.has_ended and not link.has_spoken:
                raise WrongStateError("the session hung up: it ends, or too many watch it")
            output = await watcher.output()
            if output.lines or output.pictures:
                yield output
                await asyncio.sleep(max(1 / MOST_A_SECOND, self._watchers / _MOST_A_SECOND_TO_ALL))
            if link.has_ended:
                return
            if hearing.done():
                hearing.result()  # raises what was wrong with what it said; one that only watches may fall silent
        raise LeavingError("the trainer daemon leaves; the session goes on")


class _Watcher:
    """What one watcher wants, and what it has seen."""

    def __init__(self, link: SessionLink, pictures: SharedPictures) -> None:
        self.link = link
        self.news = asyncio.Event()
        self._pictures = pictures
        self._wanted: dict[int, None] = {}
        """Seats, in the order in which they were asked for."""
        self._seen: dict[int, tuple[str, int]] = {}
        """The file and the number of the last picture of each seat."""
        self._has_complained = False

    async def hear(self, first: pb.LiveInput, inputs: AsyncIterator[pb.LiveInput]) -> None:
        """Do what the watcher says until it falls silent. A session that does not read holds up its watchers alone."""
        await self._heed(first)
        async for message in inputs:
            await self._heed(message)

    async def _heed(self, message: pb.LiveInput) -> None:
        if len(message.commands) > 2 * LONGEST_LINE:
            raise RefusedError(
                f"{len(message.commands):,} bytes of commands at once: {2 * LONGEST_LINE:,} are the most"
            )
        for seat in message.pictures:
            if not 1 <= seat <= _MOST_SEATS:
                raise RefusedError(f"there is no seat {seat}: they count from 1, to {_MOST_SEATS} at most")
            self._wanted[seat] = None
        if message.pictures:
            self.news.set()
        if message.commands:
            await self.link.send(message.commands)

    async def output(self) -> pb.LiveOutput:
        """The lines that wait, and a picture of each seat that is wanted and has a newer one."""
        output = pb.LiveOutput(lines=self.link.lines.take())
        room = MOST_PICTURE_BYTES
        for seat in list(self._wanted):
            places = self.link.lines.pictures
            path = places[seat - 1] if seat <= len(places) else ""
            if not path:
                continue
            before, after = self._seen.get(seat, ("", 0))
            try:
                found = await self._pictures.newer(path, after if before == path else 0)
            except FramesGoneError:
                continue  # the next state names the next file, or the session ends
            except FramesError as error:
                self._complain(error, output)
                continue
            if found is None or found.raw_bytes > room:
                continue
            room -= found.raw_bytes
            del self._wanted[seat]
            self._seen[seat] = (path, found.number)
            output.pictures.add(
                seat=seat,
                number=found.number,
                width=found.width,
                height=found.height,
                zstd_pixels=found.zstd_pixels,
            )
        return output

    def _complain(self, error: FramesError, output: pb.LiveOutput) -> None:
        """Once: the session names its files again and again."""
        if not self._has_complained:
            self._has_complained = True
            output.lines.append(line_of(Refused(str(error))).rstrip(b"\n"))


def _no_session(run: RunRecord) -> str:
    called = f"run {run.name!r} ({run.run_id})"
    if run.is_over:
        return f"{called} is over ({run.outcome}): a live session can be joined while it runs"
    if run.state in _BEFORE:
        return f"the session of {called} has not begun: it is in state {run.state}"
    return f"nobody listens for {called}: it is no live session, or it ends just now"
