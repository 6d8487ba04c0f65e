"""Transitions as arrays: what offline algorithms learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.errors import UsageError


class Data(Protocol):
    """Transitions of whole episodes, in one part or in several."""

    def __len__(self) -> int: ...

    @property
    def width(self) -> int:
        """Numbers in an observation."""
        ...

    def returns(self) -> NDArray[np.float64]: ...

    def lengths(self) -> NDArray[np.int64]: ...

    def parts(self) -> Iterator[Transitions]:
        """All of them, in the order in which they were played."""
        ...


@dataclass(frozen=True)
class Transitions:
    """Rows in the order in which they were played, episode after episode.

    ``terminals`` are true terminations only. At a timeout the next observation is the one that the step led to, and
    values bootstrap from it; where the data does not have it, the row is left out. The next observation of a terminal
    row may be the row's own: nothing may be learned from it.
    """

    observations: NDArray[np.float32]
    actions: NDArray[Any]
    """``(N, a)`` of float32, or ``(N,)`` of int64 (counted from 0) for discrete ones."""
    rewards: NDArray[np.float32]
    next_observations: NDArray[np.float32]
    terminals: NDArray[np.bool_]
    timeouts: NDArray[np.bool_]
    episode_starts: NDArray[np.int64]
    """The first row of each episode, and last the number of rows: ``(E + 1,)``."""
    episode_returns: NDArray[np.float64]
    """Over all steps of each episode, also those that were left out."""

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def width(self) -> int:
        return int(self.observations.shape[1])

    def parts(self) -> Iterator[Transitions]:
        yield self

    def returns(self) -> NDArray[np.float64]:
        return self.episode_returns

    def lengths(self) -> NDArray[np.int64]:
        """Rows of each episode."""
        return np.diff(self.episode_starts)

    def best_fraction(self, fraction: float) -> Transitions:
        """The episodes with the highest returns, in their order. Raises UsageError where that is less than one."""
        return self.episodes(best_episodes(self.episode_returns, fraction))

    def episodes(self, numbers: NDArray[np.int64]) -> Transitions:
        """Some of the episodes, in this order."""
        lengths = self.lengths()[numbers]
        ends = np.cumsum(lengths)
        starts = np.concatenate([[0], ends]).astype(np.int64)
        rows = np.arange(int(starts[-1])) + np.repeat(self.episode_starts[numbers] - starts[:-1], lengths)
        taken = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Transitions(**taken, episode_starts=starts, episode_returns=self.episode_returns[numbers])


def best_episodes(returns: NDArray[np.float64], fraction: float) -> NDArray[np.int64]:
    """The numbers of those with the highest returns, ascending. Raises UsageError where that is less than one."""
    return np.sort(np.argsort(-returns, kind="stable")[: fraction_of(len(returns), fraction)])


def fraction_of(count: int, fraction: float) -> int:
    """How many episodes a fraction of them is. Raises UsageError where that is less than one."""
    wanted = int(fraction * count + 1e-9)
    if not 0 < fraction <= 1:
        raise UsageError(f"a fraction of the episodes is above 0 and at most 1, got {fraction:g}")
    if wanted < 1:
        raise UsageError(
            f"{100 * fraction:g} % of {count} episodes is less than one: take a larger fraction or more episodes"
        )
    return wanted


class Batch(NamedTuple):
    """Rows of transitions."""

    observations: NDArray[np.float32]
    actions: NDArray[Any]
    rewards: NDArray[np.float32]
    next_observations: NDArray[np.float32]
    terminals: NDArray[np.bool_]

    @property
    def size(self) -> int:
        return len(self.rewards)

    @classmethod
    def of(cls, transitions: Transitions, rows: Any) -> Batch:
        """Some rows, by their numbers or a slice."""
        return cls(*(getattr(transitions, name)[rows] for name in cls._fields))

    @classmethod
    def joined(cls, parts: Sequence[Batch]) -> Batch:
        return cls(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]

    def take(self, rows: Any) -> Batch:
        return Batch(*(column[rows] for column in self))


_COLUMNS = tuple(one.name for one in fields(Transitions) if not one.name.startswith("episode_"))
