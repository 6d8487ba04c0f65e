"""The config file that a worker is started with: its settings, or a whole run config that carries them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mosaic_protocol.full_disk import until_it_works
from mosaic_worker.errors import UsageError

_RUN_VARIABLE = "MOSAIC_RUN_ID"


def read_config_file(path: Path) -> dict[str, Any]:
    """The worker's part of it. Raises UsageError with one sentence.

    In a process that a daemon started the file is there: a folder that cannot be entered for a moment is waited for.
    """
    by_hand = _RUN_VARIABLE not in os.environ
    try:
        text = until_it_works(lambda: path.read_text(encoding="utf-8"), "read the config", give_up=lambda: by_hand)
        content = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a JSON config: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold a JSON object")
    return _worker_part(content)


def _worker_part(content: dict[str, Any]) -> dict[str, Any]:
    """A whole run config carries the worker's part in ``metadata.worker.config``."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return content
    worker = metadata.get("worker")
    part = worker.get("config") if isinstance(worker, dict) else None
    if not isinstance(part, dict):
        raise UsageError("metadata.worker.config is missing from the run config")
    return {**part, "artifacts": content.get("artifacts") or {}}
