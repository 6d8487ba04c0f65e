"""Episodes put together again from chunks of steps, as arrays: for readers that have NumPy. The daemon is none.

Several lanes write into one chunk, and an episode goes over many: :func:`read_episodes` sorts them apart and holds no
more than the episodes that are open, and the last one of each agent.

Steps that were undone are not among an episode's: it is the line that was played to its end. Where the others branched
off is in :attr:`RecordedEpisode.branches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.events import EndedEpisode, StepChunk, seed_number
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps.chunk import ChunkError, OpenedChunk
from mosaic_protocol.steps.columns import Path, join
from mosaic_protocol.steps.heap import HeapEntry

Leaves: TypeAlias = dict[Path, Any]
"""A value taken apart: each part with its place."""
ENDINGS = ("terminated", "truncated")
_PLAIN_SCALARS = {"i8": int, "f8": float, "b1": bool}
"""What the recorder writes for Python's own numbers."""


class FormError(ValueError):
    """Values of an episode that do not fit one array."""


@dataclass
class _Part:
    """Consecutive steps of an episode from one chunk."""

    numbers: NDArray[np.int64]
    columns: dict[Path, NDArray[Any]]
    beside: dict[int, Leaves]
    """Leaves that fit no column, by the place of the step in this part."""


@dataclass(frozen=True)
class Branch:
    """Steps that were made and undone."""

    place: int
    """The step of the episode that they were made instead of."""
    numbers: tuple[int, ...]
    """The numbers that they have in their run."""


