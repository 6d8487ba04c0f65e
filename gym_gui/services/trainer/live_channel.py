"""The live channel of a session through the trainer daemon: for a client that does not share a machine with it.

A thread reads what the daemon sends and keeps the newest of it; gRPC's own thread sends what was said. Both end with
:meth:`DaemonTransport.close`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import zstandard

from gym_gui.services.trainer.client import (
    CancellableStream,
    ClientError,
    DaemonAwayError,
    NoSuchRunError,
    RequestRefusedError,
)
from mosaic_protocol.live.frames import MOST_FRAME_BYTES, Frame
from mosaic_protocol.live.messages import LONGEST_LINE
from mosaic_protocol.live.newest import NewestLines
from mosaic_protocol.live.transport import LiveTransport, SessionAwayError, WayBrokenError
from mosaic_protocol.proto import trainer_pb2 as pb

Opened = Callable[[Callable[[], Iterator[pb.LiveInput]]], CancellableStream[pb.LiveOutput]]
"""Makes the call, with what gives the messages to send; a call that is repeated asks for them again."""


class DaemonTransport(LiveTransport):
    """Made without waiting. What is said before the session answered goes out when it does.

    A picture of a seat is asked for when :meth:`frame` is, and the next one when that was given: at most one is on its
    way, and a screen that nobody looks at costs nothing.
    """

    def __init__(self, run_id: str, opened: Opened, on_close: Callable[[], None] | None = None) -> None:
        self._run_id, self._on_close = run_id, on_close
        self._changed = threading.Condition()
        self._lines = NewestLines()
        self._pictures: dict[int, Frame] = {}
        self._asked: set[int] = set()
        """Seats whose next picture is on its way, or was not given yet."""
        self._wishes: set[int] = set()
        self._unsent = b""
        self._has_answered = False
        self._end: SessionAwayError | None = None
        self._attempt = 0
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stream = opened(self._inputs)
        self._thread = threading.Thread(target=self._read_all, name="live-channel", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._bell

    def read(self) -> bytes:
        with self._changed:
            lines = self._lines.take()
            if not lines and self._end is not None:
                raise self._end
            if self._end is None:
                self._silence()
        return b"".join(line + b"\n" for line in lines)

    def send(self, data: bytes) -> None:
        self.offer(data)

    def offer(self, data: bytes) -> bool:
        """Always on its way: the thread that sends it may wait."""
        with self._changed:
            if self._end is not None:
                raise self._end
            if len(self._unsent) + len(data) > LONGEST_LINE:
                raise SessionAwayError("the session does not read what it is sent")
            self._unsent += data
            self._changed.notify_all()
        return True

    def frame(self, seat: int, path: str) -> Frame | None:
        with self._changed:
            found = self._pictures.pop(seat, None)
            if found is not None:
                self._asked.discard(seat)
            if seat not in self._asked and self._end is None:
                self._asked.add(seat)
                self._wishes.add(seat)
                self._changed.notify_all()
        return found

    def close(self) -> None:
        if self._bell < 0:
            return
        with self._changed:
            self._end = self._end or SessionAwayError("the session was left")
            self._changed.notify_all()
        self._stream.cancel()
        self._thread.join()
        os.close(self._bell)
        self._bell = -1
        if self._on_close is not None:
            self._on_close()

    # ---- gRPC's thread -------------------------------------------------------------------------------------------

    def _inputs(self) -> Iterator[pb.LiveInput]:
        """What to send in one call. Nothing that is said is given to a call that may be refused."""
        with self._changed:
            self._attempt += 1
            mine = self._attempt
            self._changed.notify_all()
        yield pb.LiveInput(run_id=self._run_id)

        def has_ended() -> bool:
            return self._end is not None or self._attempt != mine

        def is_due() -> bool:
            return has_ended() or (self._has_answered and bool(self._unsent or self._wishes))

        while True:
            with self._changed:
                self._changed.wait_for(is_due)
                if has_ended():
                    return
                message = pb.LiveInput(commands=self._unsent, pictures=sorted(self._wishes))
                self._unsent = b""
                self._wishes.clear()
            yield message

    # ---- the thread that reads -----------------------------------------------------------------------------------

    def _read_all(self) -> None:
        try:
            for output in self._stream:
                self._take(output)
            end = SessionAwayError("the session ended", is_gone=True)
        except DaemonAwayError as error:
            end = WayBrokenError(f"{error}; sessions go on without it")
        except (RequestRefusedError, NoSuchRunError) as error:
            end = SessionAwayError(str(error), is_gone=True)
        except ClientError as error:
            end = WayBrokenError(str(error))
        except ValueError as error:  # gRPC's word for a client that was closed under it
            end = WayBrokenError(str(error))
        with self._changed:
            self._end = self._end or end
            self._changed.notify_all()
            self._ring()

    def _take(self, output: pb.LiveOutput) -> None:
        frames = {picture.seat: frame for picture in output.pictures if (frame := _unpacked(picture)) is not None}
        with self._changed:
            self._has_answered = True
            for line in output.lines:
                self._lines.put(line)
            self._pictures.update(frames)
            self._asked.difference_update({picture.seat for picture in output.pictures} - frames.keys())
            self._changed.notify_all()
            self._ring()

    def _ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    def _silence(self) -> None:
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return  # it did not ring


def _unpacked(picture: pb.LivePicture) -> Frame | None:
    """None for what is no picture: the next one may be."""
    size = picture.width * picture.height * 3
    if not 0 < size <= MOST_FRAME_BYTES:
        return None
    try:
        pixels = zstandard.ZstdDecompressor().decompress(picture.zstd_pixels, max_output_size=size)
    except zstandard.ZstdError:
        return None
    return Frame(picture.number, picture.width, picture.height, pixels) if len(pixels) == size else None
