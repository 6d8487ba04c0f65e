"""What one run takes of the disk, part by part. Plain data: measured elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Part = Literal["steps", "logs", "checkpoints", "videos", "events", "metrics", "other"]
PARTS: tuple[Part, ...] = ("checkpoints", "steps", "events", "metrics", "videos", "logs", "other")
"""In the order in which they are shown. ``metrics`` and ``other`` go with their run only."""


@dataclass(frozen=True)
class CheckpointSize:
    """``name`` is that of its folder."""

    name: str
    bytes: int
    is_best: bool = False
    is_newest: bool = False


@dataclass(frozen=True)
class RunSize:
    parts: Mapping[Part, int] = field(default_factory=dict)
    checkpoints: tuple[CheckpointSize, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.parts.values())
