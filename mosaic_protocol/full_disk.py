"""What a full disk, or a folder that cannot be written to for a while, must not do: end a run.

Logs are files on the disk that the run itself may fill, and Python raises where a line of them cannot be written: in
the middle of the training, or in the handler that was to report the full disk. For what it cannot do without, a run
waits instead.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (*NO_SPACE, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOENT)
_RETRY_SECONDS = 0.2
_PROBE_BYTES = 16 * 1024
_NOTHING_BYTES = 64 * 1024


def is_disk_full(error: BaseException | None) -> bool:
    """Whether space alone is what was missing."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def may_pass(error: BaseException | None) -> bool:
    """Whether the same write may well succeed another time: space comes back, permissions are mended, volumes are
    mounted again."""
    return isinstance(error, OSError) and error.errno in _PASSING


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has hardly a byte, or no file, left for this user. False for a folder that cannot
    be looked at."""
    try:
        disk = os.statvfs(folder)
        if disk.f_files and not disk.f_favail:
            return True  # no more files, however many bytes there are
        if not disk.f_blocks or disk.f_bavail * disk.f_frsize >= _NOTHING_BYTES:
            return False  # a file system that counts no blocks cannot be asked
        # Blocks are kept back for root, and some file systems keep a few back from root as well: only a write shows it.
        return os.geteuid() != 0 or not _takes_more(folder)
    except OSError:
        return False


def _takes_more(folder: Path) -> bool:
    probe = folder / f".space-{os.getpid()}-{threading.get_ident()}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _NOTHING_BYTES)
        finally:
            os.close(descriptor)
            probe.unlink(missing_ok=True)
    except OSError as error:
        return not is_disk_full(error)
    return True


def until_it_works(write: Callable[[], T], what: str, *, give_up: Callable[[], bool] = lambda: False) -> T:
    """Do what needs the disk, again and again while that may pass, and say once on stderr what is waited for. Raises
    the error when it does not pass, or when ``give_up`` ends the waiting."""
    told = False
    while True:
        try:
            return write()
        except OSError as error:
            if not may_pass(error) or give_up():
                raise
            if not told:
                told = True
                with suppress(OSError):
                    print(f"mosaic: waiting to {what}: {error.strerror or error}", file=sys.stderr, flush=True)
        time.sleep(_RETRY_SECONDS)


def require_space(folder: Path) -> None:
    """Raises OSError when a folder takes no more than a few bytes. For libraries that leave half-made files behind when
    they find that out themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".space-{os.getpid()}"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)


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
    raw = getattr(below, "raw", below)  # with -u Python has no buffer
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
