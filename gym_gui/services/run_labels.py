"""What runs are found and put together by: labels of their config, and its settings by their names.

Read once from the config when a run is accepted. Tolerant: a config that an older version accepted has the labels that
can be made out, and none where it cannot be read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Scalar = int | float | str

_FLAG_PREFIXES = ("extras.algo_params.", "params.")
"""Where flags of a training script stand among the settings of a worker; people know them without."""
_MOST_SETTINGS = 400
_LARGEST = 2**63 - 1
_LONGEST_TEXT = 300
_DEEPEST = 6


@dataclass(frozen=True)
class RunLabels:
    """Empty where the config says nothing."""

    tags: tuple[str, ...] = ()
    seed: int | None = None
    group: str = ""
    sweep: str = ""
    dataset: str = ""
    parent: str = ""
    """The id of the run that this one goes on from."""


NO_LABELS = RunLabels()


def config_of(config_json: str) -> Mapping[str, Any]:
    """A stored config; {} for one that is none."""
    try:
        config = msgspec.json.decode(config_json)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return {}
    return config if isinstance(config, Mapping) else {}


def labels_in(config: Mapping[str, Any]) -> RunLabels:
    metadata = _mapping(config.get("metadata"))
    settings = worker_settings(config)
    tags, seed = metadata.get("tags"), settings.get("seed")
    return RunLabels(
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list | tuple) else (),
        seed=seed if isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 2**63 else None,
        group=_text(metadata.get("group")),
        sweep=_text(metadata.get("sweep")),
        dataset=_text(settings.get("dataset")),
        parent=_text(_mapping(metadata.get("parent")).get("run_id")),
    )


def worker_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The worker's part of a config."""
    return _mapping(_mapping(_mapping(config.get("metadata")).get("worker")).get("config"))


def flat_settings(config: Mapping[str, Any]) -> dict[str, Scalar]:
    """The worker's settings by dotted names, flags of its script by their own: ``{"algo": "ppo", "learning_rate":
    0.0003, "extras.video.fps": 30}``. Switches are "true" and "false", lists are JSON; what is null is left out."""
    found: dict[str, Scalar] = {}
    for path, value in _leaves(worker_settings(config), "", 0):
        prefix = next((prefix for prefix in _FLAG_PREFIXES if path.startswith(prefix)), "")
        found.setdefault(path.removeprefix(prefix), value)
        if len(found) >= _MOST_SETTINGS:
            break
    return found


def _leaves(settings: Mapping[str, Any], above: str, depth: int) -> Iterator[tuple[str, Scalar]]:
    for name, value in settings.items():
        path = f"{above}{name}"
        if isinstance(value, bool):
            yield path, "true" if value else "false"
        elif isinstance(value, Mapping) and value and depth < _DEEPEST:
            yield from _leaves(value, f"{path}.", depth + 1)
        elif isinstance(value, int):
            if abs(value) <= _LARGEST:  # what SQLite compares, and floats can hold
                yield path, value
        elif isinstance(value, float):
            if math.isfinite(value):
                yield path, value
        elif isinstance(value, str):
            yield path, value[:_LONGEST_TEXT]
        elif isinstance(value, list | tuple):
            yield path, json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)[:_LONGEST_TEXT]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
