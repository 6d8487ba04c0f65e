"""What a checkpoint says about itself, readable without torch.

A checkpoint is a directory ``step-000000050000`` with two files: ``model.safetensors`` holds every tensor under a flat
name, ``checkpoint.json`` describes them and carries what is not a tensor. The description ends with a hash of itself
and holds one of the tensors, so that every reader notices a change to either file: the worker that resumes,
the command that lists, the cockpit that shows.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mosaic_protocol.regular_files import open_regular, read_regular, regular_size

SCHEMA_VERSION = 1
TENSOR_FILE = "model.safetensors"
MANIFEST_FILE = "checkpoint.json"

EPISODES_TO_BE_BEST = 20
"""A mean over fewer episodes is luck."""

MOST_MANIFEST_BYTES = 64 * 2**20
"""Of a ``checkpoint.json``; a larger one is neither written nor read."""
_MOST_VALUES = 4_000_000
"""Commas in one: what bounds the memory that it becomes."""

MOST_IMPORT_BYTES = 2**30
"""Of a file to import; policies take megabytes."""

RECORDED_STEPS = "recorded_steps"
"""The kind of origin of a run that learned from what somebody played before its first step."""

_LARGEST_STEP = 2**63
_BLOCK = 2**20
_NAME = re.compile(r"step-([0-9]{12,})")


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
    """Where it comes from: ``kind`` (resume, warm_start, import), ``checkpoint``, ``sha256``; {} for a fresh start. Of
    :data:`RECORDED_STEPS` instead ``recording``, ``steps``, ``episodes``, and of a run its id and name."""
    offline_dataset: dict[str, Any] = field(default_factory=dict)
    """The dataset that it learned from: ``name``, ``sha256`` and, where scores are normalised, ``references``. {} for
    what learned from an environment; then the file has no such field, so that older versions read it."""

    def sealed(self) -> str:
        """The manifest as the text of its file, with a hash over all fields. Raises ValueError for one that is too
        large to be read again."""
        document = {one.name: getattr(self, one.name) for one in fields(self)}
        if not self.offline_dataset:
            del document["offline_dataset"]
        # Through JSON and back first: a tuple or an integer key must hash as what will be read.
        document = json.loads(json.dumps(document, allow_nan=False))
        text = json.dumps(document | {"sha256": _document_hash(document)}, indent=2) + "\n"
        if len(text) > MOST_MANIFEST_BYTES or text.count(",") > _MOST_VALUES:
            raise ValueError(_TOO_LARGE)
        return text


_TOO_LARGE = "what is not a tensor takes more room than a checkpoint has for it"


def read_manifest(path: Path) -> CheckpointManifest:
    """Read and check a checkpoint's description alone, without its tensors. Raises CheckpointError.

    The author of the file may have meant harm: its hash shows that it is whole, not that it is true. So the types of
    all fields are checked as well.
    """
    file = path / MANIFEST_FILE
    try:
        document = _document(read_regular(file, MOST_MANIFEST_BYTES))
        sealed = isinstance(document, dict) and document.pop("sha256", None) == _document_hash(document)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is damaged: it is not valid JSON.") from error
    if not sealed:
        raise CheckpointError(f"{file} was changed since it was written: its hash does not match.")
    if document.get("schema") != SCHEMA_VERSION:
        found = str(document.get("schema"))[:20]
        raise CheckpointError(f"{file} has format {found}, this version of MOSAIC reads {SCHEMA_VERSION}.")
    try:
        manifest = CheckpointManifest(**document)
    except TypeError as error:
        raise CheckpointError(f"{file} is damaged: its fields are not those of a checkpoint.") from error
    if wrong := [one.name for one in fields(manifest) if not _is_kind(getattr(manifest, one.name), str(one.type))]:
        raise CheckpointError(f"{file} is damaged: {wrong[0]} is not what a checkpoint has there.")
    return manifest


def _document(text: bytes) -> Any:
    if text.count(b",") > _MOST_VALUES:
        raise ValueError(_TOO_LARGE)
    return json.loads(text)


def _is_kind(value: Any, kind: str) -> bool:
    if kind == "int":
        return type(value) is int and 0 <= value < _LARGEST_STEP
    return isinstance(value, dict if kind.startswith("dict") else str)


def verify(path: Path) -> CheckpointManifest:
    """Read the description and check every byte of the tensors against it. Raises CheckpointError."""
    manifest = read_manifest(path)
    file = path / TENSOR_FILE
    try:
        size = regular_size(file)
        if size != manifest.tensor_bytes:
            raise CheckpointError(f"{file} has {size} bytes, {manifest.tensor_bytes} were written.")
        if file_hash(file) != manifest.tensor_sha256:
            raise CheckpointError(f"{file} was changed since it was written: its hash does not match.")
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}.") from error
    return manifest


def score_of(metrics: Mapping[str, Any]) -> float | None:
    """What the best checkpoint of a run has most of: the mean return; None when too few episodes were played."""
    mean, episodes = number_in(metrics, "mean_return"), number_in(metrics, "episodes")
    return mean if mean is not None and episodes is not None and episodes >= EPISODES_TO_BE_BEST else None


def best_of(checkpoints: Iterable[Path]) -> Path | None:
    """The checkpoint with the highest mean return, by their descriptions; None where none has one."""
    scores: dict[Path, float] = {}
    for path in checkpoints:
        with suppress(CheckpointError):
            if (score := score_of(read_manifest(path).metrics)) is not None:
                scores[path] = score
    return max(scores, key=lambda path: scores[path], default=None)


def number_in(table: Mapping[str, Any], name: str) -> float | None:
    """A finite number out of a table that anybody may have written, None when there is none under that name."""
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or not math.isfinite(value):
        return None
    return float(value)


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
    # os.path.isdir: a folder that may not be entered is a sentence for its reader, not the end of the listing.
    steps = {path: step for path in entries if (step := step_of(path)) is not None and os.path.isdir(path)}  # noqa: PTH112
    return sorted(steps, key=lambda path: steps[path])


def other_data(learned: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Why a run does not go on from a checkpoint, in a sentence, where the data that was learned from is not the data
    that is given; "" where it is. Both as ``offline_dataset`` has them."""
    if learned.get("sha256") == given.get("sha256"):
        return ""
    there, here = (f"the dataset {one['name']!r}" if one else "no dataset" for one in (learned, given))
    return (
        f"it learned from {there}, this run from {'other data of that name' if there == here else here}: "
        "resume with the same data, or warm-start with other"
    )


def file_hash(file: Path, *, most: int | None = None, follow: bool = False) -> str:
    """The hash of a regular file's bytes, of no more than it had when it was opened. Raises OSError for others.

    ``most`` refuses larger files, ``follow`` allows a link; see :mod:`mosaic_protocol.regular_files`.
    """
    found = hashlib.sha256()
    with open_regular(file, most=most, follow=follow) as stream:
        left = os.fstat(stream.fileno()).st_size
        while left > 0 and (block := stream.read(min(_BLOCK, left))):
            found.update(block)
            left -= len(block)
    return found.hexdigest()


def _document_hash(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
