"""What is written cannot always be: streams that are closed, full, left by their reader, or of a small alphabet.

And it should not always be: on a terminal only the few escape sequences that this program uses pass, wherever a text
comes from. Names and sentences of others are cleaned where they are used (``format.one_line``), since those few would
do to redraw a line; this is for what was forgotten there, and for tracebacks.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from typing import TextIO

from gym_gui.cli.errors import CliError, ExitCode, report
from mosaic_protocol.full_disk import NO_SPACE
from mosaic_protocol.plain_text import visible

_OURS = re.compile(r"(\r|\x1b\[[0-9;]*[mKJF]|\x1b\[\?7[hl])")
"""Colours, clearing, going up, wrapping: what the live line, the watched list and the passing notices are made of."""
_UNWRITABLE = (*NO_SPACE, errno.EFBIG, errno.EIO)


def prepare() -> None:
    """Give every standard stream a file, and let none refuse a character.

    A stream that was closed gets the null device: nobody wants to hear, but the command is to be done all the same, and
    a file that is opened later must not take its place. What an alphabet lacks is written as ``\\xe9``.
    """
    for number in (0, 1, 2):
        _open_if_closed(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    sys.stdout = _buffered(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


class _Terminal(io.TextIOWrapper):
    """A terminal that is shown every control character instead of obeying it, apart from those of this program."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(stream.buffer, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)
        self._owner = stream
        """It closes what it writes to when nobody holds it any more."""

    def write(self, text: str) -> int:
        if not text.isprintable():
            parts = _OURS.split(text)
            parts[::2] = map(visible, parts[::2])
            text = "".join(parts)
        return super().write(text)


def _guarded(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper) or not stream.isatty():
        return stream
    return _Terminal(stream)


def _buffered(stream: TextIO) -> TextIO:
    """Stdout as it is unless PYTHONUNBUFFERED is set: a buffer keeps what could not be written, see :func:`failure`."""
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, line_buffering=stream.isatty())


def _open_if_closed(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing == number:
            os.set_inheritable(number, True)
        else:
            os.dup2(nothing, number)
            os.close(nothing)


def failure(error: BaseException) -> OSError | None:
    """Why stdout cannot be written to, if that is what an error is about: what was not written still waits there. Where
    it was more than a buffer holds nothing waits, but the error bears no file's name."""
    if isinstance(error, BrokenPipeError):
        return error
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        return error
    if isinstance(error, OSError):
        try:
            sys.stdout.flush()
        except OSError as why:
            return why
    return None


def give_up(why: OSError) -> int:
    """Tell that the output cannot be written; the exit code. A reader that left, as ``head`` does, wants no word."""
    forget_what_waits()
    if isinstance(why, BrokenPipeError):
        return ExitCode.PIPE_CLOSED
    sentence = f"cannot write the output: {why.strerror or why}"
    return report(CliError(sentence, ExitCode.FAILED), as_json=False)


def forget_what_waits() -> None:
    """Python would try to write it once more when it exits, complain, and answer with an exit code of its own."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nothing, stream.fileno())
    os.close(nothing)
