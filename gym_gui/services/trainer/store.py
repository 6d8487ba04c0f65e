"""The durable store of what workers say: metrics, steps, episodes, lifecycle, artifacts. Each record exactly once.

``records`` keeps every record in order of arrival, for watchers with a cursor; ``metrics`` keeps scalars by tag and
step, for curves.

A stream's records are taken strictly in sequence: one transaction stores a batch and moves the stream's cursor, so a
batch that comes twice is skipped and a gap is refused. ``synchronous=NORMAL``: after a power cut the last commits may
be gone, and the cursor with them, so the worker's outbox fills the hole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.group_commit import GroupCommitter, Migration
from gym_gui.services.trainer.read_connection import ReadConnection
from mosaic_protocol import events as ev
from mosaic_protocol.headline import HEADLINE_TAGS, MEAN_RETURN, RECENT_EPISODES, RETURN_TAG
from mosaic_protocol.outbox import MESSAGE_BYTES


def _first_schema(connection: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE run_keys (key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE)",
        "CREATE TABLE tags (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        """CREATE TABLE cursors (run INTEGER NOT NULL, stream TEXT NOT NULL, acked INTEGER NOT NULL,
            PRIMARY KEY (run, stream)) WITHOUT ROWID""",
        """CREATE TABLE metrics (run INTEGER NOT NULL, tag INTEGER NOT NULL, step INTEGER NOT NULL,
            stream TEXT NOT NULL, seq INTEGER NOT NULL, wall_time REAL NOT NULL, value REAL,
            PRIMARY KEY (run, tag, step, stream, seq)) WITHOUT ROWID""",
        """CREATE TABLE records (run INTEGER NOT NULL, kind TEXT NOT NULL, row INTEGER NOT NULL,
            stream TEXT NOT NULL, seq INTEGER NOT NULL, line BLOB NOT NULL,
            PRIMARY KEY (run, kind, row)) WITHOUT ROWID""",
        """CREATE TABLE headline (run INTEGER NOT NULL, tag INTEGER NOT NULL, step INTEGER NOT NULL, value REAL,
            PRIMARY KEY (run, tag)) WITHOUT ROWID""",
    ):
        connection.execute(statement)


def _mean_returns_of_old_runs(connection: sqlite3.Connection) -> None:
    """Runs that were stored before means were kept get theirs."""
    sql = "SELECT run FROM headline JOIN tags ON tags.key = tag WHERE name = ?"
    for (run,) in connection.execute(sql, (RETURN_TAG,)).fetchall():
        _write_mean_return(connection, int(run))


MIGRATIONS: list[Migration] = [_first_schema, _mean_returns_of_old_runs]


_LARGE_TABLES = {"metrics": "tag, step, stream, seq", "records": "kind, row"}
"""What may have millions of rows for a run, and what the primary key consists of besides the run."""
_ROWS_PER_SLICE = 20_000
_PAGES_PER_SLICE = 2_000
"""Slices are small enough for the write-ahead log and for those who wait to write."""
_INCREMENTAL = 2


@dataclass(frozen=True)
class Batch:
    """Consecutive records of one stream; ``first_seq`` numbers the first line. Empty: only asks for the cursor.

    ``oldest_seq`` is the oldest record the worker still has. It lies beyond the cursor only when this store lost what
    an earlier one acknowledged; the stream then goes on from there, and the gap is told.
    """

    run_id: str
    stream: str
    first_seq: int
    lines: Sequence[bytes]
    oldest_seq: int = 1
    salvage: bool = False
    """For the journal of a worker that is gone: take what can be read and tell the rest, instead of refusing."""


@dataclass(frozen=True)
class Stored:
    """What a batch led to: the cursor after it, the records that were new, and a sentence for each damage."""

    acked: int
    fresh: Sequence[ev.Record]
    damaged: Sequence[str] = ()


@dataclass(frozen=True)
class Series:
    tag: str
    steps: list[int]
    values: list[float]
    wall_times: list[float]
    total: int


class TelemetryStore:
    """Thread-safe. Writes return futures that are done after the commit; reads return values."""

    def __init__(self, path: Path) -> None:
        self._writer = GroupCommitter(path, MIGRATIONS, synchronous="NORMAL")
        self._small, self._large = ReadConnection(path), ReadConnection(path)
        """The event loop asks the one and never waits for the other, where somebody may be reading a million points."""

    def close(self) -> None:
        for reader in (self._small, self._large):  # first, because the last to close folds the log into the file
            reader.close()
        self._writer.close()

    # ---- writing -------------------------------------------------------------------------------------------------

    def ingest(self, batch: Batch) -> Future[Stored]:
        """Store what is new of a batch. Raises :class:`RefusedError` through the future for a gap or a bad line."""
        return self._writer.submit(lambda connection: self._store(connection, batch))

    def forget(self, run_id: str) -> Future[bool]:
        """Remove a slice of a run's traces; False when none is left, so call it until then. A run that is not wholly
        forgotten keeps its key: what is left of it can still be found, and falls to no other run."""

        def operation(connection: sqlite3.Connection) -> bool:
            row = connection.execute("SELECT key FROM run_keys WHERE run_id = ?", (run_id,)).fetchone()
            if row is None:
                return False
            run = int(row[0])
            if any(_delete_slice(connection, table, run) for table in _LARGE_TABLES):
                return True
            for table in ("cursors", "metrics", "records", "headline"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            connection.execute("DELETE FROM run_keys WHERE key = ?", (run,))
            return False

        return self._writer.submit(operation)

    def give_back(self) -> Future[bool]:
        """Return a slice of the pages that hold nothing any more to the file system; False when none is left, so call
        it until then. Files of earlier versions keep them for what comes."""

        def operation(connection: sqlite3.Connection) -> bool:
            if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
                return False
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_PER_SLICE})").fetchall()  # a page for each row
            return int(connection.execute("PRAGMA freelist_count").fetchone()[0]) > 0

        return self._writer.submit(operation)

    @staticmethod
    def _store(connection: sqlite3.Connection, batch: Batch) -> Stored:
        run = _run_key(connection, batch.run_id)
        acked = _acked(connection, run, batch.stream)
        if not batch.lines:
            return Stored(acked, ())
        gone = _gone_for_good(batch, acked)
        acked = max(acked, batch.oldest_seq - 1)
        fresh, damaged = _salvaged(batch, acked) if batch.salvage else (_read_strictly(batch, acked), [])
        metrics = [record for record in fresh if isinstance(record, ev.MetricRow)]
        _write_metrics(connection, run, batch.stream, metrics)
        kept = [record for record in fresh if not isinstance(record, ev.LogRecord)]
        _write_records(connection, run, batch.stream, kept)
        acked = fresh[-1].seq if fresh else acked
        connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (run, batch.stream, acked))
        return Stored(acked, fresh, [*gone, *damaged])

    # ---- reading -------------------------------------------------------------------------------------------------

    def acked(self, run_id: str, stream: str) -> int:
        rows = self._small.rows(
            "SELECT acked FROM cursors JOIN run_keys ON key = run WHERE run_id = ? AND stream = ?", (run_id, stream)
        )
        return int(rows[0][0]) if rows else 0

    def lifecycle(self, run_id: str) -> list[tuple[str, ev.RunLifecycleEvent]]:
        """(stream, record) of every lifecycle record of a run, in the order in which they were stored."""
        rows = self._small.rows(
            "SELECT stream, line FROM records WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
            " AND kind = 'lifecycle' ORDER BY row",
            (run_id,),
        )
        found = ((str(stream), ev.decode(bytes(line))) for stream, line in rows)
        return [(stream, record) for stream, record in found if isinstance(record, ev.RunLifecycleEvent)]

    def records(self, run_id: str, kind: str, after_row: int, limit: int = 1000) -> list[tuple[int, bytes]]:
        """(row, line) of the stored records of one kind after a row, as many as fit into one message."""
        sql = (
            "SELECT row, line FROM records WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) AND kind = ?"
            " AND row > ? ORDER BY row LIMIT ?"
        )
        found: list[tuple[int, bytes]] = []
        size = 0
        with self._large.each(sql, (run_id, kind, after_row, limit)) as cursor:
            while size < MESSAGE_BYTES and (row := cursor.fetchone()) is not None:
                found.append((int(row[0]), bytes(row[1])))
                size += len(row[1])
        return found

    def headline(self, run_id: str) -> dict[str, float]:
        rows = self._small.rows(
            "SELECT tags.name, value FROM headline JOIN tags ON tags.key = tag"
            " WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) AND value IS NOT NULL",
            (run_id,),
        )
        return {str(name): float(value) for name, value in rows}

    def newest_step(self, run_id: str) -> int:
        """How far a run was by its headline numbers; 0 when it has none."""
        sql = "SELECT coalesce(max(step), 0) FROM headline WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
        return int(self._small.rows(sql, (run_id,))[0][0])

    def tags(self, run_id: str) -> list[str]:
        rows = self._large.rows(
            "SELECT name FROM tags WHERE EXISTS (SELECT 1 FROM metrics WHERE tag = tags.key"
            " AND run = (SELECT key FROM run_keys WHERE run_id = ?)) ORDER BY name",
            (run_id,),
        )
        return [str(row[0]) for row in rows]

    def series(self, run_id: str, tag: str, *, after_step: int, max_points: int) -> Series:
        """The newest points of one metric after a step, oldest first. Not-finite values come back as NaN."""
        condition = (
            "run = (SELECT key FROM run_keys WHERE run_id = ?)"
            " AND tag = (SELECT key FROM tags WHERE name = ?) AND step > ?"
        )
        values = (run_id, tag, after_step)
        total = int(self._large.rows(f"SELECT count(*) FROM metrics WHERE {condition}", values)[0][0])
        rows = self._large.rows(
            f"SELECT step, value, wall_time FROM metrics WHERE {condition}"
            " ORDER BY step DESC, stream DESC, seq DESC LIMIT ?",
            (*values, max_points),
        )
        rows.reverse()
        return Series(
            tag,
            [int(row[0]) for row in rows],
            [float("nan") if row[1] is None else float(row[1]) for row in rows],
            [float(row[2]) for row in rows],
            total,
        )

    def metric_rows(self, run_id: str) -> int:
        """How many scalars a run has stored."""
        sql = "SELECT count(*) FROM metrics WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
        return int(self._large.rows(sql, (run_id,))[0][0])


def _gone_for_good(batch: Batch, acked: int) -> list[str]:
    if batch.oldest_seq <= acked + 1:
        return []
    return [
        f"records {acked + 1} to {batch.oldest_seq - 1} were acknowledged by an earlier store and are in no journal"
    ]


def _read_strictly(batch: Batch, acked: int) -> list[ev.Record]:
    """The new records of a batch, which has to join what is stored and has to be sound."""
    if batch.first_seq > acked + 1:
        raise RefusedError(f"stream {batch.stream!r} goes on at {acked + 1}, not at {batch.first_seq}")
    return [_checked(line, seq) for seq, line in enumerate(batch.lines, batch.first_seq) if seq > acked]


def _salvaged(batch: Batch, acked: int) -> tuple[list[ev.Record], list[str]]:
    """The new records that can be read, by the numbers they carry: a lost line shifts all that follow it."""
    fresh: list[ev.Record] = []
    damaged: list[str] = []
    for seq, line in enumerate(batch.lines, batch.first_seq):
        try:
            record = ev.decode(line)
        except ev.RecordError as error:
            damaged.append(f"record {seq}: {error}")
            continue
        if record.seq != seq and not damaged:
            damaged.append(f"record {seq} says that it is number {record.seq}")
        if record.seq > acked:
            fresh.append(record)
            acked = record.seq
    return fresh, damaged


def _checked(line: bytes, seq: int) -> ev.Record:
    try:
        record = ev.decode(line)
    except ev.RecordError as error:
        raise RefusedError(f"record {seq}: {error}") from error
    if record.seq != seq:
        raise RefusedError(f"record {seq} says that it is number {record.seq}")
    return record


def _delete_slice(connection: sqlite3.Connection, table: str, run: int) -> bool:
    """Delete the first rows of a run, by its primary key; False, and nothing is deleted, when a slice holds all."""
    key = _LARGE_TABLES[table]
    beyond = connection.execute(
        f"SELECT {key} FROM {table} WHERE run = ? ORDER BY {key} LIMIT 1 OFFSET ?", (run, _ROWS_PER_SLICE)
    ).fetchone()
    if beyond is None:
        return False
    marks = ", ".join("?" * len(beyond))
    connection.execute(f"DELETE FROM {table} WHERE run = ? AND ({key}) < ({marks})", (run, *beyond))
    return True


def _run_key(connection: sqlite3.Connection, run_id: str) -> int:
    row = connection.execute("SELECT key FROM run_keys WHERE run_id = ?", (run_id,)).fetchone()
    if row is not None:
        return int(row[0])
    return int(connection.execute("INSERT INTO run_keys (run_id) VALUES (?)", (run_id,)).lastrowid or 0)


def _acked(connection: sqlite3.Connection, run: int, stream: str) -> int:
    row = connection.execute("SELECT acked FROM cursors WHERE run = ? AND stream = ?", (run, stream)).fetchone()
    return int(row[0]) if row else 0


def _write_records(connection: sqlite3.Connection, run: int, stream: str, fresh: Sequence[ev.Record]) -> None:
    """Rows are numbered per run and kind over all streams, which gives readers one cursor."""
    next_row: dict[str, int] = {}
    for record in fresh:
        kind = str(type(record).__struct_config__.tag)
        if kind not in next_row:
            sql = "SELECT coalesce(max(row), 0) FROM records WHERE run = ? AND kind = ?"
            next_row[kind] = int(connection.execute(sql, (run, kind)).fetchone()[0])
        next_row[kind] += 1
        connection.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)",
            (run, kind, next_row[kind], stream, record.seq, ev.encode(record)),
        )


def _write_metrics(connection: sqlite3.Connection, run: int, stream: str, rows: Sequence[ev.MetricRow]) -> None:
    connection.executemany(
        "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (run, _tag_key(connection, tag), row.step, stream, row.seq, row.t, value)
            for row in rows
            for tag, value in row.values.items()
        ],
    )
    newest = {tag: (row.step, row.values[tag]) for row in rows for tag in HEADLINE_TAGS if tag in row.values}
    connection.executemany(
        "INSERT OR REPLACE INTO headline VALUES (?, ?, ?, ?)",
        [(run, _tag_key(connection, tag), step, value) for tag, (step, value) in newest.items()],
    )
    if RETURN_TAG in newest:
        _write_mean_return(connection, run)


def _write_mean_return(connection: sqlite3.Connection, run: int) -> None:
    """Read back from the rows, and not carried on: whatever order they came in, the figure belongs to the curve."""
    mean, step = connection.execute(
        "SELECT avg(value), max(step) FROM (SELECT value, step FROM metrics WHERE run = ? AND tag = ?"
        " ORDER BY step DESC, stream DESC, seq DESC LIMIT ?)",
        (run, _tag_key(connection, RETURN_TAG), RECENT_EPISODES),
    ).fetchone()
    connection.execute(
        "INSERT OR REPLACE INTO headline VALUES (?, ?, ?, ?)", (run, _tag_key(connection, MEAN_RETURN), step, mean)
    )


def _tag_key(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT key FROM tags WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return int(row[0])
    return int(connection.execute("INSERT INTO tags (name) VALUES (?)", (name,)).lastrowid or 0)
