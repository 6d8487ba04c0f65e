"""Which sets of extras an environment was given: a small file beside its packages."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mosaic_protocol.whole_files import write_whole

RECORD_NAME = "mosaic-extras.json"


def applied_sets(prefix: str | os.PathLike[str]) -> dict[str, Any]:
    """The sets that were applied to an environment, by name; {} when none was or the record cannot be read."""
    try:
        content = json.loads((Path(prefix) / RECORD_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    sets = content.get("sets") if isinstance(content, dict) else None
    return sets if isinstance(sets, dict) else {}


def record_sets(prefix: Path, applied: Mapping[str, Sequence[str]], installed: Mapping[str, str]) -> None:
    """Add sets (name → the packages they consist of) to the record of an environment, in one step. Raises OSError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    sets = applied_sets(prefix)
    for name, packages in applied.items():
        sets[name] = {"applied": now, "installed": {one: installed[one] for one in packages if one in installed}}
    write_whole(prefix / RECORD_NAME, json.dumps({"schema": 1, "sets": sets}, indent=2, sort_keys=True) + "\n")
