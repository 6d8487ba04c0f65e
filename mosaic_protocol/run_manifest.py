"""``analytics.json``: what a run has produced and where, refreshed while it runs and complete when it is over.

The worker refreshes it; when a run ends the daemon does so once more, so that a run whose worker was killed has one
too. Paths are relative to the run directory.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mosaic_protocol.paths import RunPaths

SCHEMA = 1


def read_manifest(run: RunPaths) -> dict[str, Any]:
    """The manifest as it is on disk, {} when there is none or it cannot be read."""
    try:
        content = json.loads(run.manifest.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def refresh_manifest(run: RunPaths, **facts: Any) -> dict[str, Any]:
    """Look at the run directory, add facts only the caller knows, keep facts told earlier, write in one step."""
    manifest = {**read_manifest(run), **_found_on_disk(run), **facts}
    manifest["schema"] = SCHEMA
    manifest["updated"] = datetime.now(UTC).isoformat(timespec="seconds")
    draft = run.manifest.with_name(f".analytics-{os.getpid()}.draft")
    try:
        draft.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        draft.replace(run.manifest)
    finally:
        draft.unlink(missing_ok=True)
    return manifest


def _found_on_disk(run: RunPaths) -> dict[str, Any]:
    here = run.directory
    return {
        "run_id": here.name,
        "tensorboard_dir": "tensorboard" if any(run.tensorboard.glob("events.out.tfevents.*")) else None,
        "wandb_run_id": _wandb_run_id(here),
        "optuna_db_path": "optuna.db" if (here / "optuna.db").is_file() else None,
        "checkpoints": sorted(
            f"checkpoints/{entry.name}" for entry in run.checkpoints.glob("step-*") if entry.is_dir()
        ),
        "videos": sorted(f"videos/{entry.name}" for entry in (here / "videos").glob("*.mp4")),
    }


def _wandb_run_id(directory: Path) -> str | None:
    found = sorted(entry.name for entry in (directory / "wandb").glob("*run-*-*") if entry.is_dir())
    return found[-1].rpartition("-")[2] if found else None
