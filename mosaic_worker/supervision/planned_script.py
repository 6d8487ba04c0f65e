"""A script that is ready to be started: what a supervisor has to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mosaic_worker.harness.run import HarnessOrder


@dataclass(frozen=True)
class PlannedScript:
    """The script that runs, with its whole command line. A worker's own plan may know more and extends this one."""

    name: str
    path: Path
    arguments: tuple[str, ...] = ()
    order: HarnessOrder | None = None
    """How the harness runs it; None for scripts that speak to their supervisor themselves."""
    python: Path | None = None
    """The interpreter of its managed environment; None for the worker's own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its process finds in its environment besides."""
