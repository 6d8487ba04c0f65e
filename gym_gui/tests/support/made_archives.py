"""Archives of runs as a stranger may write them: sound ones, and whatever is asked for instead."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gym_gui.services.archive import compression
from mosaic_protocol import run_archive

RUN_ID = "01K9ZQ3V7X0000000000AAAAAA"
FILES = {
    f"{RUN_ID}/{name}": content
    for name, content in {
        "run.json": b"{}",
        "history.json": b"[]",
        "telemetry.rows": b"",
        "steps.rows": b"",
        "config.json": b"{}",
        "files/checkpoints/a.bin": b"tensors" * 1000,
        "logs/stdout.log": b"hello\n",
    }.items()
}


def manifest_of(files: Mapping[str, bytes], **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "format": run_archive.FORMAT,
        "mosaic": "0",
        "created_at": 1.0,
        "runs": [{"run_id": RUN_ID, "name": "stranger"}],
        "files": [
            {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in files.items()
        ],
    }
    return json.dumps(fields | changes).encode()


def member(path: str, kind: bytes = tarfile.REGTYPE, size: int = 0, **fields: Any) -> tarfile.TarInfo:
    """The header of a member, of any kind that tar knows."""
    info = tarfile.TarInfo(path)
    info.type, info.size = kind, size
    for name, value in fields.items():
        setattr(info, name, value)
    return info


def made_archive(
    place: Path,
    files: Mapping[str, bytes] = FILES,
    *,
    manifest: bytes | None = None,
    more: Sequence[tuple[tarfile.TarInfo, bytes]] = (),
    changed: Callable[[bytes], bytes] = bytes,
) -> Path:
    """Write an archive of these files; ``more`` members follow them, and ``changed`` is what becomes of the tar."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        described = manifest_of(files) if manifest is None else manifest
        for path, data in {run_archive.MANIFEST: described, **files}.items():
            tar.addfile(member(path, size=len(data)), io.BytesIO(data))
        for info, data in more:
            tar.addfile(info, io.BytesIO(data))
    with place.open("wb") as file:
        packer = compression.packing(file, compression.suffix_of(place.name))
        packer.write(changed(content.getvalue()))
        packer.close()
    return place
