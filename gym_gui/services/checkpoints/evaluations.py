"""What was measured with a checkpoint, kept beside the checkpoints and never among them: those are sealed."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gym_gui.services.checkpoints.entry import CheckpointEntry
from mosaic_protocol.paths import RunPaths


def directory_for(entry: CheckpointEntry) -> Path:
    parent = entry.path.parent
    return RunPaths(parent.parent if parent.name == "checkpoints" else parent).evaluations


def new_name(entry: CheckpointEntry, suffix: str) -> Path:
    """A name beside other results that nobody has yet; they sort by time."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return directory_for(entry) / f"{entry.path.name}--{stamp}-{uuid.uuid4().hex[:6]}{suffix}"


def described(entry: CheckpointEntry, result: dict[str, Any]) -> dict[str, Any]:
    """A worker's result with what it is about."""
    about = {"checkpoint": entry.id, "path": str(entry.path), "trained_on": entry.env_id}
    return {**about, **{name: value for name, value in result.items() if name != "at"}}


def keep(entry: CheckpointEntry, result: dict[str, Any]) -> Path:
    """Write a result, whole or not at all; its file. Raises OSError."""
    file = new_name(entry, ".json")
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    try:
        draft.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def kept(entry: CheckpointEntry) -> list[dict[str, Any]]:
    """The results for exactly these parameters, the oldest first; what cannot be read is left out."""
    found = []
    for file in sorted(directory_for(entry).glob(f"{entry.path.name}--*.json")):
        try:
            result = json.loads(file.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(result, dict) and result.get("sha256") == entry.sha256:
            found.append({**result, "file": str(file)})
    return found
