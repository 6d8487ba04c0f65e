"""Checkpoints that are whole or absent.

The format is that of :mod:`mosaic_protocol.checkpoint_manifest`: tensors under flat names, and a description.
Optimizer moments, random states or a replay buffer are further names in the same flat mapping, so they need no new
format.

A checkpoint is built under a temporary name beside its final one, synced to the disk, then renamed: a crash at any
instant leaves either the whole checkpoint or a temporary directory that listings do not show and the next save
removes. One that is replaced by another of the same step has a second name for that moment, with one more leading zero
than a step has: listings show it as the checkpoint of that step, :func:`load` finds it, and the next save gives it its
name back or, when the new one is there, deletes it.

One process writes a directory of checkpoints; any number may read. Nothing here is ever unpickled.
"""

from __future__ import annotations

import math
import re
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from mosaic_protocol.checkpoint_manifest import (
    MANIFEST_FILE,
    TENSOR_FILE,
    CheckpointError,
    CheckpointManifest,
    best_of,
    checkpoint_name,
    file_hash,
    list_checkpoints,
    read_manifest,
    step_of,
    verify,
)
from mosaic_protocol.full_disk import is_disk_full, may_pass
from mosaic_protocol.whole_files import sync
from mosaic_worker.state import tensor_kinds
from mosaic_worker.state.tensor_kinds import NeedsTorchError, Tensors

__all__ = [
    "MANIFEST_FILE",
    "TENSOR_FILE",
    "Checkpoint",
    "CheckpointError",
    "CheckpointManifest",
    "NotNowError",
    "best_of",
    "describe_space",
    "list_checkpoints",
    "load",
    "prune",
    "read_manifest",
    "save",
]

_TEMPORARY_MARK = ".unfinished-"
_ERROR_NUMBER = re.compile(r"\(os error (\d+)\)")
_MOST_BOUNDS = 512
"""Of a picture the bounds of every pixel would say nothing."""


class NotNowError(CheckpointError):
    """A checkpoint could not be written for a reason that may pass: no space, or a folder that takes no files for a
    while."""

    def __init__(self, sentence: str, *, full: bool) -> None:
        super().__init__(sentence)
        self.full = full
        """Whether space alone is missing."""


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint in memory."""

    path: Path
    manifest: CheckpointManifest
    kept: Tensors
    """Of whichever kind they were read as; :attr:`tensors` and :meth:`array` are for use."""

    @property
    def tensors(self) -> Tensors:
        """All of them, on the CPU: tensors of PyTorch's in a process that has imported it, else arrays of numpy."""
        return tensor_kinds.of_this_process(self.kept)

    def array(self, name: str) -> np.ndarray:
        """One of them as an array of numpy, whatever else the process has imported. Raises CheckpointError."""
        try:
            return tensor_kinds.as_array(self.kept[name])
        except KeyError:
            raise CheckpointError(f"{self.path} holds no {name}.") from None
        except TypeError as error:
            raise CheckpointError(f"{self.path} holds {name}, which numpy has no type for: {error}.") from error


def save(
    directory: Path,
    *,
    algo: str,
    env_id: str,
    step: int,
    tensors: Mapping[str, Any],
    state: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    spaces: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    lineage: Mapping[str, Any] | None = None,
    offline_dataset: Mapping[str, Any] | None = None,
) -> Path:
    """Write one checkpoint and return its path; it replaces an earlier one of the same step.

    `tensors`: arrays of numpy, tensors of PyTorch's, or both; the file is the same. All else must be plain JSON values
    without NaN. Raises CheckpointError when they are not, or when the disk refuses (NotNowError when that may pass);
    nothing is left behind in either case.
    """
    final = directory / checkpoint_name(step)
    building = _temporary_name(final)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _sweep(directory)
        building.mkdir()
        tensor_file = building / TENSOR_FILE
        tensor_kinds.write_file(tensors, tensor_file)
        manifest = CheckpointManifest(
            algo=algo,
            env_id=env_id,
            step=step,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            args=dict(args or {}),
            state=dict(state or {}),
            spaces=dict(spaces or {}),
            versions=_versions(),
            tensor_sha256=file_hash(tensor_file),
            tensor_bytes=tensor_file.stat().st_size,
            metrics=dict(metrics or {}),
            lineage=dict(lineage or {}),
            offline_dataset=dict(offline_dataset or {}),
        )
        (building / MANIFEST_FILE).write_text(manifest.sealed(), encoding="utf-8")
        _publish(building, final)
    except (OSError, TypeError, ValueError, safetensors.SafetensorError) as error:
        sentence, cause = f"Could not write the checkpoint {final}: {error}.", _os_error(error)
        if may_pass(cause):
            raise NotNowError(sentence, full=is_disk_full(cause)) from error
        raise CheckpointError(sentence) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
        _settle(directory)
    return final


