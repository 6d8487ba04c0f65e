"""What a supervisor says, kept; and output in files, as the daemon gives it to a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic_protocol.states import Desired
from mosaic_worker.supervision.telemetry import LifecycleEmitter
from mosaic_worker.supervision.wishes import Wishes


@dataclass
class Ear(LifecycleEmitter):
    """Keeps what the supervisor says, and answers some of it with a wish, as a daemon would."""

    answers: dict[str, Desired] = field(default_factory=dict)
    wishes: Wishes = field(default_factory=Wishes)
    planned: list[int] = field(default_factory=list)
    said: list[tuple[str, str, int | None]] = field(default_factory=list)
    artifacts: list[tuple[str, str, int | None]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def say(self, event: str, sentence: str = "", step: int | None = None, **detail: Any) -> None:
        self.said.append((event, sentence, step))
        self.details.update(detail)
        self.wishes.desired = self.answers.get(event, self.wishes.desired)

    def plan(self, total_steps: int) -> None:
        assert self.said == [], "a plan comes before the beginning"
        self.planned.append(total_steps)

    def artifact(self, kind: str, path: str, step: int | None) -> None:
        self.artifacts.append((kind, path, step))

    @property
    def events(self) -> list[str]:
        return [event for event, _, _ in self.said]

    @property
    def last_word(self) -> tuple[str, str, int | None]:
        return self.said[-1]


@contextmanager
def output_in_files(folder: Path) -> Iterator[None]:
    """Standard output and error as the daemon gives them to a worker: files, from which last lines are read."""
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number, name in ((1, "stdout.log"), (2, "stderr.log")):
            target = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(target, number)
            os.close(target)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
