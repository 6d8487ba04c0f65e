"""What was measured with a checkpoint, kept beside the checkpoints and never among them: those are sealed."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gym_gui.services.checkpoints.entry import CheckpointEntry
from mosaic_protocol.checkpoint_manifest import number_in
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.whole_files import write_whole

_MOST_BYTES = 64 * 2**20
_NUMBERS = ("episodes", "mean", "std", "median", "iqm", "min", "max", "mean_length")


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
    write_whole(file, json.dumps(result, indent=1) + "\n")
    return file


def kept(entry: CheckpointEntry) -> list[dict[str, Any]]:
    """The results for exactly these parameters, the oldest first; what cannot be read is left out."""
    found = []
    for file in sorted(directory_for(entry).glob(f"{entry.path.name}--*.json")):
        try:
            result = json.loads(read_regular(file, _MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            continue
        if _is_result(result) and result.get("sha256") == entry.sha256:
            found.append({**result, "file": str(file)})
    return found


def _is_result(result: Any) -> bool:
    """Whether a file holds what :func:`keep` writes: its readers expect numbers and print JSON."""
    try:
        json.dumps(result, allow_nan=False)
        return all(_is_measured(one) for one in result.get("results", {}).values())
    except (TypeError, ValueError, AttributeError):
        return False


def _is_measured(one: Any) -> bool:
    numbers = [name for name in _NUMBERS if one.get(name) is not None]
    returns = one.get("returns", [])
    return (
        isinstance(one.get("episodes", 0), int)
        and all(number_in(one, name) is not None for name in numbers)
        and isinstance(returns, list)
        and all(value is None or isinstance(value, int | float) for value in returns)
    )