@dataclass
class RecordedEpisode:
    """The steps of one agent from a reset to the end, or as far as they were recorded."""

    number: int
    agent_id: str = ""
    seed: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """What the environment's reset was given."""
    began: bool = False
    """Whether the first step is there."""
    ended: EndedEpisode | None = None
    actors: list[str] = field(default_factory=list)
    extras: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What else some steps have to say, by their place in the episode."""
    final: Leaves | None = None
    """The observation that the last step led to."""
    branches: list[Branch] = field(default_factory=list)
    has_hole: bool = False
    """Whether steps between its own are missing, which may have been its own, or undone some."""
    _parts: list[_Part] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.actors)

    @property
    def outcome(self) -> str:
        """``terminated``, ``truncated``, ``abandoned``, or nothing while it runs."""
        return self.ended.outcome if self.ended is not None else ""

    @property
    def is_whole(self) -> bool:
        """Whether it was played to its end and every step is here. Their number alone does not tell: of an episode
        with lost steps, as many may be here that were undone by them."""
        if not self.began or self.has_hole or self.ended is None:
            return False
        return self.outcome in ENDINGS and len(self) == self.ended.length

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers that the steps have in their run."""
        return np.concatenate([part.numbers for part in self._parts])

    @property
    def rewards(self) -> NDArray[np.float64]:
        return self._column((chunks.REWARD,))

    @property
    def terminated(self) -> NDArray[np.bool_]:
        return self._flag(chunks.TERMINATED)

    @property
    def truncated(self) -> NDArray[np.bool_]:
        return self._flag(chunks.TRUNCATED)

    @property
    def values(self) -> NDArray[np.float64] | None:
        """What the policy expected, NaN where it said nothing; None where it never did."""
        told = self._flag(chunks.HAS_VALUE)
        return np.where(told, self._column((chunks.VALUE,)), np.nan) if told.any() else None

    def observation(self, place: int) -> Leaves:
        """What was seen before a step, taken apart; empty where it was not recorded."""
        return self._leaves(chunks.OBSERVATION, place)

    def action(self, place: int) -> Any:
        """An action as the environment was given it; None where it was not recorded."""
        leaves = self._leaves(chunks.ACTION, place)
        return join(list(leaves.items())) if leaves else None

    def stacked(self, name: str) -> dict[Path, Any]:
        """All values of ``observation`` or ``action``: for each part an array whose first axis is the step, or a list
        of texts. Raises :class:`FormError` where a part changes its form within the episode."""
        found: dict[Path, Any] = {}
        for path in dict.fromkeys(path for part in self._parts for path in part.columns if path[0] == name):
            columns = [part.columns.get(path) for part in self._parts]
            kinds = {None if one is None else (one.dtype, one.shape[1:]) for one in columns}
            if len(kinds) != 1 or None in kinds:
                raise FormError(f"{_spoken(path)} changes its form within the episode")
            found[path[1:]] = np.concatenate([one for one in columns if one is not None])
        texts: dict[Path, list[Any]] = {}
        for place in range(len(self)) if any(part.beside for part in self._parts) else ():
            for path, value in self._leaves(name, place).items():
                if path not in found:
                    texts.setdefault(path, []).append(value)
        for path, values in texts.items():
            if len(values) != len(self) or not all(isinstance(value, str) for value in values):
                raise FormError(f"{_spoken((name, *path))} fits no array: it is neither numbers of one form nor text")
        return found | texts

    def add(
        self, opened: OpenedChunk, rows: NDArray[np.int64], beside: dict[int, list[HeapEntry]], after_hole: int = 0
    ) -> None:
        """Take the steps that a chunk has of this episode. ``after_hole``: the first step after the last gap."""
        if self._parts and self._parts[-1].numbers[-1] < after_hole:
            self.has_hole = True
        undone = {at: _undone(beside.get(int(row), ())) for at, row in enumerate(rows) if int(row) in beside}
        turns = [at for at, steps in undone.items() if steps]
        for first, behind in pairwise(dict.fromkeys([0, *turns, len(rows)])):
            if undone.get(first):
                self._undo(undone[first])
            self._add(opened, rows[first:behind], beside)
            for entry in beside.get(int(rows[behind - 1]), ()):
                if entry.key == chunks.END and (ended := _ended(entry)).episode == self.number:
                    self.end(ended)

    def end(self, ended: EndedEpisode) -> None:
        """It ended so, unless a later step undoes that."""
        if ended.length < len(self) and ended.outcome not in ENDINGS:  # the last ones were undone, and none followed
            self._undo(len(self) - ended.length)
        self.ended = ended

    def _undo(self, steps: int) -> None:
        place = len(self) - steps
        if place < 0:
            raise ChunkError(f"{steps} steps of {len(self)} of episode {self.number} are said to be undone")
        numbers = self.numbers
        self.branches.append(Branch(place, tuple(map(int, numbers[place:]))))
        self.ended = self.final = None
        del self.actors[place:]
        self.extras = {at: told for at, told in self.extras.items() if at < place}
        parts, self._parts = self._parts, []
        for part in parts:
            if (left := min(place, len(part.numbers))) > 0:
                columns = {path: column[:left] for path, column in part.columns.items()}
                beside = {at: leaves for at, leaves in part.beside.items() if at < left}
                self._parts.append(_Part(part.numbers[:left], columns, beside))
            place -= left

    def _add(self, opened: OpenedChunk, rows: NDArray[np.int64], beside: dict[int, list[HeapEntry]]) -> None:
        names = _array(opened, (chunks.ACTOR,))[rows]
        part = _Part(opened.record.first_step + rows, {}, {})
        for column in opened.record.schema.columns:
            part.columns[column.path] = _array(opened, column.path)[rows]
        for place, row in enumerate(rows):
            for entry in beside.get(int(row), ()):
                if entry.key == chunks.LEAF:
                    path, value = entry.value
                    if path[0] in (chunks.OBSERVATION, chunks.ACTION):
                        part.beside.setdefault(place, {})[tuple(path)] = value
                elif entry.key == chunks.EXTRAS and isinstance(entry.value, dict):
                    told = {name: value for name, value in entry.value.items() if name != chunks.UNDONE}
                    self.extras |= {len(self) + place: told} if told else {}
                elif entry.key == chunks.FINAL:
                    self.final = {tuple(path): value for path, value in entry.value}
        self.actors += [opened.name(int(number)) for number in names]
        self._parts.append(part)

    def begin(self, entry: HeapEntry) -> None:
        _, self.agent_id, seed, options = entry.value
        self.began, self.options = True, dict(options or {})
        self.seed = seed_number(seed)

    def _leaves(self, name: str, place: int) -> Leaves:
        for part in self._parts:
            if place < len(part.numbers):
                found = {path: _plain(column[place]) for path, column in part.columns.items() if path[0] == name}
                found |= {path: value for path, value in part.beside.get(place, {}).items() if path[0] == name}
                return {path[1:]: value for path, value in found.items()}
            place -= len(part.numbers)
        raise IndexError(f"episode {self.number} has {len(self)} steps")

    def _column(self, path: Path) -> NDArray[Any]:
        return np.concatenate([part.columns[path] for part in self._parts])

    def _flag(self, flag: int) -> NDArray[np.bool_]:
        return (self._column((chunks.FLAGS,)) & flag).astype(np.bool_)


