"""How much memory there is, asked before a run that would not fit begins."""

from __future__ import annotations

import math
from pathlib import Path


def free_memory() -> float:
    """Bytes that this machine can still give; infinite where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return math.inf
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024
