"""Whether the daemon's own disk is full, which keeps every run from beginning."""

from __future__ import annotations

import time
from pathlib import Path

from mosaic_protocol.full_disk import is_full
from mosaic_protocol.states import RunState

_BELIEVED_SECONDS = 0.5


class DiskWatch:
    """Whether the disk of a data root is full. Cheap enough to be asked for every run of a listing."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._looked_at, self._full = float("-inf"), False

    def is_full(self) -> bool:
        if time.monotonic() - self._looked_at > _BELIEVED_SECONDS:
            self._full, self._looked_at = is_full(self._root), time.monotonic()
        return self._full

    def waits_for(self, state: RunState) -> str:
        """What a live run waits for, in a sentence; "" when it waits for nothing."""
        if not self.is_full():
            return ""
        if state in (RunState.HSHK, RunState.RDY):
            return f"waits for disk space to start: free some on the disk of {self._root}"
        return f"the disk is full, what the run has to write waits: free some space on the disk of {self._root}"
