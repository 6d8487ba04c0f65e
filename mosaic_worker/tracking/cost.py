"""What tracking costs the machine: CPU time of this process and of the helper that wandb starts."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Meter:
    """Counts from the moment it is made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 1)

    @property
    def cpu_seconds(self) -> float:
        return round(time.process_time() + sum(map(_cpu_seconds, _children())), 1)


def _children() -> list[int]:
    """A child belongs to the thread that started it."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        try:
            found += map(int, (thread / "children").read_text().split())
        except OSError:  # it ended meanwhile
            continue
    return found


def _cpu_seconds(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
