"""How well a run does, in a few numbers that travel with its checkpoints."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from mosaic_protocol.headline import RECENT_EPISODES

_RECENT = RECENT_EPISODES
_CURVE_POINTS = 64


class EpisodeDigest:
    """Counts episodes and keeps the returns of the last 100, and a curve of their mean that never grows long.

    Belongs to the training thread.
    """

    def __init__(self) -> None:
        self.episodes = 0
        self._restored = 0
        """How many of them an earlier run played."""
        self.recent: deque[float] = deque(maxlen=_RECENT)
        self._curve: list[tuple[int, float]] = []
        self._every = 1

    @property
    def mean_return(self) -> float:
        return sum(self.recent) / len(self.recent) if self.recent else math.nan

    @property
    def own_recent(self) -> list[float]:
        """Of the last 100 those that this run played itself."""
        own = self.episodes - self._restored
        return list(self.recent)[-own:] if own else []

    def note(self, step: int, episodic_return: float) -> None:
        if not math.isfinite(episodic_return):
            return
        self.episodes += 1
        self.recent.append(episodic_return)
        if self.episodes % self._every == 0:
            self._curve.append((step, self.mean_return))
            if len(self._curve) == 2 * _CURVE_POINTS:  # every other point goes, and from now on half as many come
                self._curve = self._curve[1::2]
                self._every *= 2

    def metrics(self) -> dict[str, Any]:
        """What a checkpoint's manifest says: plain JSON, from which :meth:`restore` goes on."""
        if not self.recent:
            return {"episodes": self.episodes}
        mean = self.mean_return
        variance = sum((one - mean) ** 2 for one in self.recent) / len(self.recent)
        return {
            "episodes": self.episodes,
            "mean_return": mean,
            "std_return": math.sqrt(variance),
            "recent": list(self.recent),
            "curve": [list(point) for point in self._curve],
            "curve_every": self._every,
        }

    def restore(self, metrics: Mapping[str, Any]) -> None:
        self.episodes = self._restored = int(metrics.get("episodes", 0))
        self.recent = deque(metrics.get("recent", ()), maxlen=_RECENT)
        self._curve = [(step, mean) for step, mean in metrics.get("curve", ())]
        self._every = int(metrics.get("curve_every", 1))
