"""A table of numbers that is larger than the memory allows: in a file without a name, which is gone with its process,
however that ends."""

from __future__ import annotations

import mmap
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.errors import UsageError

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def fits_into_memory(wanted: int, free: int | None = None) -> bool:
    """Whether a table of so many bytes may be in memory: it leaves others at least as much as it takes."""
    return wanted <= (free_bytes() if free is None else free) // 2


def table_in_file(rows: int, width: int, folder: Path) -> NDArray[np.float32]:
    """Rows of 32-bit numbers, whose pages the system keeps in memory as long as nobody else needs it. Raises UsageError
    where the disk has no room for them."""
    size = max(1, rows * width) * 4
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # All of it now: a file with holes would end the process in the middle of its work, on a disk that is full.
            os.posix_fallocate(file.fileno(), 0, size)
            pages = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise UsageError(
            f"the rows to learn from take {size / 1e9:,.1f} GB, more than half of the memory that is free, and "
            f"{folder} has no room for a file of them: {error.strerror}"
        ) from error
    pages.madvise(mmap.MADV_RANDOM)  # rows are drawn from anywhere; their neighbours are not wanted
    return np.frombuffer(pages, np.float32, rows * width).reshape(rows, width)


def free_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """What this process could still take: of the machine, of its control group, and below its own limits."""
    found = [*_machine(proc), *_group(proc, groups), *_own(proc)]
    return max(0, min(found)) if found else 2**63


def _machine(proc: Path) -> Iterator[int]:
    told = _table(proc / "meminfo")
    if "MemAvailable:" in told:
        yield told["MemAvailable:"] * 1024


def _group(proc: Path, groups: Path) -> Iterator[int]:
    """Of a group what is not anonymous memory can be given back. A limit above it counts as well."""
    lines = _text(proc / "self" / "cgroup").splitlines()
    inside = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    for folder in (groups / inside, *(groups / inside).parents):
        limit = _text(folder / "memory.max").strip()
        if limit.isdecimal():
            yield int(limit) - _table(folder / "memory.stat").get("anon", 0)
        if folder == groups:
            return


def _own(proc: Path) -> Iterator[int]:
    told = _table(proc / "self" / "status")
    for kind, used in ((resource.RLIMIT_DATA, "VmData:"), (resource.RLIMIT_AS, "VmSize:")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - told.get(used, 0) * 1024


def _table(file: Path) -> dict[str, int]:
    """The numbers of a file with a name and a number in each line."""
    words = (line.split() for line in _text(file).splitlines())
    return {one[0]: int(one[1]) for one in words if len(one) > 1 and one[1].isdecimal()}


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
