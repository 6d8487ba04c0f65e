"""What an arena is: one environment, its seeds, and who plays them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

VERSION = 1


class Kind(StrEnum):
    """Where an entry's episodes come from."""

    BASELINE = "baseline"
    """Chance, or the optimal policy: played by the session worker."""
    CHECKPOINT = "checkpoint"
    """Whatever the worker that wrote it can evaluate: a network, a table, a setting of a language model."""
    RECORDING = "recording"
    """The steps of a run, such as a person's session: nothing is played."""


@dataclass(frozen=True)
class Entry:
    """One that takes part. ``source`` is what the kind needs to find it; ``identity`` is equal for the same one."""

    key: str
    """The name of its folder."""
    label: str
    kind: Kind
    identity: str
    detail: str = ""
    """One line about it: a checkpoint's id, a session's name."""
    source: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    """Why it cannot play, in one sentence."""


@dataclass(frozen=True)
class Arena:
    name: str
    env_id: str
    env_kwargs: Mapping[str, Any]
    seeds: tuple[int, ...]
    created: float
    """Unix seconds."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Id, arguments and step limit of the environment, as it was made when the arena began."""
    entries: tuple[Entry, ...] = ()

    def entry(self, key: str) -> Entry | None:
        return next((one for one in self.entries if one.key == key), None)


def to_json(arena: Arena) -> dict[str, Any]:
    return {"v": VERSION, **asdict(arena)}


def from_json(told: Mapping[str, Any]) -> Arena:
    """Raises KeyError, TypeError or ValueError for what is no arena."""
    if told["v"] > VERSION:
        raise ValueError("it was made by a newer version of MOSAIC: update this one")
    known = {one.name for one in fields(Entry)}
    entries = [
        Entry(**{**{name: value for name, value in one.items() if name in known}, "kind": Kind(one["kind"])})
        for one in told["entries"]
    ]
    return Arena(
        str(told["name"]),
        str(told["env_id"]),
        dict(told["env_kwargs"]),
        tuple(int(seed) for seed in told["seeds"]),
        float(told["created"]),
        dict(told["rules"]),
        tuple(entries),
    )
