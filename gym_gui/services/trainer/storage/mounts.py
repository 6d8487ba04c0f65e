"""Where other file systems begin inside a folder, bind mounts included.

The device number of a bind mount of the same disk is that of the folder around it, so it does not tell; the kernel's
list of mounts does.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_POINT = 4
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounts_within(folder: Path) -> list[Path]:
    """The mount points at or below a folder, as this process sees them. Raises OSError when they cannot be read."""
    around = os.path.join(os.path.realpath(folder.parent), folder.name)  # noqa: PTH118 - a link itself holds no mount
    points = (_point(line) for line in _MOUNTS.read_bytes().splitlines())
    return [Path(point) for point in points if point == around or point.startswith(around + os.sep)]


def _point(line: bytes) -> str:
    """The mount point in a line of the kernel's list, which writes blanks as \\040."""
    return os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[_POINT]))
