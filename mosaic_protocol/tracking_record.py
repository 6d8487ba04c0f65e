"""``wandb/tracking.json`` of a run: what its tracking process leaves for others, and what it costs the machine.

Written by the tracking process, read by the command line and the cockpit. It lies in a folder that a script can write
to, so a reader believes nothing of it: fields of another type are as good as missing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.whole_files import write_whole

FOLDER, FILE = "wandb", "tracking.json"
RECORDING, FINISHED = "recording", "finished"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class TrackingRecord:
    """How a run is tracked. ``files`` is the folder beside this file that W&B records it in."""

    mode: str = ""
    """``online`` or ``offline``."""
    run_id: str = ""
    project: str = ""
    entity: str | None = None
    name: str = ""
    url: str | None = None
    """Its page, online only."""
    files: str = ""
    because: str = ""
    """Why it is offline although a key or an online run was wanted."""
    state: str = RECORDING
    """``finished`` once W&B has everything: offline in its file, online on its server."""
    rows: int = 0
    dropped_rows: int = 0
    """How many rows were left out because W&B did not keep up."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """CPU time that W&B took in these seconds, its helper process included."""


def write_record(run_dir: Path, record: TrackingRecord) -> None:
    write_whole(run_dir / FOLDER / FILE, json.dumps(asdict(record), indent=2) + "\n")


def read_record(run_dir: Path) -> TrackingRecord | None:
    """None when there is none, or none that can be read."""
    try:
        content = json.loads(read_regular(run_dir / FOLDER / FILE, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    return TrackingRecord(**{one.name: content[one.name] for one in fields(TrackingRecord) if _fits(one, content)})


def _fits(field: Any, content: dict[str, Any]) -> bool:
    value = content.get(field.name)
    kinds = {"str": str, "str | None": str | None, "int": int, "float": int | float}[str(field.type)]
    return field.name in content and isinstance(value, kinds) and not isinstance(value, bool)
