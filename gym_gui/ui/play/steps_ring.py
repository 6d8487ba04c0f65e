"""The newest steps of a run in bounded room, with what a table says of each. Without Qt."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gym_gui.ui.play.actors import HUMAN
from mosaic_protocol.events import TrainingStep
from mosaic_protocol.steps.chunk import UNDONE

MOST_ROWS = 1000
ADVISED = "advised"
"""Among a step's extras: what the policy that watched would have done instead."""


@dataclass(frozen=True)
class StepRow:
    """One step. ``number`` counts from 1 in its episode, None where its beginning was not seen."""

    step: int
    episode: int
    number: int | None
    agent: str
    actor: str
    action: Any
    reward: float | None
    value: float | None
    ended: str
    """``terminated`` or ``truncated`` for the last step of an episode."""
    differs: bool = False
    """Whether the person chose something else than the policy that watched would have."""
    advised: Any = None
    """What the policy would have done, where they differ."""
    undone: bool = False
    """Whether it was taken back; it stays recorded, as a branch."""


class StepRing:
    """Takes steps in order and keeps the newest :data:`MOST_ROWS`."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.rows: deque[StepRow] = deque(maxlen=most)
        """The oldest first."""
        self.taken = 0
        """How many came so far."""
        self.judged = 0
        """Steps of the person for which the policy that watched had an opinion."""
        self.differing = 0
        self._made: dict[str, tuple[int, int | None]] = {}
        """Of each agent: its episode, and how many steps it made in it where its beginning was seen."""
        self._next = 0
        """The step that follows the last one that came."""

    def add(self, steps: Iterable[TrainingStep]) -> list[StepRow]:
        """Take steps; their rows."""
        rows = []
        for step in steps:
            undone = step.info.get(UNDONE, 0)
            if isinstance(undone, int) and undone > 0:
                self._take_back(step, undone)
            rows.append(self._row(step, undone if isinstance(undone, int) else 0))
            self.rows.append(rows[-1])
        self.taken += len(rows)
        return rows

    def clear(self) -> None:
        self.rows.clear()
        self._made.clear()
        self.taken = self.judged = self.differing = self._next = 0

    def _row(self, step: TrainingStep, undone: int) -> StepRow:
        differs = step.actor == HUMAN and ADVISED in step.info
        self.differing += differs
        self.judged += differs or (step.actor == HUMAN and step.value is not None)
        return StepRow(
            step=step.step,
            episode=step.episode,
            number=self._number(step, undone),
            agent=step.agent_id,
            actor=step.actor,
            action=step.action,
            reward=_finite(step.reward),
            value=_finite(step.value),
            ended="terminated" if step.terminated else "truncated" if step.truncated else "",
            differs=differs,
            advised=step.info.get(ADVISED),
        )

    def _take_back(self, step: TrainingStep, undone: int) -> None:
        """Mark the last so many steps of the episode that this step goes on with, as far as they are here."""
        for place in range(len(self.rows) - 1, -1, -1):
            row = self.rows[place]
            if row.agent != step.agent_id or row.undone:
                continue
            if not undone or row.episode != step.episode:
                return
            self.rows[place] = replace(row, undone=True)
            undone -= 1

    def _number(self, step: TrainingStep, undone: int) -> int | None:
        """Each agent counts its own steps: those of several lie between each other. What was left out in between ends
        the counting until the next episode."""
        if step.step != self._next:
            self._made.clear()
        self._next = step.step + 1
        before = self._made.get(step.agent_id)
        if before is None:
            made = 0 if step.step == 0 else None
        else:
            made = before[1] if before[0] == step.episode else 0
        made = None if made is None else max(0, made - undone) + 1
        self._made[step.agent_id] = (step.episode, made)
        return made


def _finite(number: Any) -> float | None:
    return float(number) if isinstance(number, int | float) and math.isfinite(number) else None
