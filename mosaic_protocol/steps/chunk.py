"""A chunk of steps as one record: sealed from what was collected, and read again.

The body holds the columns one after the other, then the heap, compressed with zstd at its fastest: about a third of
the size for small observations at a seventh of the time that zlib takes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import count, repeat
from typing import Any, TypeVar

import msgspec
import zstandard

from mosaic_protocol.events import EndedEpisode, StepChunk, TrainingStep
from mosaic_protocol.steps import heap as heap_entries
from mosaic_protocol.steps.columns import SCHEMA_VERSION, Column, Path, StepSchema, has_column, join, slices
from mosaic_protocol.steps.episode_groups import EpisodeGroup

EPISODE, AGENT, ACTOR, FLAGS, REWARD, VALUE = "episode", "agent", "actor", "flags", "reward", "value"
OBSERVATION, ACTION = "observation", "action"
TERMINATED, TRUNCATED, HAS_VALUE = 1, 2, 4
FIXED_COLUMNS = (
    Column((EPISODE,), "i8"),
    Column((AGENT,), "u1"),
    Column((ACTOR,), "u1"),
    Column((FLAGS,), "u1"),
    Column((REWARD,), "f8"),
    Column((VALUE,), "f8"),
)
"""What every schema begins with."""

NAME, BEGIN, END, FINAL, LEAF, EXTRAS, EPISODES = "name", "begin", "end", "final", "leaf", "extras", "episodes"
"""Keys of the heap: the next name that agents and actors are numbered by; an episode that begins (number, agent, seed,
options) or ends (:class:`EndedEpisode`); the leaves of the observation after an episode's last step; a leaf that fits
no column (path, value); what else a step has to say (a dictionary); many whole episodes at once, with the first step
of the first one (:class:`~mosaic_protocol.steps.episode_groups.EpisodeGroup`): readers see the entries that it stands
for."""
UNDONE = "undone"
"""Among a step's extras: so many steps before it were undone. They stay recorded, as a branch; the episode goes on with
this step, even after an end."""

_TELL_OF_ENDS = (END.encode(), UNDONE.encode(), EPISODES.encode())
"""What the bytes of an entry hold that ends an episode or undoes an end. Extras may be large and next to none of them
undo anything, so they are not decoded to see that."""

MOST_STEP = 2**63 - 1
"""The highest number that a step of a run can have."""
MOST_RAW_BYTES = 256 * 1024 * 1024
"""What a body may grow to when it is read: a small record that claims more is not believed."""
MOST_ROWS = 65_536
"""Steps of one chunk, a hundred times as many as the recorder puts into one: reading costs time and memory by the step,
also where a step has hardly any bytes."""
DEEPEST = 64
"""How many parts a place within a value may have, and how many axes an array: NumPy has no more, and readers go down
one call for each."""
_LEVEL = 1
T = TypeVar("T")


NOT_AS_SAID = (TypeError, ValueError, LookupError, OverflowError, RecursionError)
"""What putting steps together raises where columns or entries of the heap are not what their names say: a checksum is
right for any content."""


class ChunkError(ValueError):
    """A chunk that is damaged, or that this version cannot read."""


class Ends:
    """How episodes ended within a chunk, as it is filled: those that are over after the last step, and those that go on
    after steps of theirs were undone."""

    def __init__(self) -> None:
        self.ended: dict[int, EndedEpisode] = {}
        self.undone: dict[int, None] = {}

    def end(self, episode: EndedEpisode) -> None:
        self.ended.pop(episode.episode, None)  # the newest end is the last
        self.ended[episode.episode] = episode

    def end_all(self, group: EpisodeGroup) -> None:
        """Episodes that begin and end here."""
        self.ended.update(zip(count(group.first_episode), group.ended(), strict=False))

    def undo(self, number: int) -> None:
        self.undone[number] = None
        self.ended.pop(number, None)


def new_compressor() -> zstandard.ZstdCompressor:
    """For one thread at a time; to make one costs a third of what it then does."""
    return zstandard.ZstdCompressor(level=_LEVEL)


def seal(
    schema: StepSchema,
    rows: int,
    columns: bytes,
    heap: bytes,
    *,
    first_step: int,
    episodes: tuple[int, int],
    ends: Ends | None = None,
    compressor: zstandard.ZstdCompressor | None = None,
) -> StepChunk:
    """Make the record of some steps. ``columns`` holds those of the schema one after the other, ``episodes`` is the
    smallest and the largest number of an episode among them, ``ends`` what is known of their ends: else the heap is
    searched for them. ``compressor``: of a caller that seals many chunks, one after the other. Raises
    :class:`ChunkError` for a heap that is none."""
    raw = columns + heap
    ends = ends or _ends_that_stand(rows, columns, heap)
    body = (compressor or new_compressor()).compress(raw)
    return StepChunk(
        first_step=first_step,
        count=rows,
        first_episode=episodes[0],
        last_episode=episodes[1],
        schema=schema,
        heap_bytes=len(heap),
        raw_bytes=len(raw),
        crc=checksum(first_step, rows, body),
        episodes=list(ends.ended.values()),
        undone=list(ends.undone),
        body=body,
    )


def _ends_that_stand(rows: int, columns: bytes, heap: bytes) -> Ends:
    ends = Ends()
    for entry in _in_a_chunk(heap_entries.raw_entries_with(heap, *_TELL_OF_ENDS)):
        if entry.key == END:
            ends.end(value_of(entry, EndedEpisode))
        elif entry.key == EPISODES:
            ends.end_all(checked(value_of(entry, EpisodeGroup), entry.row, rows))
        elif entry.key == EXTRAS and 0 <= entry.row < rows and _undoes(entry):
            (number,) = struct.unpack_from(
                "<q", columns, 8 * entry.row
            )  # the first column is the number of the episode
            ends.undo(number)
    return ends


def _undoes(entry: heap_entries.RawEntry) -> bool:
    try:
        return undone_steps(value_of(entry, object)) > 0
    except ChunkError:  # the reader of these extras says so; here they cost no other step
        return False


def undone_steps(extras: object) -> int:
    """How many steps before this one were undone, by what the step has to say."""
    steps = extras.get(UNDONE) if isinstance(extras, dict) else None
    return steps if isinstance(steps, int) and steps > 0 else 0


def checksum(first_step: int, rows: int, body: bytes) -> int:
    """Covers the place of the steps as well as their content."""
    return zlib.crc32(body, zlib.crc32(f"{first_step}+{rows}".encode()))


def check(record: StepChunk) -> None:
    """Raise :class:`ChunkError` unless the record is whole and of a version that can be read. Cheap: nothing is
    unpacked."""
    check_schema(record.schema)
    if not 0 <= record.first_step <= MOST_STEP - record.count or record.count <= 0 or record.heap_bytes < 0:
        raise ChunkError(f"a chunk of {record.count} steps from {record.first_step} on is impossible")
    if record.crc != checksum(record.first_step, record.count, record.body):
        raise ChunkError(
            f"the checksum of steps {record.first_step} to {record.first_step + record.count - 1} is wrong"
        )
    if record.raw_bytes != record.schema.width * record.count + record.heap_bytes or record.raw_bytes > MOST_RAW_BYTES:
        raise ChunkError(f"a body of {record.raw_bytes:,} bytes does not fit the columns of {record.count} steps")
    if record.count > MOST_ROWS:
        raise ChunkError(f"a chunk of {record.count:,} steps: more than {MOST_ROWS:,} are not read at once")
    if sum(column.unpacked_size for column in record.schema.columns) * record.count > MOST_RAW_BYTES:
        raise ChunkError(f"the columns of {record.count} steps hold next to nothing and would take the memory to read")


def check_schema(schema: StepSchema) -> None:
    """Raise :class:`ChunkError` unless these can be the columns of steps, and of a version that can be read."""
    if schema.v > SCHEMA_VERSION:
        raise ChunkError(f"steps of schema version {schema.v}, newer than {SCHEMA_VERSION}: update MOSAIC")
    if unknown := [column.dtype for column in schema.columns if not has_column(column.dtype)]:
        raise ChunkError(f"columns of an unknown type: {', '.join(unknown[:3])}")
    names = {column.path for column in schema.columns}
    if (
        schema.columns[: len(FIXED_COLUMNS)] != FIXED_COLUMNS
        or any(size < 0 for column in schema.columns for size in column.shape)
        or any(max(len(column.path), len(column.shape)) > DEEPEST for column in schema.columns)
        or () in names
        or len(names) < len(schema.columns)
    ):
        raise ChunkError("a chunk whose columns are not those of steps")


def value_of(entry: heap_entries.RawEntry, kind: type[T]) -> T:
    """The value of an entry whose kind is known. Raises :class:`ChunkError` where it is another."""
    try:
        return msgspec.msgpack.decode(entry.value, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ChunkError(f"an entry {entry.key!r} in the heap of a chunk cannot be read: {error}") from error


def _in_a_chunk(entries: Iterator[heap_entries.RawEntry]) -> Iterator[heap_entries.RawEntry]:
    try:
        yield from entries
    except ValueError as error:
        raise ChunkError(str(error)) from error


def _unpacked(body: bytes, size: int) -> bytes:
    """A body that says itself how large it becomes is not bounded by the decompressor: it is asked first."""
    try:
        told = zstandard.get_frame_parameters(body).content_size
        known = told not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR)
        raw = None if known and told != size else zstandard.ZstdDecompressor().decompress(body, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ChunkError(f"the body of a chunk cannot be unpacked: {error}") from error
    if raw is None or len(raw) != size:
        raise ChunkError(f"a body of {told if raw is None else len(raw):,} bytes where {size:,} were announced")
    return raw


def not_as_said(error: Exception) -> ChunkError:
    """For one of :data:`NOT_AS_SAID`."""
    return error if isinstance(error, ChunkError) else ChunkError(f"steps of a chunk cannot be put together: {error}")


def checked(group: EpisodeGroup, row: int, rows: int) -> EpisodeGroup:
    """The same; raises :class:`ChunkError` where it cannot begin at this row of so many."""
    if not group.is_sound:
        raise ChunkError("a group of episodes in the heap of a chunk does not tell the same of each")
    if not 0 <= row <= rows - sum(group.lengths):
        raise ChunkError(f"a group of {sum(group.lengths):,} steps from row {row} on in a chunk of {rows}")
    return group


def expanded(entry: heap_entries.HeapEntry, rows: int) -> Iterable[heap_entries.HeapEntry]:
    """What an entry of a chunk of so many rows stands for: itself, unless it is a group of episodes. Raises
    :class:`ChunkError`."""
    if entry.key == LEAF or entry.key == FINAL:
        _require_shallow([entry.value] if entry.key == LEAF else entry.value)
    if entry.key != EPISODES:
        return (entry,)
    try:
        group = checked(msgspec.convert(entry.value, EpisodeGroup), entry.row, rows)
    except msgspec.ValidationError as error:
        raise ChunkError(f"a group of episodes in the heap of a chunk cannot be read: {error}") from error
    return _entries_of(group, entry.row)


def _require_shallow(parts: Iterable[tuple[Path, Any]]) -> None:
    if any(len(path) > DEEPEST for path, _ in parts):
        raise ChunkError("a value in the heap of a chunk has parts that lie too deep to be put together")


def _entries_of(group: EpisodeGroup, row: int) -> Iterator[heap_entries.HeapEntry]:
    made = heap_entries.HeapEntry
    for ended, final, extras in zip(group.ended(), group.finals, group.extras, strict=True):
        yield made(row, BEGIN, [ended.episode, ended.agent_id, ended.seed, {}])
        if extras:
            yield made(row, EXTRAS, extras)
        row += ended.length
        yield made(row - 1, FINAL, [[[], final]])
        yield made(row - 1, END, ended)


class OpenedChunk:
    """A chunk unpacked for reading. Raises :class:`ChunkError` when it is damaged."""

    def __init__(self, record: StepChunk) -> None:
        check(record)
        self.record = record
        self._raw = raw = _unpacked(record.body, record.raw_bytes)
        self._places = {column.path: (column, part) for column, part in slices(record.schema, record.count)}
        self.heap = raw[len(raw) - record.heap_bytes :]

    def raw_column(self, path: Path) -> bytes:
        """The bytes of one column, for readers with NumPy."""
        return self._raw[self._places[path][1]]

    def column(self, path: Path) -> list[Any]:
        """The values of one column, a step each."""
        column, part = self._places[path]
        return column.unpack(self._raw[part], self.record.count)

    @cached_property
    def entries(self) -> list[heap_entries.HeapEntry]:
        """Those of the heap, each episode of a group with entries of its own."""
        try:
            rows = self.record.count
            return [one for entry in heap_entries.entries(self.heap) for one in expanded(entry, rows)]
        except NOT_AS_SAID as error:
            raise not_as_said(error) from error

    def raw_entries(self) -> Iterator[heap_entries.RawEntry]:
        """The entries of the heap with values that are not decoded."""
        return _in_a_chunk(heap_entries.raw_entries(self.heap))

    @cached_property
    def names(self) -> list[str]:
        """What agents and actors are numbered by."""
        return [str(value_of(entry, object)) for entry in self.raw_entries() if entry.key == NAME]

    def steps(self, *, observations: bool = True) -> Iterator[TrainingStep]:
        """All steps in order. Without ``observations`` these are None and not unpacked: pictures cost many times what
        the rest of their step does."""
        try:
            yield from self._steps(observations)
        except NOT_AS_SAID as error:
            raise not_as_said(error) from error

    def _steps(self, observations: bool) -> Iterator[TrainingStep]:
        once: dict[int, dict[str, Any]] = {}
        for entry in self.entries:
            once.setdefault(entry.row, {})[entry.key] = entry.value
        seen = self._values(OBSERVATION) if observations else repeat(None, self.record.count)
        fixed = (self.column(column.path) for column in FIXED_COLUMNS)
        times, t = dict(self.record.times), self.record.t
        for row, (episode, agent, actor, flags, reward, value, observation, action) in enumerate(
            zip(*fixed, seen, self._values(ACTION), strict=True)
        ):
            t = times.get(row, t)
            beside = once.get(row, {})
            final = beside.get(FINAL) if observations else None
            yield TrainingStep(
                t=t,
                step=self.record.first_step + row,
                episode=episode,
                agent_id=self.name(agent),
                actor=self.name(actor),
                observation=observation,
                action=action,
                reward=reward,
                terminated=bool(flags & TERMINATED),
                truncated=bool(flags & TRUNCATED),
                value=value if flags & HAS_VALUE else None,
                final_observation=None if final is None else join([(tuple(path), part) for path, part in final]),
                info=told if isinstance(told := beside.get(EXTRAS), dict) else {},
            )

    def _values(self, name: str) -> Iterator[Any]:
        """The observation or the action of each step, put together; None where there is none."""
        columns = [(one.path[1:], self.column(one.path)) for one in self.record.schema.columns if one.path[0] == name]
        beside: dict[int, list[tuple[Path, Any]]] = {}
        for entry in self.entries:
            if entry.key == LEAF and entry.value[0][0] == name:
                beside.setdefault(entry.row, []).append((tuple(entry.value[0][1:]), entry.value[1]))
        if len(columns) == 1 and not columns[0][0] and not beside:
            yield from columns[0][1]
            return
        for row in range(self.record.count):
            leaves = [*((path, values[row]) for path, values in columns), *beside.get(row, ())]
            yield join(leaves) if leaves else None

    def name(self, number: int) -> str:
        """What an agent or an actor is called. Raises :class:`ChunkError` where nothing has that number."""
        if number >= len(self.names):
            raise ChunkError(f"a step refers to name {number} of {len(self.names)}")
        return self.names[number]
