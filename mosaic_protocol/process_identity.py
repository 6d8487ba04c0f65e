"""Which process exactly: a pid alone is reused, a pid with its start time on one boot is not. Linux only, by /proc."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_MOST_PIDS = 2**22
_LONGEST_BOOT = 100


@lru_cache(maxsize=1)
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat_fields(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` after the command name (state first), or None when there is no such
    process. Raises OSError when no descriptor is free to look: a process that cannot be looked at may be alive."""
    try:
        content = Path(f"/proc/{pid}/stat").read_bytes()  # the name of a process need not be UTF-8
    except (FileNotFoundError, ProcessLookupError):
        return None
    return content.rpartition(b")")[2].decode().split()


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of this machine, distinguished from any later process with the same pid.

    ``start_ticks`` counts from boot, so setting the clock does not change it.
    """

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a living process, None when it is gone or a zombie."""
        fields = stat_fields(pid)
        if fields is None or fields[0] in "ZX":
            return None
        return cls(pid, int(fields[19]), boot_id())

    @classmethod
    def parsed(cls, text: str | bytes) -> ProcessIdentity | None:
        """What somebody wrote down of a process; None for anything else. Files of a run are not believed blindly."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(told, dict) or told.keys() != {"pid", "start_ticks", "boot"}:
            return None
        pid, ticks, boot = told["pid"], told["start_ticks"], told["boot"]
        numbers = type(pid) is int and type(ticks) is int and 0 < pid <= _MOST_PIDS and 0 <= ticks < 2**63
        return cls(pid, ticks, boot) if numbers and isinstance(boot, str) and len(boot) <= _LONGEST_BOOT else None

    @classmethod
    def current(cls) -> ProcessIdentity:
        identity = cls.of(os.getpid())
        assert identity is not None, "a running process finds itself in /proc"
        return identity

    def is_alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self
