"""Which run holds which GPU of a host. What a host has is found by :mod:`mosaic_host.gpu`."""

from __future__ import annotations

from collections.abc import Iterable

from mosaic_host.gpu import Gpu


class GPUAllocator:
    """Who holds which GPU. Not thread-safe: one owner calls it. A run holds at most one set of indices."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._indices = tuple(sorted(gpu.index for gpu in gpus))
        self._held: dict[str, tuple[int, ...]] = {}

    @property
    def total(self) -> int:
        return len(self._indices)

    @property
    def free(self) -> tuple[int, ...]:
        """The indices that nobody holds, lowest first."""
        taken = {index for indices in self._held.values() for index in indices}
        return tuple(index for index in self._indices if index not in taken)

    def reserve(self, run_id: str, count: int) -> tuple[int, ...] | None:
        """Give ``count`` GPUs to a run, lowest index first, or None while fewer are free.

        A run that already holds some gets the same ones again. Raises ValueError for a negative count.
        """
        if count < 0:
            raise ValueError(f"a run cannot reserve {count} GPUs")
        if run_id in self._held:
            return self._held[run_id]
        free = self.free
        if count > len(free):
            return None
        self._held[run_id] = free[:count]
        return self._held[run_id]

    def hold(self, run_id: str, indices: Iterable[int]) -> None:
        """Record what a run already uses, even GPUs that another run holds or that are gone from the host."""
        self._held[run_id] = tuple(sorted(indices))

    def release(self, run_id: str) -> None:
        """Give back what a run holds; nothing happens if it holds nothing."""
        self._held.pop(run_id, None)
