"""Scales that keep numbers in the range that networks learn well in. Kept with a policy: it acts behind the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.offline.transitions import Data

_LEAST_STD = 1e-3
"""Added to deviations, so that a constant column stays small."""


@dataclass(frozen=True)
class ObservationScale:
    """Mean and deviation of each column."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]

    @classmethod
    def of(cls, data: Data) -> ObservationScale:
        count = len(data)
        mean = sum(part.observations.sum(axis=0, dtype=np.float64) for part in data.parts()) / count
        squares = sum(np.square(part.observations - mean).sum(axis=0) for part in data.parts())
        std = np.sqrt(squares / count) + _LEAST_STD
        return cls(np.asarray(mean, np.float32), std.astype(np.float32))

    @classmethod
    def none(cls, width: int) -> ObservationScale:
        """The scale that changes nothing."""
        return cls(np.zeros(width, np.float32), np.ones(width, np.float32))

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return (np.asarray(observations, np.float32) - self.mean) / self.std


@dataclass(frozen=True)
class RewardScale:
    """``reward * factor + shift``."""

    factor: float
    shift: float = 0.0

    @classmethod
    def by_return_range(cls, data: Data, horizon: int = 1000) -> RewardScale:
        """The best and the worst episode then lie ``horizon`` apart. Where all returns are equal, nothing changes."""
        returns = data.returns()
        spread = float(returns.max() - returns.min()) if len(returns) else 0.0
        return cls(horizon / spread) if spread > 0 and np.isfinite(spread) else cls(1.0)

    def __call__(self, rewards: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(rewards, np.float32) * np.float32(self.factor) + np.float32(self.shift)
