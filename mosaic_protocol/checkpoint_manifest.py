"""What a checkpoint says about itself, readable without torch.

A checkpoint is a directory ``step-000000050000`` with two files: ``model.safetensors`` holds every tensor under a flat
name, ``checkpoint.json`` describes them and carries what is not a tensor. The description ends with a hash of itself
and holds one of the tensors, so that a change to either file is noticed by whoever reads it: the worker that resumes,
the command that lists, the cockpit that shows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
TENSOR_FILE = "model.safetensors"
MANIFEST_FILE = "checkpoint.json"

EPISODES_TO_BE_BEST = 20
"""A mean over fewer episodes is luck."""

_NAME = re.compile(r"step-(\d{12,})")


class CheckpointError(Exception):
    """A checkpoint cannot be written or trusted; the message is one sentence that names the file."""


@dataclass(frozen=True)
class CheckpointManifest:
    """What ``checkpoint.json`` holds, apart from the hash over all of it."""

    algo: str
    env_id: str
    step: int
    created: str
    args: dict[str, Any]
    state: dict[str, Any]
    """Everything that is no tensor and that a resumed run needs."""
    spaces: dict[str, Any]
    """``observation`` and ``action`` as the algorithm saw them."""
    versions: dict[str, str]
    tensor_sha256: str
    tensor_bytes: int
    schema: int = SCHEMA_VERSION
    metrics: dict[str, Any] = field(default_factory=dict)
    """How well the run did when this was written: ``episodes``, ``mean_return`` (of the last 100), ``curve``, …"""
    lineage: dict[str, Any] = field(default_factory=dict)
    """Where it comes from: ``kind`` (resume, warm_start, import), ``checkpoint``, ``sha256``; {} for a fresh start."""

    def sealed(self) -> str:
        """The manifest as the text of its file, with a hash over all fields."""
        document = {one.name: getattr(self, one.name) for one in fields(self)}
        # Through JSON and back first: a tuple or an integer key must hash as what will be read.
        document = json.loads(json.dumps(document, allow_nan=False))
        return json.dumps(document | {"sha256": _document_hash(document)}, indent=2) + "\n"


def read_manifest(path: Path) -> CheckpointManifest:
    """Read and check a checkpoint's description alone, without its tensors. Raises CheckpointError."""
    file = path / MANIFEST_FILE
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is damaged: it is not valid JSON.") from error
    if not isinstance(document, dict) or document.pop("sha256", None) != _document_hash(document):
        raise CheckpointError(f"{file} was changed since it was written: its hash does not match.")
    if document.get("schema") != SCHEMA_VERSION:
        found = document.get("schema")
        raise CheckpointError(f"{file} has format {found}, this version of MOSAIC reads {SCHEMA_VERSION}.")
    try:
        return CheckpointManifest(**document)
    except TypeError as error:
        raise CheckpointError(f"{file} is damaged: its fields are not those of a checkpoint.") from error


def verify(path: Path) -> CheckpointManifest:
    """Read the description and check every byte of the tensors against it. Raises CheckpointError."""
    manifest = read_manifest(path)
    file = path / TENSOR_FILE
    try:
        size = file.stat().st_size
        if size != manifest.tensor_bytes:
            raise CheckpointError(f"{file} has {size} bytes, {manifest.tensor_bytes} were written.")
        if file_hash(file) != manifest.tensor_sha256:
            raise CheckpointError(f"{file} was changed since it was written: its hash does not match.")
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}.") from error
    return manifest


def score_of(metrics: Mapping[str, Any]) -> float | None:
    """What the best checkpoint of a run has most of: the mean return; None when too few episodes were played."""
    mean = metrics.get("mean_return")
    return float(mean) if mean is not None and metrics.get("episodes", 0) >= EPISODES_TO_BE_BEST else None


def checkpoint_name(step: int) -> str:
    return f"step-{step:012d}"


def step_of(path: Path) -> int | None:
    """The step in a checkpoint's name; None when it is not one."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def list_checkpoints(directory: Path) -> list[Path]:
    """The finished checkpoints of a directory by rising step, contents unchecked; [] when there are none."""
    try:
        entries = list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    steps = {path: step for path in entries if (step := step_of(path)) is not None and path.is_dir()}
    return sorted(steps, key=lambda path: steps[path])


def file_hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _document_hash(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
