"""Metric lines in the layout of earlier versions: read where they lie, and taken out slice by slice.

Earlier versions kept a metric line in ``records`` and each of its numbers a second time in ``metrics``, by tag. A store
may hold gigabytes of that, so it is not converted in one piece: what is not yet taken out is read here, and a slice
leaves both tables in the transaction that writes it in the new layout. A reader within one snapshot therefore finds
every line and every number exactly once, at whatever slice a daemon was killed. Pages that a slice leaves are free for
what is written next, so converting a store needs hardly more space than the store has.

Everything here expects that :func:`is_there` was asked in the same snapshot or transaction.
"""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mosaic_protocol import events as ev

Fetch: TypeAlias = Callable[[str, Sequence[Any]], Iterable[Sequence[Any]]]
"""Gives the rows of a query, on the connection that writes or on one that reads."""

TABLE = "metrics"
KEY = "tag, step, stream, seq"
"""What the table's primary key consists of besides the run."""
PAGE = "SELECT row, line, 0, 0, 0, seq, 0.0, stream FROM records WHERE run = ? AND kind = 'metric' AND row > ?"
"""Lines after a row, in the columns of :attr:`LineReader.QUERY`."""

_LINES_PER_SLICE = 1000
_NUMBERS_PER_SLICE = 5000
"""Small enough for the write-ahead log, and for workers whose batches wait meanwhile: some hundredths of a second."""


@dataclass(frozen=True)
class OlderLine:
    """A line that is in the older layout no more; ``row`` is the place that watchers know."""

    run: int
    stream: str
    row: int
    record: ev.MetricRow
    line: bytes


# ---- reading -----------------------------------------------------------------------------------------------------


def is_there(fetch: Fetch) -> bool:
    """Whether a store still has tables of the older layout."""
    return any(fetch("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)))


def newest_rows(fetch: Fetch, run: int, tag: str, *, after_step: int, limit: int) -> list[Sequence[Any]]:
    """(packed value, step, time, stream, seq) of the newest points of a tag, newest first."""
    sql = (
        "SELECT value, step, wall_time, stream, seq FROM metrics WHERE run = ? AND step > ?"
        " AND tag = (SELECT key FROM tags WHERE name = ?) ORDER BY step DESC, stream DESC, seq DESC LIMIT ?"
    )
    rows = fetch(sql, (run, after_step, tag, limit))
    return [(struct.pack("<d", math.nan if value is None else value), *rest) for value, *rest in rows]


def count_points(fetch: Fetch, run: int, tag: str, *, after_step: int) -> int:
    sql = "SELECT count(*) FROM metrics WHERE run = ? AND step > ? AND tag = (SELECT key FROM tags WHERE name = ?)"
    return sum(int(row[0]) for row in fetch(sql, (run, after_step, tag)))


def count_scalars(fetch: Fetch, run: int) -> int:
    return sum(int(row[0]) for row in fetch("SELECT count(*) FROM metrics WHERE run = ?", (run,)))


def tags_of(fetch: Fetch, run: int) -> list[str]:
    sql = "SELECT name FROM tags WHERE EXISTS (SELECT 1 FROM metrics WHERE run = ? AND tag = tags.key)"
    return [str(row[0]) for row in fetch(sql, (run,))]


def last_row(fetch: Fetch, run: int) -> int:
    sql = "SELECT coalesce(max(row), 0) FROM records WHERE run = ? AND kind = 'metric'"
    return sum(int(row[0]) for row in fetch(sql, (run,)))


# ---- taking out --------------------------------------------------------------------------------------------------


def take_slice(connection: sqlite3.Connection) -> list[OlderLine]:
    """Take the next lines out; the caller writes them in the same transaction. What is left without a line that could
    be read goes too, and the table with the last of it."""
    run = _next_run(connection)
    if run is None:
        drop_if_empty(connection)
        return []
    sql = "SELECT stream, row, line FROM records WHERE run = ? AND kind = 'metric' ORDER BY row LIMIT ?"
    lines, last = _readable(run, connection.execute(sql, (run, _LINES_PER_SLICE)))
    if last:
        connection.execute("DELETE FROM records WHERE run = ? AND kind = 'metric' AND row <= ?", (run, last))
        _delete_numbers(connection, lines)
    else:
        _delete_leftovers(connection, run)
    return lines


def drop_if_empty(connection: sqlite3.Connection) -> None:
    """A store that was never used with the older layout, or has nothing left in it, has none."""
    if _next_run(connection) is None:
        connection.execute(f"DROP TABLE {TABLE}")


def _next_run(connection: sqlite3.Connection) -> int | None:
    """The first run that has numbers left, or else lines without any number; found without reading over others."""
    without_numbers = "EXISTS (SELECT 1 FROM records WHERE run = run_keys.key AND kind = 'metric')"
    for sql in (
        "SELECT run FROM metrics ORDER BY run LIMIT 1",
        f"SELECT key FROM run_keys WHERE {without_numbers} LIMIT 1",
    ):
        if row := connection.execute(sql).fetchone():
            return int(row[0])
    return None


def _readable(run: int, rows: Iterable[Sequence[Any]]) -> tuple[list[OlderLine], int]:
    """As many lines as a slice holds, without those that cannot be read, and the last row that was looked at."""
    found: list[OlderLine] = []
    numbers = last = 0
    for stream, row, line in rows:
        last = int(row)
        record = _decoded(bytes(line))
        if record is not None:
            found.append(OlderLine(run, str(stream), last, record, bytes(line)))
            numbers += len(record.values)
        if numbers >= _NUMBERS_PER_SLICE:
            break
    return found, last


def _decoded(line: bytes) -> ev.MetricRow | None:
    """None for a line that nobody could read before either."""
    try:
        record = ev.decode(line)
    except ev.RecordError:
        return None
    return record if isinstance(record, ev.MetricRow) else None


def _delete_numbers(connection: sqlite3.Connection, lines: Sequence[OlderLine]) -> None:
    keys = {str(name): int(key) for name, key in connection.execute("SELECT name, key FROM tags")}
    connection.executemany(
        "DELETE FROM metrics WHERE run = ? AND tag = ? AND step = ? AND stream = ? AND seq = ?",
        [
            (line.run, keys.get(tag), line.record.step, line.stream, line.record.seq)
            for line in lines
            for tag in line.record.values
        ],
    )


def _delete_leftovers(connection: sqlite3.Connection, run: int) -> None:
    """Numbers without a line: those of a line that cannot be read, or of a run that is half purged."""
    connection.execute(
        f"DELETE FROM metrics WHERE run = ? AND ({KEY}) IN"
        f" (SELECT {KEY} FROM metrics WHERE run = ? ORDER BY {KEY} LIMIT ?)",
        (run, run, _NUMBERS_PER_SLICE),
    )
