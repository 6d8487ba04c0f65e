"""``analytics.json``: what a run has produced and where, refreshed while it runs and complete when it is over.

The worker refreshes it; when a run ends the daemon does so once more, so that a run whose worker was killed has one
too. Paths are relative to the run directory.
"""

from __future__ import annotations

import json
import os
import stat
from collections import deque
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from mosaic_protocol.paths import RunPaths
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.whole_files import write_whole

SCHEMA = 1
_MOST_BYTES = 16 * 2**20
_MOST_ENTRIES = 10_000


def read_manifest(run: RunPaths) -> dict[str, Any]:
    """The manifest as it is on disk, {} when there is none or it cannot be read."""
    try:
        content = json.loads(read_regular(run.manifest, _MOST_BYTES))
        json.dumps(content)  # what nests deeper than it can be written again is not kept
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def refresh_manifest(run: RunPaths, **facts: Any) -> dict[str, Any]:
    """Look at the run directory, add facts only the caller knows, keep earlier facts, write in one step."""
    manifest = {**read_manifest(run), **_found_on_disk(run), **facts}
    manifest["schema"] = SCHEMA
    manifest["updated"] = datetime.now(UTC).isoformat(timespec="seconds")
    write_whole(run.manifest, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return manifest


def _found_on_disk(run: RunPaths) -> dict[str, Any]:
    here = run.directory
    checkpoints = (entry for entry in _listed(run.checkpoints) if entry.name.startswith("step-"))
    videos = (entry for entry in _listed(run.videos) if entry.name.endswith(".mp4"))
    return {
        "run_id": here.name,
        "tensorboard_dir": "tensorboard" if has_event_file(run.tensorboard) else None,
        "wandb_run_id": _wandb_run_id(here),
        "optuna_db_path": "optuna.db" if (here / "optuna.db").is_file() else None,
        "checkpoints": sorted(f"checkpoints/{entry.name}" for entry in checkpoints if _is_folder(entry)),
        "videos": sorted(f"videos/{entry.name}" for entry in videos),
    }


def has_event_file(folder: Path) -> bool:
    """Looks at :data:`_MOST_ENTRIES` in all: this is asked again and again while the run goes on."""
    waiting, looked = deque([folder]), 0
    while waiting and looked < _MOST_ENTRIES:
        for entry in _listed(waiting.popleft(), _MOST_ENTRIES - looked):
            looked += 1
            if entry.name.startswith("events.out.tfevents."):
                return True
            if _is_folder(entry):
                waiting.append(Path(entry.path))
    return False


def _wandb_run_id(directory: Path) -> str | None:
    found = sorted(entry.name for entry in _listed(directory / "wandb") if _of_wandb(entry.name) and _is_folder(entry))
    return found[-1].rpartition("-")[2] if found else None


def _of_wandb(name: str) -> bool:
    return fnmatchcase(name, "*run-*-*")


def _listed(folder: Path, most: int | None = None) -> list[os.DirEntry[str]]:
    """What is in a folder of the run, not more than that many; nothing when it is no folder. A script may have put
    anything in its place: links are not followed, they may lead all over the disk."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return []
        with os.scandir(folder) as entries:
            return list(islice(entries, _MOST_ENTRIES if most is None else most))
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
