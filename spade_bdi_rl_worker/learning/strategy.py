"""How much an agent explores and how fast it learns, as far as its run is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Budget:
    """An agent's share of the run; None: no limit of that kind."""

    steps: int | None = None
    episodes: int | None = None

    def progress(self, steps: int, episodes: int) -> float:
        """How much of it is used up, from 0 to 1."""
        by_steps = steps / self.steps if self.steps else 0.0
        by_episodes = episodes / self.episodes if self.episodes else 0.0
        return min(1.0, max(by_steps, by_episodes))


class Line(NamedTuple):
    """A number that changes with the progress of a run: evenly over a first part of it, the span."""

    begin: float
    rise: float = 0.0
    span: float = 1.0

    def at(self, progress: float) -> float:
        return self.begin + self.rise * (progress / self.span if progress < self.span else 1.0)


@dataclass
class Strategy:
    """Exploration falls from ``epsilon`` to ``epsilon_end`` over the first part of the run (``exploration``, a
    fraction), the learning rate from ``alpha`` to ``alpha_end`` over all of it. A plan may fix either, or stretch the
    exploration, with ``.strategy``."""

    epsilon: float = 1.0
    epsilon_end: float = 0.05
    exploration: float = 0.5
    alpha: float = 0.5
    alpha_end: float = 0.1
    fixed: dict[str, float] = field(default_factory=dict)
    """What a plan decided, by name."""

    NAMES = ("epsilon", "alpha", "exploration")

    @property
    def epsilon_line(self) -> Line:
        if (fixed := self.fixed.get("epsilon")) is not None:
            return Line(fixed)
        exploration = self.fixed.get("exploration", self.exploration)
        return Line(self.epsilon, self.epsilon_end - self.epsilon, max(0.0, exploration))

    @property
    def alpha_line(self) -> Line:
        if (fixed := self.fixed.get("alpha")) is not None:
            return Line(fixed)
        return Line(self.alpha, self.alpha_end - self.alpha)

    def epsilon_at(self, progress: float) -> float:
        """``progress``: how much of the run is over, from 0 to 1."""
        return self.epsilon_line.at(progress)

    def alpha_at(self, progress: float) -> float:
        return self.alpha_line.at(progress)
