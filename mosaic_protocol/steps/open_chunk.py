"""The chunk that is being filled: a file in the outbox, so that its steps survive the death of the worker.

The file is mapped into memory: a step is written into its columns and then counted, with one store of eight bytes. A
reader that comes after a crash finds every step that was counted, whole, and no other. The space is reserved before
the file is mapped: a page that a full disk cannot give would end the process with SIGBUS.

A chunk becomes the record with the sequence number that stands in the file. If the worker dies after the record was
appended and before the file says so, the number tells that the steps are in the journal already.

The word that counts the steps also says which of two places holds the numbers of the chunk, so that a new chunk begins
with the same single store that ends the old one.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import zstandard

from mosaic_protocol.events import StepChunk
from mosaic_protocol.regular_files import IrregularFileError, open_regular
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap as heap_entries
from mosaic_protocol.steps.columns import StepSchema, aligned

STREAM = "steps"
"""A journal stream of its own: what a run has to say about itself never waits behind its steps."""
SUFFIX = ".open"
_MAGIC = b"MOSSTEP1"
_COUNT_WORD, _HEAP_WORD, _PLACES = 1, 2, (4, 8)
_SECOND_PLACE = 1 << 63
_HEADER = struct.Struct("<QQQ")
_HEADER_AT, _SCHEMA_AT = 96, 128
"""Words of eight bytes: magic, count, bytes of heap, free, then two places of (sequence number, first step, next
episode, free); from byte 96 on capacity, heap capacity and length of the schema, which follows as JSON."""
MOST_FILE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class ChunkPlace:
    """Where a chunk stands in its run."""

    seq: int
    first_step: int
    next_episode: int


@dataclass(frozen=True)
class Layout:
    """Where things are in the file of an open chunk."""

    schema: StepSchema
    capacity: int
    heap_capacity: int

    @cached_property
    def encoded_schema(self) -> bytes:
        return msgspec.json.encode(self.schema)

    @cached_property
    def columns(self) -> list[tuple[int, int]]:
        """(offset, bytes a step) of each column."""
        found = []
        offset = aligned(_SCHEMA_AT + len(self.encoded_schema))
        for column in self.schema.columns:
            found.append((offset, column.width))
            offset = aligned(offset + column.width * self.capacity)
        return found

    @property
    def heap_at(self) -> int:
        offset, width = self.columns[-1]
        return aligned(offset + width * self.capacity)

    @property
    def file_bytes(self) -> int:
        return self.heap_at + self.heap_capacity


def path_of(outbox: Path, stream: str) -> Path:
    """The open chunk of a stream. Readers of journals take it for nothing of theirs."""
    return outbox / f"{stream}{SUFFIX}"


class OpenChunk:
    """The writer's side. Belongs to one process; not thread-safe. Rows are written through :attr:`memory` at the
    offsets of :attr:`layout`, and count when :meth:`commit` says so."""

    def __init__(self, path: Path, layout: Layout, place: ChunkPlace) -> None:
        """Make the file, replacing one that is there. Raises OSError where there is no space."""
        self.path, self.layout, self.place = path, layout, place
        self.rows = self.heap_used = 0
        self.ends = chunks.Ends()
        """Of the rows that are committed; the writer tells them."""
        self._compressor = chunks.new_compressor()
        self.turn = 0
        """Which place holds its numbers, as the word that counts the rows has it beside them."""
        draft = path.with_name(f"{path.name}.new")
        self._memory = _mapped_new_file(draft, layout.file_bytes)
        self.memory = memoryview(self._memory)
        self._words = self.memory[:_SCHEMA_AT].cast("Q")
        self.count = self._words[_COUNT_WORD : _COUNT_WORD + 1]
        """The word that counts the rows. A writer without a call to spare sets :attr:`rows`, then this to them and
        :attr:`turn`: what :meth:`commit` does."""
        schema = layout.encoded_schema
        _HEADER.pack_into(self.memory, _HEADER_AT, layout.capacity, layout.heap_capacity, len(schema))
        self.memory[_SCHEMA_AT : _SCHEMA_AT + len(schema)] = schema
        self._write_place(place)
        self.memory[: len(_MAGIC)] = _MAGIC
        draft.replace(path)
        self._heap_at = layout.heap_at

    def add_to_heap(self, entry: bytes | bytearray) -> bool:
        """Append an entry; False when it does not fit. It belongs to a row that is committed later."""
        end = self.heap_used + len(entry)
        if end > self.layout.heap_capacity:
            return False
        self.memory[self._heap_at + self.heap_used : self._heap_at + end] = entry
        self.heap_used = self._words[_HEAP_WORD] = end
        return True

    def take_back(self, heap_used: int) -> None:
        """Only so many bytes of the heap belong to rows that are committed: the row under way will not be."""
        self.heap_used = self._words[_HEAP_WORD] = heap_used

    def commit(self, rows: int = 1) -> None:
        """The rows from :attr:`rows` on are written: from now on they survive, all of them or none."""
        self.rows += rows
        self.count[0] = self.rows | self.turn

    def seal(self) -> StepChunk:
        """The record of the committed rows."""
        heap = bytes(self.memory[self._heap_at : self._heap_at + self.heap_used])
        about = (self.layout, self.rows, heap, self.place.first_step)
        return _sealed(self.memory, *about, self.ends, self._compressor)

    def begin_next(self, place: ChunkPlace) -> None:
        """The rows are in the journal: the file is free for the next ones."""
        self.turn ^= _SECOND_PLACE
        self._write_place(place)
        self.place, self.rows, self.ends = place, 0, chunks.Ends()
        self.count[0] = self.turn
        self.heap_used = self._words[_HEAP_WORD] = 0

    def close(self) -> None:
        self.count.release()
        self._words.release()
        self.memory.release()
        with suppress(BufferError):  # an array still looks at the columns; the mapping ends with it
            self._memory.close()

    def _write_place(self, place: ChunkPlace) -> None:
        start = _PLACES[bool(self.turn)]
        self._words[start], self._words[start + 1], self._words[start + 2] = (
            place.seq,
            place.first_step,
            place.next_episode,
        )


@dataclass(frozen=True)
class LeftChunk:
    """What a worker left in the file of its open chunk. ``record`` is None when no step was counted."""

    place: ChunkPlace
    record: StepChunk | None

    @property
    def after(self) -> ChunkPlace:
        """Where the next chunk stands once this one is in the journal."""
        if self.record is None:
            return self.place
        next_episode = max(self.place.next_episode, self.record.last_episode + 1)
        return ChunkPlace(self.place.seq + 1, self.place.first_step + self.record.count, next_episode)


def read_left(path: Path) -> LeftChunk | None:
    """Read the open chunk of a worker that is gone; None when there is none. The same bytes each time, so that it can
    be stored again. Raises :class:`~mosaic_protocol.steps.chunk.ChunkError` for a file that is damaged, OSError when it
    cannot be read now."""
    try:
        with open_regular(path) as file:
            data, modified = file.read(MOST_FILE_BYTES + 1), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    except IrregularFileError as error:
        raise chunks.ChunkError(f"{path} cannot be read: {error.strerror}") from error
    layout = _layout_of(path, data)
    words = memoryview(data)[:_SCHEMA_AT].cast("Q")
    start = _PLACES[bool(words[_COUNT_WORD] & _SECOND_PLACE)]
    place = ChunkPlace(words[start], words[start + 1], words[start + 2])
    rows, heap_used = words[_COUNT_WORD] & ~_SECOND_PLACE, words[_HEAP_WORD]
    if max(place.seq, place.first_step, place.next_episode) > chunks.MOST_STEP - rows:
        raise chunks.ChunkError(f"{path.name} claims steps from {place.first_step} on, which is impossible")
    if rows > layout.capacity or heap_used > layout.heap_capacity:
        raise chunks.ChunkError(f"{path.name} claims {rows} steps where {layout.capacity} fit")
    if not rows:
        return LeftChunk(place, None)
    heap = heap_entries.of_first_rows(data[layout.heap_at : layout.heap_at + heap_used], rows)
    record = _sealed(memoryview(data), layout, rows, heap, place.first_step)
    record.seq, record.t = place.seq, modified
    left = LeftChunk(place, record)
    record.next_episode = left.after.next_episode
    return left


def _mapped_new_file(path: Path, size: int) -> mmap.mmap:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _layout_of(path: Path, data: bytes) -> Layout:
    if len(data) < _SCHEMA_AT or data[: len(_MAGIC)] != _MAGIC or len(data) > MOST_FILE_BYTES:
        raise chunks.ChunkError(f"{path.name} is no open chunk of steps")
    capacity, heap_capacity, schema_bytes = _HEADER.unpack_from(data, _HEADER_AT)
    try:
        schema = msgspec.json.decode(data[_SCHEMA_AT : _SCHEMA_AT + schema_bytes], type=StepSchema)
    except msgspec.MsgspecError as error:
        raise chunks.ChunkError(f"the schema in {path.name} cannot be read: {error}") from error
    chunks.check_schema(schema)
    layout = Layout(schema, capacity, heap_capacity)
    if capacity > chunks.MOST_ROWS:
        raise chunks.ChunkError(f"{path.name} claims room for {capacity:,} steps, more than a chunk may have")
    if layout.encoded_schema != data[_SCHEMA_AT : _SCHEMA_AT + schema_bytes] or layout.file_bytes != len(data):
        raise chunks.ChunkError(f"{path.name} has {len(data):,} bytes where its columns need {layout.file_bytes:,}")
    return layout


def _sealed(
    memory: memoryview,
    layout: Layout,
    rows: int,
    heap: bytes,
    first_step: int,
    ends: chunks.Ends | None = None,
    compressor: zstandard.ZstdCompressor | None = None,
) -> StepChunk:
    columns = b"".join(memory[offset : offset + width * rows] for offset, width in layout.columns)
    numbers = set(memoryview(columns)[: rows * 8].cast("q").tolist())  # of the episodes: the first column
    return chunks.seal(
        layout.schema,
        rows,
        columns,
        heap,
        first_step=first_step,
        episodes=(min(numbers), max(numbers)),
        ends=ends,
        compressor=compressor,
    )
