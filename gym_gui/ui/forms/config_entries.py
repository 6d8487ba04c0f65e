"""From a run config back to what would have been typed in the fields that every run has. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym_gui.ui.forms.field_spec import Entry
from gym_gui.ui.forms.settings_of import mapping
from mosaic_protocol.run_config import CheckpointArtifacts


def remarks_in(config: Mapping[str, Any]) -> dict[str, str]:
    """What a run config says in the fields for remarks."""
    metadata = mapping(config.get("metadata"))
    worker = mapping(metadata.get("worker"))
    return {
        "tags": ", ".join(metadata.get("tags") or ()),
        "group": str(metadata.get("group") or ""),
        "notes": str(metadata.get("notes") or ""),
        "agent_id": str(worker.get("agent_id") or ""),
        "worker_id": str(worker.get("worker_id") or ""),
    }


def hardware_in(config: Mapping[str, Any]) -> dict[str, Entry]:
    """What a run config says in the fields for resources and limits."""
    resources = mapping(config.get("resources"))
    asked = {name: mapping(resources.get(name)).get("requested") for name in ("cpus", "gpus", "memory_mb")}
    limit = mapping(config.get("schedule")).get("max_wallclock_minutes")
    return {
        "cuda": bool(asked["gpus"]),
        "host": str(resources.get("host") or ""),
        "cpus": typed(asked["cpus"] or 1),
        "memory_mb": typed(asked["memory_mb"] or None),
        "max_wallclock_minutes": typed(limit),
    }


def checkpoints_in(config: Mapping[str, Any]) -> dict[str, Entry]:
    """What a run config says in the fields for checkpoints. A stored config names the default too: nobody typed it."""
    said = mapping(mapping(config.get("artifacts")).get("checkpoints"))
    kept = said.get("keep_last")
    entries: dict[str, Entry] = {"checkpoints": said.get("enabled") is not False}
    if said.get("every_steps") is not None:
        entries["checkpoint_every"] = typed(said["every_steps"])
    if kept is not None and kept != CheckpointArtifacts().keep_last:
        entries["checkpoint_keep"] = typed(kept)
    return entries


def typed(value: Any) -> Entry:
    """A value as it is typed."""
    if isinstance(value, bool):
        return value
    return "" if value is None else str(value)
