"""What a full disk must not do: end a run because of a line for its log.

Logs are files on the disk that the run itself may fill, and Python raises where a line of them cannot be written: in
the middle of the training, or in the handler that wanted to tell of the full disk.
"""

from __future__ import annotations

import errno
import io
import sys
from contextlib import suppress
from typing import Any

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether space alone is what was missing."""
    return isinstance(error, OSError) and error.errno in _FULL


def print_past_a_full_disk() -> None:
    """From now on this process's stdout and stderr drop what a full disk does not take; other errors are raised as
    ever. What is printed when there is space again is written. A second call changes nothing."""
    for name in ("stdout", "stderr"):
        plain = getattr(sys, name)
        forgiving = _forgiving(plain)
        if getattr(sys, f"__{name}__") is plain:
            setattr(sys, f"__{name}__", forgiving)
        setattr(sys, name, forgiving)


class _ForgivingFile(io.FileIO):
    """Below every buffer, so that nothing is kept back that would fail again at the next flush or at the exit."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if not is_disk_full(error):
                raise
            return memoryview(data).nbytes


def _forgiving(stream: Any) -> Any:
    """The same stream with a forgiving file below it; what is not a plain stream of this process stays as it is."""
    if type(stream) is not io.TextIOWrapper:
        return stream
    below = stream.buffer
    raw = getattr(below, "raw", below)  # Python leaves the buffer out when it is told not to buffer
    if type(raw) is not io.FileIO:
        return stream
    with suppress(OSError):
        stream.flush()
    file = _ForgivingFile(raw.fileno(), "wb", closefd=False)
    file.name = raw.name
    return io.TextIOWrapper(
        file if below is raw else io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
