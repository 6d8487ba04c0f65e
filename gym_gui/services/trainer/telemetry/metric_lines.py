"""Scalars as the store keeps them: each metric line once, packed by its tags, and given back to the byte.

The tags of a line, in its order, are its *shape*, which the lines of a run share; a row holds the shape's key, a step,
a time and the numbers. Rows lie by run, shape and step, so a curve reads neighbouring rows, one number from each.
A line that cannot be given back exactly from that (a field that this version does not know, a number in another
spelling) is kept beside its numbers as it came.

A run has at most :data:`MOST_SHAPES`, because whatever looks for a tag asks each of them. A line of one more, as a
script writes it that puts a number into its tags, is kept as it came, and in curves with its headline alone.
"""

from __future__ import annotations

import math
import sqlite3
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from gym_gui.services.trainer.telemetry import older_layout
from gym_gui.services.trainer.telemetry.older_layout import Fetch
from mosaic_protocol import events as ev
from mosaic_protocol.headline import HEADLINE_TAGS, MEAN_RETURN

MetricLine: TypeAlias = tuple[ev.MetricRow, bytes]
"""A record, and the line that it was read from."""
Points: TypeAlias = tuple[list[int], list[float], list[float]]
"""Steps, values and times of a curve."""

MOST_SHAPES = 1000
_SHAPES_PER_SLICE = 100
_TAGS_PER_SLICE = 2000
"""What is dropped at once: others wait to write."""
_MOST_REMEMBERED = 1000
_LONGEST_REMEMBERED = 10_000
"""A reader remembers so many shapes of so many characters."""

_INSERT = "INSERT INTO metric_lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NEXT_SHAPE = "SELECT min(shape) FROM metric_lines WHERE run = ? AND shape > ?"
# From shape to shape of the run by its key: neither its lines are read for it, nor the shapes of other runs.
_OWN_SHAPES = (
    "WITH RECURSIVE own(shape) AS (SELECT min(shape) FROM metric_lines WHERE run = ?1 UNION ALL"
    " SELECT (SELECT min(shape) FROM metric_lines WHERE run = ?1 AND shape > own.shape) FROM own"
    " WHERE own.shape IS NOT NULL)"
)
_SHAPES_WITH_TAG = (
    f"{_OWN_SHAPES} SELECT own.shape, place FROM own CROSS JOIN shape_tags ON shape_tags.shape = own.shape"
    " AND tag = (SELECT key FROM tags WHERE name = ?2)"
)
_NEWEST = (
    "SELECT substr(numbers, ?, 8), step, t{} FROM metric_lines WHERE run = ? AND shape = ? AND step > ?"
    " ORDER BY step DESC, stream DESC, seq DESC LIMIT ?"
)


