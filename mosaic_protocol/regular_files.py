"""Reading files that a stranger may have put there: regular ones, of bounded size, and nothing else.

A run's directory belongs to its script, and a script can leave a named pipe, a link to ``/dev/zero`` or a terabyte of
holes under any name. Opening the first waits for ever, reading the others ends with the memory. What is refused here is
an OSError whose ``strerror`` completes "FILE cannot be read:", so that a reader has one kind of failure to handle.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_A_LINK = "it is a link, not a regular file"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class IrregularFileError(OSError):
    """What has the name is not a regular file, or it is too large: MOSAIC did not write it."""


def open_regular(file: Path, *, most: int | None = None, follow: bool = False) -> BinaryIO:
    """Open a regular file for reading, without waiting. Raises OSError, also for everything that is no regular file.

    ``most`` is how many bytes it may have. ``follow`` is for a file that a person named: it may be a link. Inside a
    run's directory a link is refused, because what it leads to is not part of the run.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    if follow:
        _require_regular(os.stat(file).st_mode, file)  # noqa: PTH116 - before a device hears that it was opened
    else:
        flags |= os.O_NOFOLLOW
    try:
        descriptor = os.open(file, flags)
    except OSError as error:
        raise _said_plainly(error, file) from None
    try:
        found = os.fstat(descriptor)
        _require_regular(found.st_mode, file)
        if most is not None and found.st_size > most:
            raise _too_large(most, file)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(file: Path, most: int, *, follow: bool = False) -> bytes:
    """The content of a regular file of at most so many bytes. Raises OSError for any other file."""
    with open_regular(file, most=most, follow=follow) as stream:
        content = stream.read(most + 1)
    if len(content) > most:  # it grew meanwhile
        raise _too_large(most, file)
    return content


def regular_size(file: Path) -> int:
    """How many bytes a regular file has. Raises OSError for everything else, a link included."""
    found = file.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise IrregularFileError(errno.ELOOP, _A_LINK, str(file))
    _require_regular(found.st_mode, file)
    return found.st_size


def _require_regular(mode: int, file: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise IrregularFileError(errno.EINVAL, f"it is {kind}, not a regular file", str(file))


def _said_plainly(error: OSError, file: Path) -> OSError:
    if error.errno == errno.ELOOP:
        return IrregularFileError(errno.ELOOP, _A_LINK, str(file))
    if error.errno == errno.ENXIO:
        return IrregularFileError(errno.ENXIO, "it is a socket, not a regular file", str(file))
    return error


def _too_large(most: int, file: Path) -> OSError:
    bound = f"{most // 2**20} MiB" if most >= 2**20 else f"{most} bytes"
    return IrregularFileError(errno.EFBIG, f"it is larger than {bound}", str(file))
