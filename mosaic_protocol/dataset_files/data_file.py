"""The steps of a dataset in the order in which they were made, whatever the layout of the file.

``terminals`` are true terminations. After a timeout the episode would have gone on, so its step is worth learning from
only where the observation that it led to is known: recorded episodes have it, and so have columns with
``next_observations``; in other columns the next row is the first of another episode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.dataset_files import safe_hdf5
from mosaic_protocol.dataset_files.safe_hdf5 import DAMAGED, column, unreadable, values
from mosaic_protocol.dataset_files.spaces import Leaf
from mosaic_protocol.datasets.errors import DatasetsError
from mosaic_protocol.datasets.manifest import FLAT

OBSERVATIONS, ACTIONS, REWARDS = "observations", "actions", "rewards"
NEXT, TERMINALS, TIMEOUTS = "next_observations", "terminals", "timeouts"
TERMINATIONS, TRUNCATIONS = "terminations", "truncations"
ACTORS = "infos/actor"
_INDEX = "_index_"
"""Before the place of a part in a tuple."""
_PLACE = re.compile(rf"{_INDEX}[0-9]{{1,9}}")
_EPISODE = re.compile(r"episode_[0-9]{1,12}")


@dataclass(frozen=True)
class Steps:
    """Some consecutive steps, with the values as the file has them, by their place in the space."""

    observations: dict[Leaf, NDArray[Any]]
    actions: dict[Leaf, NDArray[Any]]
    rewards: NDArray[Any]
    next_observations: dict[Leaf, NDArray[Any]]
    """Of a step that :attr:`DataFile.follows` does not name: its own observation."""

    def __len__(self) -> int:
        return len(self.rewards)


class DataFile(Protocol):
    """An open file. ``starts`` has the first step of each episode, and the number of steps at its end."""

    steps: int
    starts: NDArray[np.int64]
    terminals: NDArray[np.bool_]
    timeouts: NDArray[np.bool_]
    follows: NDArray[np.bool_]
    """Whether the observation that a step led to is known."""

    def read(self, first: int, behind: int) -> Steps:
        """Steps of a range. Raises DatasetsError."""
        ...

    def actors(self, number: int) -> list[str]:
        """Who acted in each step of an episode; nothing where the file does not say."""
        ...

    def recorded_as(self, number: int) -> int | None:
        """The number that an episode has in the run it was recorded in; None where the file does not say."""
        ...


@contextmanager
def opened(path: Path, layout: str) -> Iterator[DataFile]:
    """Raises DatasetsError in one sentence, also for a column that is missing (named)."""
    with safe_hdf5.opened(path) as file:
        with _told_plainly(path):
            found: DataFile = FlatFile(file, path) if layout == FLAT else EpisodesFile(file, path)
        yield found


@contextmanager
def _told_plainly(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise unreadable(path, error) from error


class FlatFile:
    """Columns of all steps."""

    def __init__(self, file: h5py.File, path: Path) -> None:
        self._path = path
        self._columns = _flat_columns(file, path)
        named = column(file, ACTORS, path) if ACTORS in file else None
        self._actors = named if named is not None and named.dtype.kind == "S" else None
        self.steps = len(self._columns[REWARDS])
        self.terminals = values(self._columns[TERMINALS]).reshape(-1).astype(np.bool_)
        given = self._columns.get(TIMEOUTS)
        timeouts = np.zeros(self.steps, np.bool_) if given is None else values(given).reshape(-1).astype(np.bool_)
        timeouts[-1:] = True  # the data is cut off there, and no row may run on into other data
        self.timeouts = timeouts & ~self.terminals
        ends = self.terminals | self.timeouts
        self.starts = np.concatenate([[0], np.flatnonzero(ends) + 1]).astype(np.int64)
        self.has_next = NEXT in self._columns
        self.follows = np.ones(self.steps, np.bool_) if self.has_next else ~ends

    def read(self, first: int, behind: int) -> Steps:
        with _told_plainly(self._path):
            return self._read(first, behind)

    def _read(self, first: int, behind: int) -> Steps:
        columns = self._columns
        observations = values(columns[OBSERVATIONS], first, behind + (not self.has_next))
        if self.has_next:
            following = values(columns[NEXT], first, behind)
        else:
            observations, following = observations[: behind - first], observations[1:].copy()
            if len(following) < len(observations):  # the last row of all
                following = np.concatenate([following, observations[-1:]])
            unknown = np.flatnonzero(~self.follows[first:behind])
            following[unknown] = observations[unknown]
        rewards = values(columns[REWARDS], first, behind).reshape(behind - first)
        return Steps({(): observations}, {(): values(columns[ACTIONS], first, behind)}, rewards, {(): following})

    def actors(self, number: int) -> list[str]:
        if self._actors is None:
            return []
        found = values(self._actors, int(self.starts[number]), int(self.starts[number + 1]))
        return [name.decode(errors="replace") for name in found.tolist()]

    def recorded_as(self, number: int) -> int | None:
        return None


def _flat_columns(file: h5py.File, path: Path) -> dict[str, h5py.Dataset]:
    _require(file, (OBSERVATIONS, ACTIONS, REWARDS, TERMINALS), path)
    names = (OBSERVATIONS, ACTIONS, REWARDS, TERMINALS, TIMEOUTS, NEXT)
    found = {name: column(file, name, path) for name in names if name in file}
    steps = len(found[REWARDS])
    for name, one in found.items():
        if not one.shape or len(one) != steps:
            raise DatasetsError(f"{path.name} has {steps:,} rewards and {len(one) if one.shape else 0:,} {name}")
        if name in (REWARDS, TERMINALS, TIMEOUTS) and one.size != steps:
            raise DatasetsError(f"{path.name} has more than one number for each step in {name}")
    return found


class EpisodesFile:
    """A group for each episode, with one more observation than actions."""

    def __init__(self, file: h5py.File, path: Path) -> None:
        self._file, self._path = file, path
        self.names = _episode_names(file, path)
        lengths, ended, cut = [], [], []
        for name in self.names:
            group = file[name]
            _require(group, (OBSERVATIONS, ACTIONS, REWARDS, TERMINATIONS, TRUNCATIONS), path)
            lengths.append(column(group, REWARDS, path).size)
            ended.append(values(column(group, TERMINATIONS, path)))
            cut.append(values(column(group, TRUNCATIONS, path)))
        self.steps = sum(lengths)
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.terminals = np.concatenate([*ended, []]).astype(np.bool_)
        self.timeouts = np.concatenate([*cut, []]).astype(np.bool_) & ~self.terminals
        if len(self.terminals) != self.steps or len(self.timeouts) != self.steps:
            raise DatasetsError(f"{path.name} has episodes with more or fewer ends than rewards")
        self.follows = np.ones(self.steps, np.bool_)

    def read(self, first: int, behind: int) -> Steps:
        with _told_plainly(self._path):
            parts = [self._part(number, first, behind) for number in self.touched(first, behind)]
        if not parts:
            raise DatasetsError(f"{self._path.name} has no step {first}")
        return _joined(parts) if len(parts) > 1 else parts[0]

    def touched(self, first: int, behind: int) -> range:
        """The episodes that have steps of a range."""
        at = np.searchsorted(self.starts, [first, behind - 1], side="right") - 1
        return range(int(at[0]), int(at[1]) + 1) if behind > first else range(0)

    def actors(self, number: int) -> list[str]:
        group = self._file[self.names[number]]
        if ACTORS not in group:
            return []
        found = column(group, ACTORS, self._path)
        steps = int(self.starts[number + 1] - self.starts[number])
        if found.dtype.kind != "O" or found.shape != (steps,):
            return []
        return [name.decode(errors="replace") for name in values(found).tolist()]

    def recorded_as(self, number: int) -> int | None:
        with _told_plainly(self._path):
            found = self._file[self.names[number]].attrs.get("source_episode")
        return int(found) if isinstance(found, int | np.integer) else None

    def _part(self, number: int, first: int, behind: int) -> Steps:
        group, begin = self._file[self.names[number]], int(self.starts[number])
        low, high = max(first - begin, 0), min(behind, int(self.starts[number + 1])) - begin
        seen = {path: values(one, low, high + 1) for path, one in _columns(group, OBSERVATIONS, self._path).items()}
        if any(len(one) != high - low + 1 for one in seen.values()):
            raise DatasetsError(f"{self._path.name}: {self.names[number]} must have one more observation than rewards")
        actions = {path: values(one, low, high) for path, one in _columns(group, ACTIONS, self._path).items()}
        if any(len(one) != high - low for one in actions.values()):
            raise DatasetsError(f"{self._path.name}: {self.names[number]} has fewer actions than rewards")
        before = {path: one[:-1] for path, one in seen.items()}
        after = {path: one[1:] for path, one in seen.items()}
        rewards = values(column(group, REWARDS, self._path), low, high).reshape(high - low)
        return Steps(before, actions, rewards, after)


def _joined(parts: list[Steps]) -> Steps:
    def whole(name: str) -> dict[Leaf, NDArray[Any]]:
        columns = [getattr(part, name) for part in parts]
        if any(one.keys() != columns[0].keys() for one in columns):
            raise DatasetsError(f"{name} of some episodes have other parts than those of others")
        return {path: np.concatenate([one[path] for one in columns]) for path in columns[0]}

    rewards = np.concatenate([part.rewards for part in parts])
    try:
        return Steps(whole(OBSERVATIONS), whole(ACTIONS), rewards, whole(NEXT))
    except ValueError as error:
        raise DatasetsError("values of some episodes have another shape than those of others") from error


def _columns(group: h5py.Group, name: str, path: Path, at: Leaf = ()) -> dict[Leaf, h5py.Dataset]:
    """The parts of observations or actions: one column, or groups of them for dictionaries and tuples."""
    if group.get(name, getclass=True) is not h5py.Group:
        return {at: column(group, name, path)}
    found: dict[Leaf, h5py.Dataset] = {}
    for part in group[name]:
        key = int(part.removeprefix(_INDEX)) if _PLACE.fullmatch(part) else part
        found |= _columns(group[name], part, path, (*at, key))
    return found


def _episode_names(file: h5py.File, path: Path) -> list[str]:
    found = [name for name in file if _EPISODE.fullmatch(name) and file.get(name, getclass=True) is h5py.Group]
    if not found:
        raise DatasetsError(f"{path.name} has no episodes: neither episode_0 nor columns of steps")
    return sorted(found, key=lambda name: int(name.removeprefix("episode_")))


def _require(group: h5py.Group, names: tuple[str, ...], path: Path) -> None:
    if missing := [name for name in names if name not in group]:
        where = f" in {group.name.strip('/')}" if group.name != "/" else ""
        raise DatasetsError(f"{path.name} has no {' and no '.join(missing)}{where}")
