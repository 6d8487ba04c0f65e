"""Where the doors of other libraries hand on what a script says to them: rows of metrics, and episodes it played.

A door is a small package of MOSAIC's that stands on a script's path under the name of a library. It knows nothing of
runs; whoever runs the script listens here. When nobody does, nothing happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class RowListener(Protocol):
    """Called in the script's thread."""

    def row(self, values: Mapping[str, Any], step: int | None) -> None:
        """Values that belong together; they may be anything. A row is a place where the script may be held or ended."""

    def episode(self, total: float, length: int) -> None:
        """An episode came to its end: its return, and its steps."""


class _Nobody:
    def row(self, values: Mapping[str, Any], step: int | None) -> None:
        return

    def episode(self, total: float, length: int) -> None:
        return


listener: RowListener = _Nobody()


def listen(who: RowListener) -> None:
    """From now on `who` hears every row and episode of this process."""
    global listener  # noqa: PLW0603 - a process runs one script, and doors find the listener by this name
    listener = who