def load(path: Path) -> Checkpoint:
    """Read a checkpoint after checking every byte. Raises CheckpointError when it is not as it was written."""
    if not path.exists() and _stand_in(path).exists():
        path = _stand_in(path)
    manifest = verify(path)
    tensor_file = path / TENSOR_FILE
    try:
        return Checkpoint(path, manifest, tensor_kinds.read_file(tensor_file))
    except NeedsTorchError as error:
        raise CheckpointError(f"{tensor_file} {error}.") from error
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{tensor_file} cannot be read: {error}.") from error


def prune(directory: Path, keep_last: int) -> list[Path]:
    """Delete all but the `keep_last` highest steps and the best; return what was deleted."""
    if keep_last < 1:
        raise ValueError(f"keep_last must be at least 1, got {keep_last}")
    found = list_checkpoints(directory)
    if len(found) <= keep_last:
        return []
    best = best_of(found)
    doomed = [path for path in found[:-keep_last] if path != best]
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
    if described["type"] == "Box" and space.is_bounded() and math.prod(space.shape) <= _MOST_BOUNDS:
        described |= {"low": space.low.reshape(-1).tolist(), "high": space.high.reshape(-1).tolist()}
    for key in ("n", "start"):
        if isinstance(count := getattr(space, key, None), Integral):
            described[key] = int(count)
    return described


@cache
def _versions() -> dict[str, str]:
    found = {}
    for package in ("torch", "gymnasium", "safetensors"):
        with suppress(metadata.PackageNotFoundError):  # a script of the user's may need no gymnasium
            found[package] = metadata.version(package)
    return found


def _publish(building: Path, final: Path) -> None:
    for entry in (*building.iterdir(), building):
        sync(entry)
    if final.exists():
        final.rename(_stand_in(final))
    building.rename(final)
    sync(final.parent)


def _stand_in(final: Path) -> Path:
    """The name that a checkpoint has while another one takes its place."""
    return final.with_name(final.name.replace("step-", "step-0", 1))


def _settle(directory: Path) -> None:
    """Give a checkpoint its name back whose replacement did not come; delete one whose replacement did."""
    for path in list_checkpoints(directory):
        final = path.with_name(checkpoint_name(step_of(path) or 0))
        if path == final:
            continue
        with suppress(OSError):  # it is whole under either name, and the next save tries again
            if final.exists():
                shutil.rmtree(_set_aside(path))
            else:
                path.rename(final)


def _os_error(error: BaseException) -> BaseException | None:
    """What the system said; safetensors keeps no number of it, but writes it down."""
    if isinstance(error, safetensors.SafetensorError):
        found = _ERROR_NUMBER.search(str(error))
        return OSError(int(found[1]), "") if found is not None else None
    return error


def _temporary_name(final: Path) -> Path:
    return final.with_name(f".{final.name}{_TEMPORARY_MARK}{uuid.uuid4().hex}")


def _set_aside(path: Path) -> Path:
    """Take a checkpoint's name away before it is deleted, so that half of one is never seen under it."""
    aside = _temporary_name(path)
    path.rename(aside)
    return aside


def _sweep(directory: Path) -> None:
    _settle(directory)
    for entry in directory.iterdir():
        if entry.name.startswith(".step-") and _TEMPORARY_MARK in entry.name:
            shutil.rmtree(entry, ignore_errors=True)
