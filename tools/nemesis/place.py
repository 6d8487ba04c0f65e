"""Where a campaign happens, and as whom.

The nemesis fills a disk only where it has one of its own, a tmpfs, and it locks folders, which means nothing to a root
that may override permissions. So the campaign runs without that power, and without root it gets its tmpfs in a user and
mount namespace of its own.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gym_gui.tests.faults.small_disk import SmallDisk

_MEGABYTES, _MEGABYTES_A_MINUTE = 96, 20
"""Room for what the runs leave behind, small enough to be filled in a moment."""
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_PR_CAPBSET_DROP = 24
_MARK = "MOSAIC_NEMESIS_WITHIN"


@dataclass(frozen=True)
class Place:
    """A data root that nobody else uses, and its disk where that may be filled."""

    home: Path
    disk: SmallDisk | None


def enter(where: str, arguments: Sequence[str]) -> None:
    """Become somebody to whom permissions apply and who may mount what ``where`` needs; begins the program again when
    that is not so yet."""
    command = [sys.executable, "-m", "tools.nemesis", *arguments]
    if where == "tmpfs" and os.geteuid() != 0 and _MARK not in os.environ:
        if shutil.which("unshare") is None:
            raise SystemExit("a tmpfs needs root, or `unshare` from util-linux: install it, or take --where disk")
        os.environ[_MARK] = "namespace"
        os.execvp("unshare", ["unshare", "-rm", *command])
    if _overrides_permissions():
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise SystemExit(f"cannot give up the power over permissions: {os.strerror(ctypes.get_errno())}")
        os.execv(sys.executable, command)


def _overrides_permissions() -> bool:
    status = Path("/proc/self/status").read_text()
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    assert effective is not None
    return bool(int(effective[1], 16) & (1 << _CAP_DAC_OVERRIDE | 1 << _CAP_DAC_READ_SEARCH))


@contextmanager
def place(where: str, minutes: float) -> Iterator[Place]:
    """Make the place, and remove it afterwards."""
    if where == "tmpfs":
        parent = Path(tempfile.gettempdir())
    else:
        parent = Path("/var/tmp") if where == "disk" else Path(where).absolute()
    # A short name: the path of a socket below it has little room.
    folder = Path(tempfile.mkdtemp(prefix="nms-", dir=parent))
    disk = SmallDisk(folder / "disk", round(_MEGABYTES + _MEGABYTES_A_MINUTE * minutes)) if where == "tmpfs" else None
    try:
        yield Place((disk.mount() if disk else folder) / "home", disk)
    finally:
        if disk is not None:
            disk.unmount()
        shutil.rmtree(folder, ignore_errors=True)
