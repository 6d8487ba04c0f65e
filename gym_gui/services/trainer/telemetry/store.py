"""The durable store of what workers say: metrics, steps, episodes, lifecycle, artifacts. Each record exactly once.

Lines are kept verbatim, so a field that this version does not know is there for one that does. ``records`` keeps them
in order of arrival, for watchers with a cursor; metric lines, which are most, are kept packed
(:mod:`gym_gui.services.trainer.telemetry.metric_lines`): one row serves the curve and the watcher.

A stream's records are taken strictly in sequence: one transaction stores a batch and moves the stream's cursor, so a
batch that comes twice is skipped and a gap is refused. ``synchronous=NORMAL``: after a power cut the last commits may
be gone, and the cursor with them, so the worker's outbox fills the hole.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.storage.group_commit import GroupCommitter, Migration
from gym_gui.services.trainer.storage.read_connection import ReadConnection
from gym_gui.services.trainer.telemetry import metric_lines, older_layout, transfer
from gym_gui.services.trainer.telemetry.batches import Batch, Line, Stored, new_lines, sorted_out
from gym_gui.services.trainer.telemetry.metric_lines import MOST_SHAPES, LineReader, MetricLine, MetricWriter, tag_key
from gym_gui.services.trainer.telemetry.older_layout import Fetch
from mosaic_protocol import events as ev
from mosaic_protocol.headline import HEADLINE_TAGS, MEAN_RETURN, RECENT_EPISODES, RECENT_MEANS, RETURN_TAG
from mosaic_protocol.outbox import MESSAGE_BYTES
from mosaic_protocol.steps.open_chunk import STREAM


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
    keep = (
        "INSERT OR REPLACE INTO headline SELECT ?, ?, max(step), avg(value) FROM (SELECT value, step FROM metrics"
        " WHERE run = ? AND tag = ? ORDER BY step DESC, stream DESC, seq DESC LIMIT ?)"
    )
    sql = "SELECT run, tag FROM headline JOIN tags ON tags.key = tag WHERE name = ?"
    for run, tag in connection.execute(sql, (RETURN_TAG,)).fetchall():
        connection.execute(keep, (run, tag_key(connection, MEAN_RETURN), run, tag, RECENT_EPISODES))


def _metrics_once(connection: sqlite3.Connection) -> None:
    """Metric lines were kept as records, and their numbers a second time by tag. What is stored so stays until
    :meth:`TelemetryStore.convert_slice` has moved it."""
    metric_lines.create_tables(connection)
    older_layout.drop_if_empty(connection)


MIGRATIONS: list[Migration] = [_first_schema, _mean_returns_of_old_runs, _metrics_once]


_LARGE_TABLES = {"metric_lines": "shape, step, stream, seq", "records": "kind, row"}
"""What may have millions of rows for a run, and what the primary key consists of besides the run."""
_ROW_BYTES = 24
"""What the keys of a row take beside its content, about."""
_ROWS_PER_SLICE = 20_000
_PAGES_PER_SLICE = 2_000
"""Slices are small enough for the write-ahead log and for those who wait to write."""
_INCREMENTAL = 2
_BEFORE_ALL_STEPS = -(2**63)


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
        self._lines = LineReader()

    def close(self) -> None:
        for reader in (self._small, self._large):  # first, because the last to close folds the log into the file
            reader.close()
        self._writer.close()

    @property
    def path(self) -> Path:
        return self._writer.path

    # ---- writing -------------------------------------------------------------------------------------------------

    def ingest(self, batch: Batch) -> Future[Stored]:
        """Store what is new of a batch. Raises :class:`RefusedError` through the future for a gap or a bad line. What a
        worker left behind is stored on a full disk too, as far as that goes: without it the run cannot end."""
        return self._writer.submit(lambda connection: self._store(connection, batch), essential=batch.salvage)

    def bring(self, run_id: str, rows: Sequence[transfer.Row]) -> Future[None]:
        """Store rows of a run as they lay in another store. Raises :class:`RefusedError` through the future for what
        cannot be one, or is there already."""

        def operation(connection: sqlite3.Connection) -> None:
            try:
                transfer.write_telemetry(connection, _run_key(connection, run_id), rows)
            except sqlite3.IntegrityError as error:
                raise RefusedError(f"two of its records have the same place: {error}") from error

        return self._writer.submit(operation)

    def forget(self, run_id: str) -> Future[bool]:
        """Remove a slice of a run's traces; False when none is left, so call it until then. A run that is not wholly
        forgotten keeps its key: what is left of it can still be found, and falls to no other run."""

        def operation(connection: sqlite3.Connection) -> bool:
            row = connection.execute("SELECT key FROM run_keys WHERE run_id = ?", (run_id,)).fetchone()
            if row is None:
                return False
            run = int(row[0])
            shapes, beyond = metric_lines.slice_of_shapes(connection, run)
            left = _forget_slice(connection, run, beyond)
            if not older_layout.is_there(connection.execute):  # whose numbers have tags that no shape has yet
                metric_lines.drop_unused(connection, shapes)
            return left

        return self._writer.submit(operation, essential=True)  # it makes room

    def needs_conversion(self) -> bool:
        """Whether lines are left that an earlier version stored in its own layout; they are read as they are."""
        return older_layout.is_there(self._small.rows)

    def convert_slice(self) -> Future[bool]:
        """Move a slice of those lines to where this version keeps them; False when none is left, so call it until then.
        Rows keep their places, so cursors of watchers stay good. On a full disk it is refused: it can wait."""

        def operation(connection: sqlite3.Connection) -> bool:
            if not older_layout.is_there(connection.execute):
                return False
            writer = MetricWriter(connection)
            for older in older_layout.take_slice(connection):
                writer.add(older.run, older.stream, older.row, [(older.record, older.line)])
            return older_layout.is_there(connection.execute)

        return self._writer.submit(operation)

    def give_back(self) -> Future[bool]:
        """Return a slice of the pages that hold nothing any more to the file system; False when none is left, so call
        it until then. Files of earlier versions keep them for what comes."""

        def operation(connection: sqlite3.Connection) -> bool:
            if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
                return False
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_PER_SLICE})").fetchall()  # a page for each row
            return int(connection.execute("PRAGMA freelist_count").fetchone()[0]) > 0

        return self._writer.submit(operation, essential=True)  # it makes room

    @staticmethod
    def _store(connection: sqlite3.Connection, batch: Batch) -> Stored:
        run = _run_key(connection, batch.run_id)
        acked = _acked(connection, run, batch.stream)
        if not batch.lines:
            return Stored(acked, ())
        fresh, damaged = new_lines(batch, acked)
        misplaced = f"chunks of steps travel in the stream {STREAM!r}, not in {batch.stream!r}"
        lines, strangers = sorted_out(
            batch, fresh, lambda record: misplaced if isinstance(record, ev.StepChunk) else ""
        )
        metrics = [(record, line) for record, line in lines if isinstance(record, ev.MetricRow)]
        warning = _write_metrics(connection, run, batch.stream, metrics)
        kept = [(record, line) for record, line in lines if not isinstance(record, ev.LogRecord | ev.MetricRow)]
        _write_records(connection, run, batch.stream, kept)
        acked = fresh[-1][0].seq if fresh else max(acked, batch.oldest_seq - 1)
        connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (run, batch.stream, acked))
        return Stored(acked, [record for record, _ in lines], [*damaged, *strangers], warning)

    # ---- reading -------------------------------------------------------------------------------------------------

    def acked(self, run_id: str, stream: str) -> int:
        rows = self._small.rows(
            "SELECT acked FROM cursors JOIN run_keys ON key = run WHERE run_id = ? AND stream = ?", (run_id, stream)
        )
        return int(rows[0][0]) if rows else 0

    def streams(self, run_id: str) -> list[str]:
        """The streams of which something is stored."""
        sql = "SELECT stream FROM cursors JOIN run_keys ON key = run WHERE run_id = ? AND acked > 0"
        return [str(stream) for (stream,) in self._small.rows(sql, (run_id,))]

    def bytes_by_run(self) -> dict[str, int]:
        """What the records of each run take. Looks at every row: for a thread that may wait."""
        lines = f"coalesce(length(line), 0) + length(numbers) + {_ROW_BYTES}"
        sql = (
            f"SELECT run_id, sum(found) FROM (SELECT run, sum({lines}) AS found FROM metric_lines GROUP BY run"
            f" UNION ALL SELECT run, sum(length(line) + {_ROW_BYTES}) FROM records GROUP BY run)"
            " JOIN run_keys ON key = run GROUP BY run"
        )
        return {str(run_id): int(found) for run_id, found in self._large.rows(sql)}

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
        if kind == "metric":
            return self._metric_records(run_id, after_row, limit)
        sql = (
            "SELECT row, line FROM records WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) AND kind = ?"
            " AND row > ? ORDER BY row LIMIT ?"
        )
        return [
            (int(row[0]), bytes(row[1])) for row in self._rows_of_one_message(sql, (run_id, kind, after_row, limit))
        ]

    def last_row(self, run_id: str, kind: str) -> int:
        """The row of the newest record of a kind other than metrics; 0 when there is none."""
        rows = self._small.rows(
            "SELECT coalesce(max(row), 0) FROM records WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
            " AND kind = ?",
            (run_id, kind),
        )
        return int(rows[0][0])

    def _metric_records(self, run_id: str, after_row: int, limit: int) -> list[tuple[int, bytes]]:
        with self._large.snapshot() as fetch:
            return self._lines.page(fetch, _key(fetch, run_id), after_row, limit=limit, size=MESSAGE_BYTES)

    def _rows_of_one_message(self, sql: str, values: Sequence[object]) -> list[sqlite3.Row]:
        """Rows whose second column holds what is sent."""
        found: list[sqlite3.Row] = []
        size = 0
        with self._large.each(sql, values) as cursor:
            while size < MESSAGE_BYTES and (row := cursor.fetchone()) is not None:
                found.append(row)
                size += len(row[1])
        return found

    def rows(self, run_id: str) -> Iterator[transfer.Row]:
        """Everything that is stored of a run that is over, to be brought to another store. Blocks."""
        with self._large.snapshot() as fetch:
            run = _key(fetch, run_id)
            cursors = fetch("SELECT stream, acked FROM cursors WHERE run = ? ORDER BY stream", (run,)).fetchall()
            shown = fetch(
                "SELECT name, step, value FROM headline JOIN tags ON tags.key = tag WHERE run = ? ORDER BY name", (run,)
            ).fetchall()
            kinds = fetch("SELECT DISTINCT kind FROM records WHERE run = ? ORDER BY kind", (run,)).fetchall()
        yield from ((transfer.Cursor(*row), b"") for row in cursors)
        yield from ((transfer.Headline(*row), b"") for row in shown)
        for (kind,) in kinds:
            if kind != "metric":  # of an earlier layout, and read with the others
                yield from self._record_rows(run, kind)
        yield from self._metric_rows(run)

    def _record_rows(self, run: int, kind: str) -> Iterator[transfer.Row]:
        after, sql = 0, "SELECT row, line, stream FROM records WHERE run = ? AND kind = ? AND row > ? ORDER BY row"
        while found := self._rows_of_one_message(sql, (run, kind, after)):
            for row, line, stream in found:
                yield transfer.Kept(kind, row, stream), bytes(line)
            after = int(found[-1][0])

    def _metric_rows(self, run: int) -> Iterator[transfer.Row]:
        after = 0
        while True:
            with self._large.snapshot() as fetch:
                found = self._lines.page_with_streams(fetch, run, after, limit=1000, size=MESSAGE_BYTES)
            if not found:
                return
            for row, line, stream in found:
                yield transfer.Metric(row, stream), bytes(line)
            after = found[-1][0]

    def headline(self, run_id: str) -> dict[str, float]:
        rows = self._small.rows(
            "SELECT tags.name, value FROM headline JOIN tags ON tags.key = tag"
            " WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) AND value IS NOT NULL",
            (run_id,),
        )
        return {str(name): float(value) for name, value in rows}

    def headlines(self, tag: str) -> dict[str, float]:
        """One headline number of every run that has it."""
        rows = self._large.rows(
            "SELECT run_id, value FROM headline JOIN run_keys ON key = run"
            " WHERE tag = (SELECT key FROM tags WHERE name = ?) AND value IS NOT NULL",
            (tag,),
        )
        return {str(run_id): float(value) for run_id, value in rows}

    def newest_step(self, run_id: str) -> int:
        """How far a run was by its headline numbers; 0 when it has none."""
        sql = "SELECT coalesce(max(step), 0) FROM headline WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
        return int(self._small.rows(sql, (run_id,))[0][0])

    def tags(self, run_id: str) -> list[str]:
        with self._large.snapshot() as fetch:
            return metric_lines.tags_of(fetch, _key(fetch, run_id))

    def series(self, run_id: str, tag: str, *, after_step: int, max_points: int) -> Series:
        """The newest points of one metric after a step, oldest first. Not-finite values come back as NaN."""
        with self._large.snapshot() as fetch:
            run = _key(fetch, run_id)
            total = metric_lines.count_points(fetch, run, tag, after_step=after_step)
            points = metric_lines.newest_points(fetch, run, tag, after_step=after_step, limit=max_points)
        return Series(tag, *points, total)

    def metric_rows(self, run_id: str) -> int:
        """How many scalars a run has stored."""
        with self._large.snapshot() as fetch:
            return metric_lines.count_scalars(fetch, _key(fetch, run_id))


def _key(fetch: Fetch, run_id: str) -> int:
    """The number under which a run is stored; that of no run where nothing is."""
    return next((int(row[0]) for row in fetch("SELECT key FROM run_keys WHERE run_id = ?", (run_id,))), 0)


def _forget_slice(connection: sqlite3.Connection, run: int, beyond_shape: int | None) -> bool:
    """Whether something of the run is left. Of its metric lines those before a shape go first."""
    if beyond_shape is not None:
        table, key = "metric_lines", _LARGE_TABLES["metric_lines"]
        if not _delete_slice(connection, table, key, run, beyond_shape):
            connection.execute(f"DELETE FROM {table} WHERE run = ? AND shape < ?", (run, beyond_shape))
        return True
    large = _large_tables(connection)
    if any(_delete_slice(connection, table, key, run) for table, key in large.items()):
        return True
    for table in ("cursors", "headline", *large):
        connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
    connection.execute("DELETE FROM run_keys WHERE key = ?", (run,))
    return False


def _large_tables(connection: sqlite3.Connection) -> dict[str, str]:
    older = {older_layout.TABLE: older_layout.KEY} if older_layout.is_there(connection.execute) else {}
    return {**_LARGE_TABLES, **older}


def _delete_slice(
    connection: sqlite3.Connection, table: str, key: str, run: int, before_shape: int | None = None
) -> bool:
    """Delete the first rows of a run, by its primary key; False, and nothing is deleted, when a slice holds all, or all
    before a shape."""
    bound, values = ("", (run,)) if before_shape is None else (" AND shape < ?", (run, before_shape))
    beyond = connection.execute(
        f"SELECT {key} FROM {table} WHERE run = ?{bound} ORDER BY {key} LIMIT 1 OFFSET ?", (*values, _ROWS_PER_SLICE)
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


def _write_records(connection: sqlite3.Connection, run: int, stream: str, fresh: Sequence[Line]) -> None:
    """Rows are numbered per run and kind over all streams, which gives readers one cursor."""
    next_row: dict[str, int] = {}
    for record, line in fresh:
        kind = str(type(record).__struct_config__.tag)
        if kind not in next_row:
            sql = "SELECT coalesce(max(row), 0) FROM records WHERE run = ? AND kind = ?"
            next_row[kind] = int(connection.execute(sql, (run, kind)).fetchone()[0])
        next_row[kind] += 1
        connection.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", (run, kind, next_row[kind], stream, record.seq, line)
        )


def _write_metrics(connection: sqlite3.Connection, run: int, stream: str, lines: Sequence[MetricLine]) -> str:
    """A sentence when what comes of other tags is kept without curves from now on."""
    if not lines:
        return ""
    writer = MetricWriter(connection)
    writer.add(run, stream, metric_lines.last_row(connection, run) + 1, lines)
    newest = {tag: (row.step, row.values[tag]) for row, _ in lines for tag in HEADLINE_TAGS if tag in row.values}
    connection.executemany(
        "INSERT OR REPLACE INTO headline VALUES (?, ?, ?, ?)",
        [(run, tag_key(connection, tag), step, value) for tag, (step, value) in newest.items()],
    )
    if RETURN_TAG in newest:
        tells = any(RECENT_MEANS[RETURN_TAG] in row.values for row, _ in lines)
        _write_mean_return(connection, run, tells_itself=tells)
    most = (
        f"the run has logged {MOST_SHAPES:,} different lists of tags: lines with yet other ones are kept, but have no"
    )
    return f"{most} curves; do not put a number that changes into a tag" if writer.overfull else ""


def _write_mean_return(connection: sqlite3.Connection, run: int, *, tells_itself: bool) -> None:
    """Read back from the rows, and not carried on: whatever order they came in, the figure belongs to the curve. A row
    that stands for many episodes tells the mean itself: that of rows would be of any number of episodes."""
    tag, limit = (RECENT_MEANS[RETURN_TAG], 1) if tells_itself else (RETURN_TAG, RECENT_EPISODES)
    steps, values, _ = metric_lines.newest_points(
        connection.execute, run, tag, after_step=_BEFORE_ALL_STEPS, limit=limit
    )
    finite = [value for value in values if not math.isnan(value)]
    mean = sum(finite) / len(finite) if finite else None
    connection.execute(
        "INSERT OR REPLACE INTO headline VALUES (?, ?, ?, ?)",
        (run, tag_key(connection, MEAN_RETURN), steps[-1], mean),
    )
