"""The transitions of a dataset in parts of whole episodes, read when they are asked for: of data that is larger than
the memory no more than one part is in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.offline.transitions import Transitions, best_episodes

if TYPE_CHECKING:
    from mosaic_worker.offline.dataset import OfflineDataset

PART_BYTES = 32 * 2**20


class StreamedTransitions:
    """What :class:`Transitions` tells, of a dataset that must stay open meanwhile. Episodes are numbered as there."""

    def __init__(
        self, dataset: OfflineDataset, chosen: NDArray[np.int64] | None = None, part_bytes: int = PART_BYTES
    ) -> None:
        """`chosen`: the numbers of the episodes to take, ascending; all of them unless they are given."""
        self.dataset, self._chosen, self._part_bytes = dataset, chosen, part_bytes
        self._only: Transitions | None = None

    def parts(self) -> Iterator[Transitions]:
        first = 0
        for part in self._all_parts():
            behind = first + len(part.returns())
            if self._chosen is None:
                yield part
            else:
                low, high = np.searchsorted(self._chosen, [first, behind])
                if high > low:
                    yield part.episodes(self._chosen[low:high] - first)
            first = behind

    def _all_parts(self) -> Iterator[Transitions]:
        """Each part of the file; what fits into a single one is read once."""
        if self._only is not None:
            yield self._only
            return
        read = 0
        for part in self.dataset.parts(self._part_bytes):
            read += 1
            yield part
        if read == 1:
            self._only = part

    @cached_property
    def _told(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and returns of the episodes."""
        told = [(part.lengths(), part.returns()) for part in self.parts()]
        lengths, returns = zip(*told, strict=True)
        return np.concatenate(lengths), np.concatenate(returns)

    def __len__(self) -> int:
        return self.dataset.rows if self._chosen is None else int(self.lengths().sum())

    @property
    def width(self) -> int:
        return self.dataset.observation_width

    def lengths(self) -> NDArray[np.int64]:
        return self._told[0]

    def returns(self) -> NDArray[np.float64]:
        return self._told[1]

    def best_fraction(self, fraction: float) -> StreamedTransitions:
        """The episodes with the highest returns, in their order. Raises UsageError where that is less than one."""
        if fraction == 1 and self._chosen is None:
            return self
        numbers = np.arange(len(self.returns())) if self._chosen is None else self._chosen
        found = StreamedTransitions(self.dataset, numbers[best_episodes(self.returns(), fraction)], self._part_bytes)
        found._only = self._only
        return found
