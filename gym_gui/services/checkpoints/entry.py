"""One checkpoint as listings show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from mosaic_protocol.checkpoint_manifest import (
    RECORDED_STEPS,
    TENSOR_FILE,
    CheckpointError,
    CheckpointManifest,
    number_in,
    read_manifest,
    step_of,
    verify,
)
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.regular_files import regular_size

Origin = Literal["run", "imported", "file"]
_METRICS_IN_LISTINGS = ("episodes", "mean_return", "std_return")
_LISTS = ("fresh", "notes")
"""What is a list of texts in a lineage; anything else under these names is not believed."""


@dataclass(frozen=True)
class Integrity:
    """What is known of a checkpoint's bytes. ``ok`` means that every one of them was checked."""

    state: Literal["unchecked", "ok", "damaged"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


UNCHECKED, OK = Integrity("unchecked"), Integrity("ok")


@dataclass(frozen=True)
class CheckpointEntry:
    """Where a checkpoint is, what it says about itself, and where it stands among those of its run.

    Of a damaged one only path, step, size and whose it is are known; the rest is empty.
    """

    id: str
    path: Path
    origin: Origin
    run_id: str
    """The run's id; the name of an import; the folder's name for a checkpoint that lies elsewhere."""
    run_name: str
    agent_id: str
    worker: str
    step: int
    size: int
    integrity: Integrity
    algo: str = ""
    env_id: str = ""
    created: str = ""
    sha256: str = ""
    spaces: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    lineage: dict[str, Any] = field(default_factory=dict)
    offline_dataset: dict[str, Any] = field(default_factory=dict)
    """The dataset that it learned from; {} where it learned from an environment."""
    is_best: bool = False
    is_last: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What the registry of trained policies is keyed by: (agent_id, env_id, run_id)."""
        return self.agent_id, self.env_id, self.run_id

    @property
    def created_at(self) -> float:
        """Unix seconds, 0 when it is not known."""
        try:
            return datetime.fromisoformat(self.created).timestamp()
        except (ValueError, OverflowError):
            return 0.0

    @property
    def can_resume(self) -> bool:
        """Whether it holds a run's whole state, not only its networks."""
        return self.integrity.state != "damaged" and self.lineage.get("kind") != "import"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": str(self.path),
            "origin": self.origin,
            "run_id": self.run_id,
            "run_name": self.run_name,
            "agent_id": self.agent_id or None,
            "worker": self.worker or None,
            "algo": self.algo or None,
            "env_id": self.env_id or None,
            "step": self.step,
            "created": self.created or None,
            "size": self.size,
            "sha256": self.sha256 or None,
            "integrity": self.integrity.state,
            "problem": self.integrity.reason or None,
            "spaces": self.spaces,
            "metrics": self.metrics,
            "lineage": self.lineage,
            "offline_dataset": self.offline_dataset or None,
            "is_best": self.is_best,
            "is_last": self.is_last,
        }


def digest_of(manifest: CheckpointManifest) -> dict[str, Any]:
    """The part of a manifest that listings show, as plain JSON."""
    return {
        "algo": manifest.algo,
        "env_id": manifest.env_id,
        "step": manifest.step,
        "created": manifest.created,
        "sha256": manifest.tensor_sha256,
        "tensor_bytes": manifest.tensor_bytes,
        "spaces": manifest.spaces,
        "metrics": {
            name: manifest.metrics[name]
            for name in _METRICS_IN_LISTINGS
            if number_in(manifest.metrics, name) is not None
        },
        "lineage": {name: value for name, value in manifest.lineage.items() if name not in _LISTS or _is_list(value)},
        "offline_dataset": manifest.offline_dataset,
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def facts_of(path: Path, digest: Mapping[str, Any] | CheckpointError, *, check_bytes: bool) -> dict[str, Any]:
    """The fields of an entry that come from the checkpoint itself; raises nothing."""
    size, problem = _size_on_disk(path)
    if isinstance(digest, CheckpointError):
        return {"step": step_of(path) or 0, "size": size, "integrity": Integrity("damaged", _brief(digest))}
    known = {name: value for name, value in digest.items() if name != "tensor_bytes"}
    if not problem and size != digest["tensor_bytes"]:
        problem = f"{TENSOR_FILE} has {size} bytes, {digest['tensor_bytes']} were written"
    integrity = Integrity("damaged", problem) if problem else UNCHECKED
    if check_bytes and not problem:
        integrity = checked(path)
    return {**known, "size": size, "integrity": integrity}


def checked(path: Path) -> Integrity:
    """Read every byte of a checkpoint and tell whether it is as it was written."""
    try:
        verify(path)
    except CheckpointError as error:
        return Integrity("damaged", _brief(error))
    return OK


def digest_on_disk(path: Path) -> dict[str, Any] | CheckpointError:
    """What a checkpoint says about itself, or what is wrong with it."""
    try:
        return digest_of(read_manifest(path))
    except CheckpointError as error:
        return error


def _size_on_disk(path: Path) -> tuple[int, str]:
    try:
        return regular_size(path / TENSOR_FILE), ""
    except OSError as error:
        return 0, f"{TENSOR_FILE} cannot be read: {error.strerror}"


def _brief(error: CheckpointError) -> str:
    """The sentence with the file's name instead of its path: a listing shows the path already."""
    words = str(error).rstrip(".").split(" ")
    return one_line(" ".join([Path(words[0]).name, *words[1:]]))


def recorded_origin(lineage: Mapping[str, Any]) -> str:
    """Which recorded steps a checkpoint's run began with, in words; "" for one that began with something else."""
    if lineage.get("kind") != RECORDED_STEPS:
        return ""
    steps, actor = lineage.get("steps"), lineage.get("actor")
    count = f"{steps:,} recorded steps" if isinstance(steps, int) else "recorded steps"
    whose = f" that {actor} made" if actor else ""
    return one_line(f"began with {count}{whose} in {lineage.get('recording', 'a recording')}")
