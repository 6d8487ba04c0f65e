"""A note that a daemon leaves when it is stopped on purpose, so that a cockpit does not take it for a crash.

A cockpit starts a daemon that died again; one that a person stopped stays stopped until a person starts it. The note is
a hint and never in the way: one that cannot be written counts as none.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime

from mosaic_protocol.paths import MosaicPaths


def leave_stop_note(paths: MosaicPaths) -> None:
    """Called by the daemon when it begins to leave, before its clients lose it."""
    note = {"pid": os.getpid(), "at": datetime.now(UTC).isoformat(timespec="seconds")}
    with suppress(OSError):
        paths.stopped_file.write_text(json.dumps(note))


def take_stop_note_away(paths: MosaicPaths) -> None:
    """Called by a daemon that has come up."""
    with suppress(OSError):
        paths.stopped_file.unlink(missing_ok=True)


def was_stopped(paths: MosaicPaths) -> bool:
    """Whether the last daemon of this data root was stopped on purpose, and none has come up since."""
    return paths.stopped_file.is_file()
