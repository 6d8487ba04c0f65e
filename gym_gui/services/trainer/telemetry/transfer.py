"""What the stores hold of one run as a file, and back: how a run moves to another machine.

A row of the file is a JSON array that says what it is, a tab, and for a record the line that its worker wrote, to the
byte. Rows keep their places: whoever reads the run over there meets the same records under the same cursors.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, TypeAlias

import msgspec

from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.telemetry.metric_lines import MetricWriter, tag_key
from gym_gui.services.trainer.telemetry.step_rows import insert_chunk
from mosaic_protocol import events as ev
from mosaic_protocol.events import Int64
from mosaic_protocol.outbox import MESSAGE_BYTES, MOST_MESSAGE_BYTES
from mosaic_protocol.steps.chunk import ChunkError, check

_LONGEST_ROW = MOST_MESSAGE_BYTES
_ROWS_AT_ONCE = 2000


class Cursor(msgspec.Struct, array_like=True, tag="cursor"):
    """How far a stream was stored."""

    stream: str
    acked: Int64


class Kept(msgspec.Struct, array_like=True, tag="record"):
    """Where a record other than a metric line has its place; its line follows."""

    kind: str
    row: Int64
    stream: str


class Metric(msgspec.Struct, array_like=True, tag="metric"):
    """Where a metric line has its place; the line follows."""

    row: Int64
    stream: str


class Headline(msgspec.Struct, array_like=True, tag="headline"):
    """A number that listings show."""

    tag: str
    step: Int64
    value: float | None


class Totals(msgspec.Struct, array_like=True, tag="totals"):
    """What became of the steps of the run."""

    next_step: Int64
    damaged: Int64
    trimmed: Int64
    compacted: Int64
    claimed: Int64
    episode_row: Int64
    summaries: Int64


class Episode(msgspec.Struct, array_like=True, tag="episode"):
    """A finished episode of recorded steps."""

    row: Int64
    episode: Int64
    agent_id: str
    length: Int64
    total_reward: float | None
    outcome: str
    seed: Int64 | str | None
    first_step: Int64
    last_step: Int64
    ended_at: float


class Chunk(msgspec.Struct, array_like=True, tag="chunk"):
    """A chunk of steps follows."""


Head: TypeAlias = Cursor | Kept | Metric | Headline | Totals | Episode | Chunk
Row: TypeAlias = tuple[Head, bytes]
TELEMETRY_ROWS = (Cursor, Kept, Metric, Headline)
STEP_ROWS = (Cursor, Totals, Episode, Chunk)

_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)


def blocks(rows: Iterable[Row]) -> Iterator[bytes]:
    """The file of rows, in pieces of about a message."""
    waiting: list[bytes] = []
    size = 0
    for head, line in rows:
        waiting += (_encode(head), b"\t", line, b"\n")
        size += len(line)
        if size >= MESSAGE_BYTES or len(waiting) >= 4 * _ROWS_AT_ONCE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def batches(file: BinaryIO, kinds: tuple[type, ...]) -> Iterator[list[Row]]:
    """The rows of such a file, as many at once as one transaction takes. Raises :class:`RefusedError`."""
    waiting: list[Row] = []
    size = number = 0
    while row := file.readline(_LONGEST_ROW):
        number += 1
        waiting.append(_understood(row, kinds, number))
        size += len(row)
        if size >= MESSAGE_BYTES or len(waiting) >= _ROWS_AT_ONCE:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _understood(row: bytes, kinds: tuple[type, ...], number: int) -> Row:
    head, tab, line = row.partition(b"\t")
    try:
        found = _decoder.decode(head)
    except msgspec.MsgspecError as error:
        raise RefusedError(f"row {number} of its records cannot be read: {error}") from error
    if not tab or not line.endswith(b"\n") or not isinstance(found, kinds):
        raise RefusedError(f"row {number} of its records is not whole, or in the wrong file")
    return found, line[:-1]


# ---- into the stores ---------------------------------------------------------------------------------------------


def write_telemetry(connection: sqlite3.Connection, run: int, rows: Sequence[Row]) -> None:
    """Within one transaction. Raises :class:`RefusedError` for a record that is none."""
    writer = MetricWriter(connection)
    for head, line in rows:
        match head:
            case Metric(row, stream):
                writer.add(run, stream, row, [(_metric(line), line)])
            case Kept(kind, row, stream):
                record = _record(line)
                if str(type(record).__struct_config__.tag) != kind or isinstance(record, ev.MetricRow | ev.StepChunk):
                    raise RefusedError(f"a record is said to be {kind[:60]!r} and is not")
                _insert(connection, "records", (run, kind, row, stream, record.seq, line))
            case Headline(tag, step, value):
                _insert(connection, "headline", (run, tag_key(connection, tag), step, value))
            case Cursor(stream, acked):
                _insert(connection, "cursors", (run, stream, acked))


def write_steps(connection: sqlite3.Connection, run: int, rows: Sequence[Row]) -> None:
    """The same for steps."""
    for head, line in rows:
        match head:
            case Chunk():
                insert_chunk(connection, run, _chunk(line), line)
            case Episode():
                _insert(connection, "episodes", (run, *msgspec.structs.astuple(head)))
            case Totals():
                if min(msgspec.structs.astuple(head)) < 0:
                    raise RefusedError("it counts fewer steps than none")
                columns = ", ".join(("run", *head.__struct_fields__))
                _insert(connection, f"totals ({columns})", (run, *msgspec.structs.astuple(head)))
            case Cursor(stream, acked):
                _insert(connection, "cursors", (run, stream, acked))


def _insert(connection: sqlite3.Connection, table: str, values: Sequence[object]) -> None:
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def _record(line: bytes) -> ev.Record:
    try:
        return ev.decode(line)
    except ev.RecordError as error:
        raise RefusedError(f"a record cannot be read: {error}") from error


def _metric(line: bytes) -> ev.MetricRow:
    record = _record(line)
    if not isinstance(record, ev.MetricRow):
        raise RefusedError("a record is said to be a metric line and is not")
    return record


def _chunk(line: bytes) -> ev.StepChunk:
    record = _record(line)
    if not isinstance(record, ev.StepChunk):
        raise RefusedError("a record is said to be a chunk of steps and is not")
    try:
        check(record)
    except ChunkError as error:
        raise RefusedError(f"a chunk of steps is damaged: {error}") from error
    return record
