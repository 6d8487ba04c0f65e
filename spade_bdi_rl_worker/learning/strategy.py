"""How much an agent explores and how fast it learns, as far as its run is."""

from __future__ import annotations

from dataclasses import dataclass, field


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

    def epsilon_at(self, progress: float) -> float:
        """``progress``: how much of the run is over, from 0 to 1."""
        if (fixed := self.fixed.get("epsilon")) is not None:
            return fixed
        exploration = self.fixed.get("exploration", self.exploration)
        done = min(1.0, progress / exploration) if exploration > 0 else 1.0
        return self.epsilon + (self.epsilon_end - self.epsilon) * done

    def alpha_at(self, progress: float) -> float:
        if (fixed := self.fixed.get("alpha")) is not None:
            return fixed
        return self.alpha + (self.alpha_end - self.alpha) * min(1.0, progress)
