"""One dataset, opened to learn from: checked against its hash, then read whole or in blocks.

What fits into memory is best read at once (:meth:`OfflineDataset.transitions`), the rest in parts of whole episodes
(:meth:`in_parts`). :meth:`batches` reads blocks in random order and mixes the rows of several of them, and
:meth:`rows_at` answers for single rows; both keep no more blocks than ``cache_bytes`` hold.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.dataset_files import data_file, spaces
from mosaic_protocol.datasets import DatasetEntry, DatasetRegistry, DatasetsError
from mosaic_protocol.datasets.registry import BROUGHT_VARIABLE, entry_of
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.errors import UsageError
from mosaic_worker.offline.spaces import space_of
from mosaic_worker.offline.streamed import StreamedTransitions
from mosaic_worker.offline.transitions import Batch, Transitions

CACHE_BYTES = 256 * 2**20
_MOST_BLOCK_ROWS = 16_384
_BLOCKS_MIXED = 8
"""Blocks whose rows are drawn together: more mix better and take more memory."""


def open_dataset(
    name: str,
    *,
    paths: MosaicPaths | None = None,
    verify: bool = True,
    cache_bytes: int = CACHE_BYTES,
    progress: Callable[[int], None] = lambda read: None,
) -> OfflineDataset:
    """Open a dataset by its name, or by its folder when the name has a slash in it. Raises UsageError in one sentence:
    no such name (with the nearest one), changed since it was written, made by a newer version, columns missing.

    ``verify``: hash the data first, and refuse it when it is not what the manifest describes. ``progress`` is told the
    bytes that were hashed so far. ``cache_bytes`` bounds what batches and rows keep in memory.
    """
    try:
        entry = _entry(name, paths or MosaicPaths.from_environment())
        entry.require_readable()
        if verify:
            entry.require_whole(progress)
        return OfflineDataset(entry, cache_bytes)
    except DatasetsError as error:
        raise UsageError(_naming(str(error), name)) from error


def _entry(name: str, paths: MosaicPaths) -> DatasetEntry:
    brought = os.environ.get(BROUGHT_VARIABLE)
    if brought and "/" not in name and (Path(brought) / name).is_dir():
        return entry_of(Path(brought) / name)
    if "/" not in name:
        return DatasetRegistry(paths).find(name)
    return entry_of(Path(name))


def _naming(sentence: str, name: str) -> str:
    short = name[:80]
    return sentence if short in sentence else f"the dataset {short!r} cannot be used: {sentence}"


class OfflineDataset:
    """An open dataset. Belongs to one thread; close it, or use it in a ``with``."""

    def __init__(self, entry: DatasetEntry, cache_bytes: int = CACHE_BYTES) -> None:
        """Raises DatasetsError."""
        self.entry, self.name, self.manifest = entry, entry.name, entry.manifest
        self._observation_form = spaces.parsed(self.manifest.observation_space)
        self._action_form = spaces.parsed(self.manifest.action_space)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(data_file.opened(entry.data, self.manifest.layout))
        self._usable = np.flatnonzero(self._file.follows | self._file.terminals)
        self._require_as_told()
        self._cache_bytes = cache_bytes
        self._cache: OrderedDict[int, Transitions] = OrderedDict()

    def _require_as_told(self) -> None:
        found, told = (self._file.steps, len(self._file.starts) - 1), (self.manifest.steps, self.manifest.episodes)
        if found != told:
            raise DatasetsError(
                f"it has {found[0]:,} steps in {found[1]:,} episodes, its manifest says {told[0]:,} in {told[1]:,}"
            )
        if not len(self._usable):
            raise DatasetsError("no step can be learned from: the observations that they led to are missing")

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def sha256(self) -> str:
        return self.manifest.sha256

    @property
    def env_id(self) -> str:
        """Empty where nobody knows."""
        return self.manifest.env_id or ""

    @property
    def rows(self) -> int:
        """Transitions that can be learned from."""
        return len(self._usable)

    @property
    def episodes(self) -> int:
        return len(self._file.starts) - 1

    @cached_property
    def observation_space(self) -> gym.Space[Any]:
        return space_of(self._observation_form)

    @cached_property
    def action_space(self) -> gym.Space[Any]:
        return space_of(self._action_form)

    @cached_property
    def observation_width(self) -> int:
        """Numbers in a flattened observation."""
        return spaces.width(self._observation_form)

    @cached_property
    def row_bytes(self) -> int:
        """What one transition takes in memory."""
        actions = 2 if self.is_discrete else spaces.width(self._action_form)
        return 4 * (2 * self.observation_width + actions + 1) + 2

    @property
    def is_discrete(self) -> bool:
        return bool(self._action_form["type"] == "Discrete")

    def describe(self) -> dict[str, str]:
        """What a checkpoint keeps about the data that it learned from."""
        return {"name": self.name, "sha256": self.sha256}

    # ---- all of it -----------------------------------------------------------------------------------------------

    def transitions(self) -> Transitions:
        """Everything in memory: :attr:`row_bytes` times :attr:`rows`. Raises UsageError."""
        return self._read(0, self._file.steps)

    def in_parts(self) -> StreamedTransitions:
        """Everything as well, read in parts whenever it is asked for."""
        return StreamedTransitions(self)

    def parts(self, most_bytes: int) -> Iterator[Transitions]:
        """Parts of whole episodes that take about so much memory; a longer episode is a part of its own. Raises
        UsageError."""
        starts, most_rows = self._file.starts, max(1, most_bytes // self.row_bytes)
        first = 0
        while first < self.episodes:
            behind = max(first + 1, int(np.searchsorted(starts, starts[first] + most_rows, side="right")) - 1)
            if self._usable_within(int(starts[first]), int(starts[behind])):
                yield self._read(int(starts[first]), int(starts[behind]))
            first = behind

    def _usable_within(self, first: int, behind: int) -> bool:
        at = np.searchsorted(self._usable, [first, behind])
        return bool(at[1] > at[0])

    def _read(self, first: int, behind: int) -> Transitions:
        try:
            return self._converted(self._file.read(first, behind), first, behind)
        except DatasetsError as error:
            raise UsageError(f"the dataset {self.name!r} cannot be used: {error}") from error

    def _converted(self, steps: data_file.Steps, first: int, behind: int) -> Transitions:
        usable = (self._file.follows | self._file.terminals)[first:behind]
        keep: Any = slice(None) if usable.all() else np.flatnonzero(usable)
        starts, returns = self._episodes_within(steps.rewards, usable, first, behind)
        return Transitions(
            observations=spaces.flattened(self._observation_form, steps.observations)[keep],
            actions=self._actions(steps.actions)[keep],
            rewards=steps.rewards.astype(np.float32)[keep],
            next_observations=spaces.flattened(self._observation_form, steps.next_observations)[keep],
            terminals=self._file.terminals[first:behind][keep],
            timeouts=self._file.timeouts[first:behind][keep],
            episode_starts=starts,
            episode_returns=returns,
        )

    def _episodes_within(
        self, rewards: NDArray[Any], usable: NDArray[np.bool_], first: int, behind: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Where episodes begin among the rows that are kept, and their returns; episodes with no row are left out."""
        inner = self._file.starts[(self._file.starts > first) & (self._file.starts < behind)] - first
        starts = np.concatenate([[0], inner]).astype(np.int64)
        returns = np.add.reduceat(rewards.astype(np.float64), starts) if len(rewards) else np.zeros(0)
        rows = np.add.reduceat(usable.astype(np.int64), starts)
        kept = rows > 0
        return np.concatenate([[0], np.cumsum(rows[kept])]).astype(np.int64), returns[kept]

    def _actions(self, values: dict[spaces.Leaf, NDArray[Any]]) -> NDArray[Any]:
        form = self._action_form
        if form["type"] not in ("Box", "Discrete"):
            raise DatasetsError(f"actions of the kind {form['type']!r} cannot be learned from: Box and Discrete can")
        if not self.is_discrete:
            return spaces.flattened(form, values)
        column = values[()]
        return spaces.choices(column.reshape(len(column)), int(form["n"]), int(form.get("start", 0)))

    # ---- more than fits into memory ------------------------------------------------------------------------------

    @cached_property
    def _block_rows(self) -> int:
        fits = self._cache_bytes // (4 * _BLOCKS_MIXED * self.row_bytes)
        return int(max(1, min(_MOST_BLOCK_ROWS, fits)))

    @property
    def _blocks(self) -> int:
        return math.ceil(self._file.steps / self._block_rows)

    def _range(self, number: int) -> tuple[int, int]:
        first = number * self._block_rows
        return first, min(first + self._block_rows, self._file.steps)

    def _block(self, number: int) -> Transitions:
        if number not in self._cache:
            while self._cache and (len(self._cache) + 1) * self._block_rows * self.row_bytes > self._cache_bytes // 2:
                self._cache.popitem(last=False)
            self._cache[number] = self._read(*self._range(number))
        self._cache.move_to_end(number)
        return self._cache[number]

    def rows_at(self, numbers: NDArray[np.int64]) -> Batch:
        """Transitions by their numbers (0 to :attr:`rows`), in this order. Raises UsageError."""
        steps = self._usable[numbers]
        of_block = steps // self._block_rows
        order = np.argsort(of_block, kind="stable")
        parts = []
        for number in np.unique(of_block).tolist():
            inside = steps[order][of_block[order] == number]
            first = np.searchsorted(self._usable, number * self._block_rows)
            parts.append(Batch.of(self._block(number), np.searchsorted(self._usable, inside) - first))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return Batch.joined(parts).take(back)

    def batches(self, size: int, generator: np.random.Generator) -> Iterator[Batch]:
        """Batches without end. Each round has every row once, in an order that mixes the rows of a few blocks."""
        left: Batch | None = None
        while True:
            order = generator.permutation(self._blocks)
            for group in np.array_split(order, math.ceil(len(order) / _BLOCKS_MIXED)):
                parts = [Batch.of(self._read(*self._range(int(number))), slice(None)) for number in group]
                mixed = Batch.joined([*([left] if left else []), *parts])
                mixed = mixed.take(generator.permutation(mixed.size))
                whole = mixed.size - mixed.size % size
                for first in range(0, whole, size):
                    yield mixed.take(slice(first, first + size))
                left = mixed.take(slice(whole, None)) if whole < mixed.size else None

    def close(self) -> None:
        self._cache.clear()
        self._stack.close()

    def __enter__(self) -> OfflineDataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
