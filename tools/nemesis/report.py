"""What a campaign prints: a line every few seconds, a table at its end, and what to keep when a rule was broken."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from mosaic_protocol.paths import MosaicPaths

_EVERY_SECONDS = 5.0


@dataclass
class Report:
    """The figures of one campaign."""

    seed: int
    where: str
    seconds: float
    repeat: str
    """The command that does the same again."""
    runs: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    updates_watched: int = 0
    scalars_compared: int = 0
    violations: list[str] = field(default_factory=list)
    kept: str = ""

    @property
    def ok(self) -> bool:
        return not self.violations

    def as_json(self) -> str:
        return json.dumps({"ok": self.ok, **asdict(self)})

    def __str__(self) -> str:
        rows = [
            ("runs", _counted(self.runs)),
            ("outcomes", _counted(self.outcomes)),
            ("faults", _counted(self.faults)),
            ("operations", _counted(self.operations)),
            ("answers", _counted(self.results)),
            ("updates watched", f"{self.updates_watched:,}"),
            ("scalars compared", f"{self.scalars_compared:,}"),
            ("broken rules", str(len(self.violations))),
        ]
        lines = [f"  {name:<17} {value}" for name, value in rows]
        lines += [f"  BROKEN: {sentence}" for sentence in self.violations]
        if self.kept:
            lines.append(f"  history and data are kept in {self.kept}")
        return "\n".join([*lines, f"  seed {self.seed}; again: {self.repeat}"])


def _counted(figures: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {count}" for name, count in sorted(figures.items(), key=lambda item: -item[1]))
    return f"{sum(figures.values()):,} ({parts})" if figures else "0"


def counts(words: list[str]) -> dict[str, int]:
    return dict(Counter(words))


class Progress:
    """One line every few seconds, on stderr; a change of phase is shown at once."""

    def __init__(self, stream: IO[str] = sys.stderr) -> None:
        self._stream, self._told_at, self._began = stream, 0.0, time.monotonic()

    def tell(self, what: str, *, now: bool = False) -> None:
        if now or time.monotonic() - self._told_at >= _EVERY_SECONDS:
            self._told_at = time.monotonic()
            print(f"[{self._told_at - self._began:6.1f} s] {what}", file=self._stream, flush=True)


_left_out = shutil.ignore_patterns("token*", "reserve*", "*.sock")


def keep(paths: MosaicPaths, history: Path, into: Path) -> Path:
    """Save the evidence of how a rule came to be broken, before the place of the campaign is removed."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    shutil.copy2(history, into / "history.jsonl")
    for folder in (paths.trainer, paths.telemetry_db.parent, paths.logs):
        if folder.is_dir():
            target = into / folder.relative_to(paths.root)
            shutil.copytree(folder, target, ignore=_left_out, symlinks=True)
    return into
