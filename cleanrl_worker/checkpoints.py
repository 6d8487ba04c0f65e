"""Checkpoints that are whole or absent.

A checkpoint is a directory ``step-000000050000`` with two files: ``model.safetensors`` holds every tensor
under a flat name, ``checkpoint.json`` describes them and carries what is not a tensor. Optimizer moments,
random states or a replay buffer are further names in the same flat mapping, so they need no new format.

It is built under a temporary name beside its final one, synced to the disk, then renamed: a crash at any
instant leaves either the whole checkpoint or a temporary directory that listings do not show and the next
save removes. One process writes a directory of checkpoints; any number may read. Nothing here is ever
unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Integral
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

SCHEMA_VERSION = 1
TENSOR_FILE = "model.safetensors"
MANIFEST_FILE = "checkpoint.json"

_NAME = re.compile(r"step-(\d{12,})")
_TEMPORARY_MARK = ".unfinished-"


class CheckpointError(Exception):
    """A checkpoint cannot be written or trusted; the message is one sentence that names the file."""


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says about itself."""

    algo: str
    env_id: str
    step: int
    created: str
    args: dict[str, Any]
    state: dict[str, Any]
    spaces: dict[str, Any]
    versions: dict[str, str]
    tensor_sha256: str
    tensor_bytes: int
    schema: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint in memory, its tensors on the CPU."""

    path: Path
    manifest: Manifest
    tensors: dict[str, torch.Tensor]


def save(
    directory: Path,
    *,
    algo: str,
    env_id: str,
    step: int,
    tensors: Mapping[str, torch.Tensor],
    state: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    spaces: Mapping[str, Any] | None = None,
) -> Path:
    """Write one checkpoint and return its path; it replaces an earlier one of the same step.

    `state`, `args` and `spaces` must be plain JSON values without NaN. Raises CheckpointError when they are
    not, or when the disk refuses; nothing is left behind in either case.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _sweep(directory)
    final = directory / f"step-{step:012d}"
    building = _temporary_name(final)
    building.mkdir()
    try:
        tensor_file = building / TENSOR_FILE
        safetensors.torch.save_file(_owned(tensors), tensor_file)
        manifest = Manifest(
            algo=algo,
            env_id=env_id,
            step=step,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            args=dict(args or {}),
            state=dict(state or {}),
            spaces=dict(spaces or {}),
            versions=_versions(),
            tensor_sha256=_hash_of(tensor_file),
            tensor_bytes=tensor_file.stat().st_size,
        )
        (building / MANIFEST_FILE).write_text(_sealed(manifest), encoding="utf-8")
        _publish(building, final)
    except (OSError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"Could not write the checkpoint {final}: {error}.") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return final


def load(path: Path) -> Checkpoint:
    """Read a checkpoint after checking every byte. Raises CheckpointError when it is not as it was written."""
    manifest = read_manifest(path)
    tensor_file = path / TENSOR_FILE
    try:
        size = tensor_file.stat().st_size
        if size != manifest.tensor_bytes:
            raise CheckpointError(f"{tensor_file} has {size} bytes, {manifest.tensor_bytes} were written.")
        if _hash_of(tensor_file) != manifest.tensor_sha256:
            raise CheckpointError(f"{tensor_file} was changed since it was written: its hash does not match.")
        return Checkpoint(path, manifest, safetensors.torch.load_file(tensor_file))
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{tensor_file} cannot be read: {error}.") from error


def read_manifest(path: Path) -> Manifest:
    """Read and check a checkpoint's description alone, without its tensors. Raises CheckpointError."""
    file = path / MANIFEST_FILE
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise CheckpointError(f"{file} is damaged: it is not valid JSON.") from error
    if not isinstance(document, dict) or document.pop("sha256", None) != _document_hash(document):
        raise CheckpointError(f"{file} was changed since it was written: its hash does not match.")
    if document.get("schema") != SCHEMA_VERSION:
        found = document.get("schema")
        raise CheckpointError(f"{file} has format {found}, this version of MOSAIC reads {SCHEMA_VERSION}.")
    try:
        return Manifest(**document)
    except TypeError as error:
        raise CheckpointError(f"{file} is damaged: its fields are not those of a checkpoint.") from error


def list_checkpoints(directory: Path) -> list[Path]:
    """The finished checkpoints of a directory by rising step, contents unchecked; [] when there are none."""
    try:
        entries = list(directory.iterdir())
    except FileNotFoundError:
        return []
    return sorted((path for path in entries if _NAME.fullmatch(path.name) and path.is_dir()), key=_step_of)


def prune(directory: Path, keep_last: int) -> list[Path]:
    """Delete all but the `keep_last` highest steps; return what was deleted."""
    if keep_last < 1:
        raise ValueError(f"keep_last must be at least 1, got {keep_last}")
    doomed = list_checkpoints(directory)[:-keep_last]
    for path in doomed:
        shutil.rmtree(_set_aside(path))
    return doomed


def describe_space(space: Any) -> dict[str, Any]:
    """A gymnasium space in JSON, enough to tell whether a checkpoint fits an environment."""
    described: dict[str, Any] = {"type": type(space).__name__, "text": str(space)}
    if space.shape is not None:
        described["shape"] = [int(extent) for extent in space.shape]
    if space.dtype is not None:
        described["dtype"] = str(space.dtype)
    for key in ("n", "start"):
        if isinstance(count := getattr(space, key, None), Integral):
            described[key] = int(count)
    return described


def _owned(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU tensors that share no memory, which is what the file format asks for."""
    seen: set[int] = set()
    owned = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        storage = plain.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != plain.nbytes:
            plain = plain.clone()
        seen.add(plain.untyped_storage().data_ptr())
        owned[name] = plain
    return owned


def _sealed(manifest: Manifest) -> str:
    """The manifest as JSON, with a hash of itself so that a change to any field is noticed."""
    document = {field: getattr(manifest, field) for field in manifest.__dataclass_fields__}
    # Through JSON and back first: a tuple or an integer key must hash as what will be read.
    document = json.loads(json.dumps(document, allow_nan=False))
    return json.dumps(document | {"sha256": _document_hash(document)}, indent=2) + "\n"


def _document_hash(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _hash_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def _versions() -> dict[str, str]:
    return {package: metadata.version(package) for package in ("torch", "gymnasium", "safetensors")}


def _publish(building: Path, final: Path) -> None:
    for entry in (*building.iterdir(), building):
        _sync(entry)
    earlier = _set_aside(final) if final.exists() else None
    building.rename(final)
    _sync(final.parent)
    if earlier is not None:
        shutil.rmtree(earlier)


def _temporary_name(final: Path) -> Path:
    return final.with_name(f".{final.name}{_TEMPORARY_MARK}{uuid.uuid4().hex}")


def _set_aside(path: Path) -> Path:
    """Take a checkpoint's name away before it is deleted, so that half of one is never seen under it."""
    aside = _temporary_name(path)
    path.rename(aside)
    return aside


def _sweep(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.name.startswith(".step-") and _TEMPORARY_MARK in entry.name:
            shutil.rmtree(entry, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _step_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])
