"""Records what of the user's code is not committed: another process does it beside the run, and nobody waits."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mosaic_protocol import code_changes
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.regular_files import read_regular

_LAST_SECONDS = 0.5
"""A run that ends sooner than git answers waits so long for it."""
_MOST_RECORD_BYTES = 64 * 1024


class CodeRecorder:
    """Belongs to one thread at a time. Nothing that goes wrong here reaches the run.

    `facts`: what the worker knows of the run; ``code.path`` is the code that runs, ``script`` a file of the user's own.
    """

    def __init__(self, run: RunPaths, facts: Mapping[str, Any]) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None
        code = facts.get("code")
        path = code.get("path") if isinstance(code, Mapping) else None
        if not isinstance(path, str):
            return
        own = [str(facts["script"])] if isinstance(facts.get("script"), str) else []
        words = [str(Path(path).parent), str(run.code.absolute()), *own]
        with suppress(OSError):  # also where the run's folder may not be looked at for a moment
            if not run.directory.is_dir():
                return
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", code_changes.__file__, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def found(self, *, last: bool = False) -> dict[str, Any]:
        """``{"code_changes": …}`` once it is recorded, else {}. ``last``: nobody asks again."""
        if self._process is None:
            return {}
        until = time.monotonic() + (_LAST_SECONDS if last else 0.0)
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            if last:
                self._process.kill()
                self._process.wait()
                self._process = None
            return {}
        self._process = None
        try:
            record = json.loads(read_regular(self._run.code / code_changes.RECORD, _MOST_RECORD_BYTES))
        except (OSError, ValueError):
            return {}
        return {"code_changes": record} if isinstance(record, dict) else {}