def create_tables(connection: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE shapes (key INTEGER PRIMARY KEY, tags TEXT NOT NULL UNIQUE)",
        """CREATE TABLE shape_tags (tag INTEGER NOT NULL, shape INTEGER NOT NULL, place INTEGER NOT NULL,
            PRIMARY KEY (tag, shape)) WITHOUT ROWID""",
        """CREATE TABLE metric_lines (run INTEGER NOT NULL, shape INTEGER NOT NULL, step INTEGER NOT NULL,
            stream TEXT NOT NULL, seq INTEGER NOT NULL, row INTEGER NOT NULL, t REAL NOT NULL, numbers BLOB NOT NULL,
            line BLOB, PRIMARY KEY (run, shape, step, stream, seq)) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX metric_lines_by_row ON metric_lines(run, row)",
    ):
        connection.execute(statement)


# ---- writing -----------------------------------------------------------------------------------------------------


class MetricWriter:
    """Writes metric lines within one transaction; the keys that it remembers are good until that ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._shapes: dict[tuple[int, tuple[str, ...]], int | None] = {}
        self._variety: dict[int, int] = {}
        self.overfull = False
        """Whether a run came to have as many shapes as it may."""

    def add(self, run: int, stream: str, first_row: int, lines: Sequence[MetricLine]) -> None:
        """Store lines as rows ``first_row``, ``first_row + 1``, … of a run."""
        rows = [self._row(run, stream, row, *line) for row, line in enumerate(lines, first_row)]
        self._connection.executemany(_INSERT, rows)

    def _row(self, run: int, stream: str, row: int, record: ev.MetricRow, line: bytes) -> tuple[Any, ...]:
        tags = tuple(record.values)
        shape = self._shape(run, tags)
        kept: bytes | None = None if shape is not None and _can_be_rebuilt(record, line) else line
        if shape is None:
            tags = tuple(tag for tag in HEADLINE_TAGS if tag in record.values)
            shape = self._stored_shape(tags) or self._new_shape(tags)
        numbers = [math.nan if (value := record.values[tag]) is None else value for tag in tags]
        packed = struct.pack(f"<{len(tags)}d", *numbers)
        return (run, shape, record.step, stream, record.seq, row, record.t, packed, kept)

    def _shape(self, run: int, tags: tuple[str, ...]) -> int | None:
        """The number of a shape, None for one more than the run may have."""
        if (run, tags) not in self._shapes:
            self._shapes[run, tags] = self._shape_of_run(run, tags)
        return self._shapes[run, tags]

    def _shape_of_run(self, run: int, tags: tuple[str, ...]) -> int | None:
        key = self._stored_shape(tags)
        if key is not None and self._connection.execute(_NEXT_SHAPE, (run, key - 1)).fetchone()[0] == key:
            return key
        if run not in self._variety:
            sql = f"{_OWN_SHAPES} SELECT count(shape) FROM own"
            self._variety[run] = int(self._connection.execute(sql, (run,)).fetchone()[0])
        if self._variety[run] >= MOST_SHAPES:
            return None
        self._variety[run] += 1
        self.overfull = self.overfull or self._variety[run] == MOST_SHAPES
        return key or self._new_shape(tags)

    def _stored_shape(self, tags: tuple[str, ...]) -> int | None:
        found = self._connection.execute("SELECT key FROM shapes WHERE tags = ?", (_text(tags),)).fetchone()
        return int(found[0]) if found else None

    def _new_shape(self, tags: tuple[str, ...]) -> int:
        key = int(self._connection.execute("INSERT INTO shapes (tags) VALUES (?)", (_text(tags),)).lastrowid or 0)
        self._connection.executemany(
            "INSERT INTO shape_tags VALUES (?, ?, ?)",
            [(tag_key(self._connection, tag), key, place) for place, tag in enumerate(tags)],
        )
        return key


def _text(tags: tuple[str, ...]) -> str:
    return msgspec.json.encode(tags).decode()


def slice_of_shapes(connection: sqlite3.Connection, run: int) -> tuple[list[int], int | None]:
    """The first shapes of a run, as many as are dropped at once, and the one that follows them."""
    shapes: list[int] = []
    size = 0
    count = "SELECT json_array_length(tags) FROM shapes WHERE key = ?"
    shape = connection.execute(_NEXT_SHAPE, (run, 0)).fetchone()[0]
    while shape is not None and len(shapes) < _SHAPES_PER_SLICE and size < _TAGS_PER_SLICE:
        shapes.append(int(shape))
        size += int(connection.execute(count, (shape,)).fetchone()[0])
        shape = connection.execute(_NEXT_SHAPE, (run, shape)).fetchone()[0]
    return shapes, shape


def drop_unused(connection: sqlite3.Connection, shapes: Sequence[int]) -> None:
    """Forget those of the shapes that no line has any more, and the tags that only they had. The newest shape stays
    until there is a newer one: readers remember shapes by number, so no number is given twice."""
    # In this order: lines are found by run and shape, never by their shape alone.
    used = "SELECT 1 FROM run_keys CROSS JOIN metric_lines ON run = run_keys.key AND shape = shapes.key"
    newest = "SELECT max(key) FROM shapes"
    sql = f"SELECT tags FROM shapes WHERE key = ? AND key < ({newest}) AND NOT EXISTS ({used})"
    for shape in shapes:
        if (found := connection.execute(sql, (shape,)).fetchone()) is not None:
            connection.execute("DELETE FROM shapes WHERE key = ?", (shape,))
            _drop_tags(connection, shape, msgspec.json.decode(found[0], type=tuple[str, ...]))


def _drop_tags(connection: sqlite3.Connection, shape: int, tags: Sequence[str]) -> None:
    """By their names: what belongs to a shape is not found by its number without reading all of it."""
    connection.executemany(
        "DELETE FROM shape_tags WHERE tag = (SELECT key FROM tags WHERE name = ?) AND shape = ?",
        [(tag, shape) for tag in tags],
    )
    kept = (*HEADLINE_TAGS, MEAN_RETURN)  # listings have them by number, for every run
    connection.executemany(
        "DELETE FROM tags WHERE name = ? AND NOT EXISTS (SELECT 1 FROM shape_tags WHERE tag = key)",
        [(tag,) for tag in tags if tag not in kept],
    )


def last_row(connection: sqlite3.Connection, run: int) -> int:
    sql = "SELECT coalesce(max(row), 0) FROM metric_lines WHERE run = ?"
    last = int(connection.execute(sql, (run,)).fetchone()[0])
    fetch = connection.execute
    return max(last, older_layout.last_row(fetch, run)) if older_layout.is_there(fetch) else last


def tag_key(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT key FROM tags WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return int(row[0])
    return int(connection.execute("INSERT INTO tags (name) VALUES (?)", (name,)).lastrowid or 0)


# ---- reading -----------------------------------------------------------------------------------------------------


def newest_points(fetch: Fetch, run: int, tag: str, *, after_step: int, limit: int) -> Points:
    """The newest points of one tag after a step, oldest first. NaN stands for a value that is not finite."""
    shapes = list(fetch(_SHAPES_WITH_TAG, (run, tag)))
    rows: list[Sequence[Any]] = []
    if older_layout.is_there(fetch):
        rows += older_layout.newest_rows(fetch, run, tag, after_step=after_step, limit=limit)
    # Only merging needs stream and number, and reading them takes time.
    order = ", stream, seq" if rows or len(shapes) > 1 else ""
    for shape, place in shapes:
        rows += fetch(_NEWEST.format(order), (8 * place + 1, run, shape, after_step, limit))
    if order:
        rows.sort(key=itemgetter(1, 3, 4), reverse=True)
    newest = rows[limit - 1 :: -1] if len(rows) > limit else rows[::-1]
    return [row[1] for row in newest], _numbers([row[0] for row in newest]), [row[2] for row in newest]


def _numbers(packed: Sequence[bytes]) -> list[float]:
    numbers = array("d", b"".join(packed))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def count_points(fetch: Fetch, run: int, tag: str, *, after_step: int) -> int:
    sql = "SELECT count(*) FROM metric_lines WHERE run = ? AND shape = ? AND step > ?"
    shapes = list(fetch(_SHAPES_WITH_TAG, (run, tag)))
    count = sum(int(row[0]) for shape, _ in shapes for row in fetch(sql, (run, shape, after_step)))
    if older_layout.is_there(fetch):
        count += older_layout.count_points(fetch, run, tag, after_step=after_step)
    return count


def tags_of(fetch: Fetch, run: int) -> list[str]:
    sql = (
        f"{_OWN_SHAPES} SELECT DISTINCT tag.value FROM own CROSS JOIN shapes ON shapes.key = own.shape"
        " CROSS JOIN json_each(shapes.tags) AS tag ORDER BY tag.value"
    )
    tags = [str(row[0]) for row in fetch(sql, (run,))]
    return sorted({*tags, *older_layout.tags_of(fetch, run)}) if older_layout.is_there(fetch) else tags


def count_scalars(fetch: Fetch, run: int) -> int:
    sql = "SELECT coalesce(sum(json_array_length(tags)), 0) FROM metric_lines JOIN shapes ON key = shape WHERE run = ?"
    count = sum(int(row[0]) for row in fetch(sql, (run,)))
    return count + older_layout.count_scalars(fetch, run) if older_layout.is_there(fetch) else count


class LineReader:
    """Gives metric lines back as they came. Shapes never change, so it remembers them."""

    _PAGE = (
        "SELECT row, coalesce(line, numbers), line IS NULL, shape, step, seq, t, stream FROM metric_lines"
        " WHERE run = ? AND row > ?"
    )

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[str, ...]] = {}

    def page(self, fetch: Fetch, run: int, after_row: int, *, limit: int, size: int) -> list[tuple[int, bytes]]:
        """(row, line) of the lines after a row: at most ``limit``, and none more once they have ``size`` bytes."""
        return [(row, line) for row, line, _ in self.page_with_streams(fetch, run, after_row, limit=limit, size=size)]

    def page_with_streams(
        self, fetch: Fetch, run: int, after_row: int, *, limit: int, size: int
    ) -> list[tuple[int, bytes, str]]:
        """The same, each with the stream that it came in."""
        found: list[tuple[int, bytes, str]] = []
        for row, content, packed, shape, step, seq, t, stream in self._rows(fetch, run, after_row, limit):
            line = rebuilt(self._tags(fetch, shape), step, seq, t, content) if packed else content
            found.append((row, line, stream))
            size -= len(line)
            if size <= 0:
                break
        return found

    def _rows(self, fetch: Fetch, run: int, after_row: int, limit: int) -> Iterable[Sequence[Any]]:
        if older_layout.is_there(fetch):
            sql = f"{self._PAGE} UNION ALL {older_layout.PAGE} ORDER BY row LIMIT ?"
            return fetch(sql, (run, after_row, run, after_row, limit))
        return fetch(f"{self._PAGE} ORDER BY row LIMIT ?", (run, after_row, limit))

    def _tags(self, fetch: Fetch, shape: int) -> tuple[str, ...]:
        tags = self._shapes.get(shape)
        if tags is None:
            (row,) = fetch("SELECT tags FROM shapes WHERE key = ?", (shape,))
            tags = msgspec.json.decode(row[0], type=tuple[str, ...])
            if len(row[0]) <= _LONGEST_REMEMBERED:
                if len(self._shapes) >= _MOST_REMEMBERED:
                    self._shapes.clear()
                self._shapes[shape] = tags
        return tags


def rebuilt(tags: Sequence[str], step: int, seq: int, t: float, numbers: bytes) -> bytes:
    """The line that a worker writes for these numbers."""
    values = dict(zip(tags, struct.unpack(f"<{len(tags)}d", numbers)))  # noqa: B905 - unpacking checks the length
    return ev.encode(ev.MetricRow(step=step, values=values, seq=seq, t=t))  # which writes null for what is not finite


def _can_be_rebuilt(record: ev.MetricRow, line: bytes) -> bool:
    """Whether the line is the one that the encoder writes for its record. SQLite keeps no sign of a zero time."""
    return record.v == 1 and math.copysign(1.0, record.t) > 0 and ev.encode(record) == line
