"""The bytes of the script that a run executes: those that somebody allowed, and no others.

The daemon looks at a foreign script right before it starts the worker. What is executed is read some seconds later, in
another process; the hash travels along, so that a file that was exchanged in between is not run.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mosaic_worker.errors import UsageError

SCRIPT_HASH_VARIABLE = "MOSAIC_SCRIPT_SHA256"


def script_bytes(path: Path) -> bytes:
    """Raises OSError, and UsageError for a script that is not the one that was looked at."""
    content = path.read_bytes()
    expected = os.environ.get(SCRIPT_HASH_VARIABLE)
    if expected and hashlib.sha256(content).hexdigest() != expected:
        raise UsageError(f"{path} was exchanged while the run started: it is not the script that was allowed")
    return content
