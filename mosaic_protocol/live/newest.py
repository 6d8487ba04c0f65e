"""What is worth passing on of the lines of a session: the latest wins, and the little that must be heard is kept.

Those who pass lines on without being the one who reads them keep no more than this: the relay of the daemon for each
watcher, and a client for its screen.
"""

from __future__ import annotations

from collections import deque

import msgspec

from mosaic_protocol.live.messages import LONGEST_LINE

MOST_SAID = 8
"""How many lines wait that are neither a hello nor a state: refusals, and what a newer version says."""


class _SeatPlace(msgspec.Struct, frozen=True):
    frames: str = ""


class _Glance(msgspec.Struct, frozen=True):
    """The few fields of a line that decide what becomes of it."""

    at: str = ""
    frames: str = ""
    seats: tuple[_SeatPlace | str, ...] = ()
    """Those of a state, or the names in a hello."""


_glances = msgspec.json.Decoder(_Glance)


class NewestLines:
    """Lines that wait for somebody who takes them. Holds four of the longest at most. Belongs to one thread."""

    def __init__(self) -> None:
        self.pictures: tuple[str, ...] = ()
        """The files of pictures that the last state named: of each seat, or of the only one."""
        self._hello = self._state = b""
        self._said: deque[bytes] = deque(maxlen=MOST_SAID)

    def put(self, line: bytes) -> None:
        """A line without its newline. It replaces what it outdates; one that cannot be understood is passed on."""
        try:
            glance = _glances.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            glance = _Glance()
        if glance.at == "state":
            self._state = line
            seats = tuple(seat.frames for seat in glance.seats if isinstance(seat, _SeatPlace))
            self.pictures = seats or (glance.frames,)
        elif glance.at == "hello":
            self._hello = line
        else:
            self._said.append(line)
            while sum(map(len, self._said)) > LONGEST_LINE:
                self._said.popleft()

    def take(self) -> list[bytes]:
        """What waits, in the order in which it is best heard; nothing waits afterwards."""
        found = [*filter(None, [self._hello]), *self._said, *filter(None, [self._state])]
        self._hello = self._state = b""
        self._said.clear()
        return found
