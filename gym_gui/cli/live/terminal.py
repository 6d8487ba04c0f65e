"""A terminal that hands over single keys and shows whole screens, and is put back whatever happens."""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The other screen, without a cursor, without wrapping."""
_LEAVE = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_NAMES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b" ": "space",
    b"\r": "enter",
    b"\n": "enter",
    b"\t": "tab",
    b"\x1b": "escape",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x03": "interrupt",
    b"\x04": "interrupt",
}
_LONGEST = max(map(len, _NAMES))
_LOCAL_MODES = 3
"""Where ``tcgetattr`` has them."""
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class EndedBySignal(BaseException):
    """The terminal was closed, or somebody wants the program to end."""


def keys_in(data: bytes) -> list[str]:
    """The keys that a terminal sent, by the names of :mod:`mosaic_protocol.live.key_map`; "interrupt" for Ctrl-C and
    Ctrl-D. Sequences of other keys are left out."""
    found, at = [], 0
    while at < len(data):
        length = next((size for size in range(_LONGEST, 0, -1) if data[at : at + size] in _NAMES), 0)
        piece = data[at : at + length]
        if piece == b"\x1b" and data[at + 1 : at + 2] in (b"[", b"O"):
            at = _after_sequence(data, at)
            continue
        if length:
            found.append(_NAMES[piece])
        elif 0x20 < data[at] < 0x7F:
            found.append(chr(data[at]).lower())
        at += length or 1
    return found


def _after_sequence(data: bytes, at: int) -> int:
    """Behind an escape sequence that means no key here."""
    at += 2
    while at < len(data) and not 0x40 <= data[at] <= 0x7E:
        at += 1
    return at + 1


@contextmanager
def quiet_keyboard(keyboard: int) -> Iterator[None]:
    """Keys that are struck in the block are not echoed, and forgotten at its end: a game that has not
    begun is not meant. Ctrl-C still interrupts. The terminal is put back as :func:`whole_screen` does it."""
    with _put_back(keyboard):
        modes = termios.tcgetattr(keyboard)
        modes[_LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(keyboard, termios.TCSADRAIN, modes)
        yield


@contextmanager
def whole_screen(keyboard: int, screen: int) -> Iterator[Callable[[bytes], None]]:
    """Take the terminal over; gives a function that writes to it. It is as before when the block is left, by whatever
    way: a signal that would end the program leaves it with :class:`EndedBySignal`. Keys struck before are
    forgotten."""
    with _put_back(keyboard):
        try:
            tty.setraw(keyboard, termios.TCSAFLUSH)
            _write(screen, _ENTER)
            yield lambda data: _write(screen, data)
        finally:
            with suppress(OSError):
                _write(screen, _LEAVE)


@contextmanager
def _put_back(keyboard: int) -> Iterator[None]:
    before = termios.tcgetattr(keyboard)
    handlers = {number: signal.signal(number, _leave) for number in _ENDINGS}
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> Any:
    raise EndedBySignal


def _write(screen: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(screen, view) :]
