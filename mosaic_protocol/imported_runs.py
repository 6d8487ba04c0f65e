"""Runs that happened elsewhere and whose numbers were brought here: what marks them, on every side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

IMPORTED = "imported"
"""The worker type of such a run. No worker has it, so nothing can start, pause or resume one."""
SOURCE = "imported_from"
"""Among its ``extras``: the folder that its event files are in."""
STREAM_PREFIX = "file:"
"""Before the name of an event file, it is the stream of the numbers in it: each file has a cursor of its own."""


def source_of(settings: Mapping[str, Any]) -> str:
    """Where an imported run came from, by its worker's settings; "" where they do not say."""
    extras = settings.get("extras")
    source = extras.get(SOURCE) if isinstance(extras, Mapping) else None
    return source if isinstance(source, str) else ""