def read_episodes(records: Iterable[StepChunk], only: int | None = None) -> Iterator[RecordedEpisode]:
    """Each episode as soon as its end is read, and last those that have none. ``only`` one of them by its number. An
    episode whose chunks do not follow each other has a hole. Raises
    :class:`~mosaic_protocol.steps.chunk.ChunkError` for damaged steps."""
    found: dict[int, RecordedEpisode] = {}
    ended: dict[str, list[int]] = {}
    """Episodes of each agent that ended: until it begins another one, it may undo the end."""
    next_step, after_hole = -1, 0
    for record in records:
        after_hole = record.first_step if record.first_step != next_step >= 0 else after_hole
        next_step = record.first_step + record.count
        try:
            over = list(_sorted_in(OpenedChunk(record), only, found, ended, after_hole))
        except chunks.NOT_AS_SAID as error:
            raise chunks.not_as_said(error) from error
        yield from over
    yield from found.values()


def _sorted_in(
    opened: OpenedChunk,
    only: int | None,
    found: dict[int, RecordedEpisode],
    ended: dict[str, list[int]],
    after_hole: int,
) -> Iterator[RecordedEpisode]:
    """Add the steps of a chunk to their episodes; those that are over for good, which leave ``found``."""
    beside: dict[int, list[HeapEntry]] = {}
    for entry in opened.entries:
        beside.setdefault(entry.row, []).append(entry)
    episodes = _array(opened, (chunks.EPISODE,))
    for number in sorted(set(episodes.tolist())):
        if only in (None, number):
            episode = found.setdefault(number, RecordedEpisode(number))
            episode.add(opened, np.flatnonzero(episodes == number), beside, after_hole)
    for number, entry in _marks(opened.entries):
        if entry.key == chunks.BEGIN:
            yield from (found.pop(past) for past in ended.pop(str(entry.value[1]), ()))
        if number not in found:
            continue
        if entry.key == chunks.BEGIN:
            found[number].begin(entry)
            continue
        if (end := _ended(entry)).outcome not in ENDINGS:  # noted with the first step of the next episode
            found[number].end(end)
        over = ended.setdefault(found[number].agent_id, [])
        over += [number] if number not in over else []


def _undone(entries: Iterable[HeapEntry]) -> int:
    """How many steps before this one were undone."""
    return max((chunks.undone_steps(entry.value) for entry in entries if entry.key == chunks.EXTRAS), default=0)


def _marks(entries: Iterable[HeapEntry]) -> Iterator[tuple[int, HeapEntry]]:
    """Beginnings and ends of episodes, with their numbers."""
    for entry in entries:
        if entry.key == chunks.END:
            yield _ended(entry).episode, entry
        elif entry.key == chunks.BEGIN:
            match entry.value:
                case [int(number), str(), _, dict() | None]:
                    yield number, entry
                case _:
                    raise ChunkError("the beginning of an episode cannot be read")


def _ended(entry: HeapEntry) -> EndedEpisode:
    try:
        return msgspec.convert(entry.value, EndedEpisode)
    except msgspec.ValidationError as error:
        raise ChunkError(f"the end of an episode cannot be read: {error}") from error


def _array(opened: OpenedChunk, path: Path) -> NDArray[Any]:
    column = next(column for column in opened.record.schema.columns if column.path == path)
    flat: NDArray[Any] = np.frombuffer(opened.raw_column(path), np.dtype(f"<{column.dtype}"))
    return flat.reshape((opened.record.count, *column.shape))


def _plain(value: Any) -> Any:
    """One step's value: an array that may be written to, or a number of the kind that was recorded."""
    if isinstance(value, np.ndarray):
        return value.copy()
    kind = _PLAIN_SCALARS.get(value.dtype.str.lstrip("<|="))
    return kind(value) if kind is not None else value


def _spoken(path: Path) -> str:
    return "/".join(map(str, path))
