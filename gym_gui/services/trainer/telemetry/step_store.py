"""The durable store of steps, in a database of its own: chunks as workers sealed them, each exactly once.

A chunk's record is kept to the byte: its body as a blob, the rest of the line beside it. A batch and the stream's
cursor are one transaction, so what comes twice is skipped. A chunk that is damaged costs its own steps: they are
counted, and the stream goes on. Nothing is unpacked here but for compacting, so the daemon spends little on a step
whatever it holds.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gym_gui.services.trainer.errors import RefusedError, WorldError
from gym_gui.services.trainer.storage.group_commit import GroupCommitter
from gym_gui.services.trainer.storage.read_connection import ReadConnection
from gym_gui.services.trainer.telemetry import transfer
from gym_gui.services.trainer.telemetry.batches import Batch, Stored
from gym_gui.services.trainer.telemetry.step_rows import (
    MIGRATIONS,
    insert_chunk,
    joined,
    new_run_key,
    run_key,
    store,
)
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import MESSAGE_BYTES

T = TypeVar("T")

_CHUNKS_PER_SLICE = 200
_PAGES_PER_SLICE = 2_000
_BEYOND = 2**63 - 1


@dataclass(frozen=True)
class StepTotals:
    """``steps`` that the run has recorded, how many of them were damaged on the way, how many retention removed.
    ``claimed`` of the damaged ones come after all that are stored."""

    steps: int = 0
    damaged: int = 0
    trimmed: int = 0
    claimed: int = 0


class _Connections:
    """The database when it is there."""

    def __init__(self, path: Path) -> None:
        self.writer = GroupCommitter(path, MIGRATIONS, synchronous="NORMAL")
        self.small, self.large = ReadConnection(path), ReadConnection(path)

    def close(self) -> None:
        self.small.close()
        self.large.close()
        self.writer.close()


class StepStore:
    """Thread-safe. Writes return futures that are done after the commit; reads return values.

    The file is made when the first steps come: most machines train without recording any, and a database holds space
    for what must be written on a full disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opening = threading.Lock()
        self._connections = _Connections(path) if path.exists() else None

    @property
    def files(self) -> list[Path]:
        """The database, once it was made."""
        return [self.path] if self._connections is not None else []

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()

    def _made(self) -> _Connections:
        with self._opening:
            if self._connections is None:
                self._connections = _Connections(self.path)
            return self._connections

    def _write(self, operation: Callable[[sqlite3.Connection], T], nothing: T, *, essential: bool) -> Future[T]:
        """Run an operation where there is something to operate on."""
        if self._connections is None:
            done: Future[T] = Future()
            done.set_result(nothing)
            return done
        return self._connections.writer.submit(operation, essential=essential)

    def _small_rows(self, sql: str, values: Sequence[object]) -> list[sqlite3.Row]:
        return self._connections.small.rows(sql, values) if self._connections is not None else []

    def _large_rows(self, sql: str, values: Sequence[object]) -> list[sqlite3.Row]:
        return self._connections.large.rows(sql, values) if self._connections is not None else []

    # ---- writing -------------------------------------------------------------------------------------------------

    def ingest(self, batch: Batch, summaries: int = 0) -> Future[Stored]:
        """Store what is new of a batch. Raises :class:`RefusedError` through the future for a gap in the stream or for
        records that are no chunks. ``summaries`` of episodes that a worker sent before its first chunk have the first
        rows: one cursor goes over them and what comes now."""
        try:
            writer = self._made().writer
        except WorldError as error:  # no space for the file, or a folder that takes none
            refused: Future[Stored] = Future()
            refused.set_exception(error)
            return refused
        return writer.submit(lambda connection: store(connection, batch, summaries), essential=batch.salvage)

    def bring(self, run_id: str, rows: Sequence[transfer.Row]) -> Future[None]:
        """Store rows of a run as they lay in another store. Raises :class:`RefusedError` through the future for what
        cannot be one, or is there already; WorldError where the file cannot be made."""

        def operation(connection: sqlite3.Connection) -> None:
            known = run_key(connection, run_id)
            run = known if known is not None else new_run_key(connection, run_id)
            try:
                transfer.write_steps(connection, run, rows)
            except sqlite3.IntegrityError as error:
                raise RefusedError(f"two of its steps have the same place: {error}") from error

        return self._made().writer.submit(operation)

    def trim(self, run_id: str, keep_steps: int) -> Future[bool]:
        """Remove a slice of the oldest chunks while more steps than ``keep_steps`` stay; False when none is left to
        remove, so call it until then."""

        def operation(connection: sqlite3.Connection) -> bool:
            run = run_key(connection, run_id)
            if run is None:
                return False
            totals = connection.execute("SELECT next_step FROM totals WHERE run = ?", (run,)).fetchone()
            if totals is None:  # it asked for its place in the stream, and recorded nothing
                return False
            next_step = int(totals[0])
            sql = "SELECT id, count FROM chunks WHERE run = ? AND first_step + count <= ? ORDER BY first_step LIMIT ?"
            gone = connection.execute(sql, (run, next_step - keep_steps, _CHUNKS_PER_SLICE)).fetchall()
            connection.executemany("DELETE FROM chunks WHERE id = ?", [(row[0],) for row in gone])
            steps = sum(int(row[1]) for row in gone)
            connection.execute("UPDATE totals SET trimmed = trimmed + ? WHERE run = ?", (steps, run))
            return len(gone) == _CHUNKS_PER_SLICE

        return self._write(operation, False, essential=True)  # it makes room

    def replace(self, run_id: str, ids: Sequence[int], records: Sequence[ev.StepChunk]) -> Future[bool]:
        """Put chunks in the place of others that hold the same steps; False, and nothing is changed, when one of these
        is gone. One transaction: there is no moment at which a step is missing or there twice."""
        marks = ", ".join("?" * len(ids))

        def operation(connection: sqlite3.Connection) -> bool:
            run = run_key(connection, run_id)
            sql = f"SELECT count(*) FROM chunks WHERE id IN ({marks}) AND run = ?"
            if run is None or connection.execute(sql, (*ids, run)).fetchone()[0] != len(ids):
                return False
            connection.execute(f"DELETE FROM chunks WHERE id IN ({marks})", ids)
            for record in records:
                insert_chunk(connection, run, record, ev.encode(record))
            return True

        return self._write(operation, False, essential=False)

    def mark_compacted(self, run_id: str) -> Future[None]:
        def operation(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE totals SET compacted = 1 WHERE run = ?", (run_key(connection, run_id),))

        return self._write(operation, None, essential=False)

    def forget(self, run_id: str) -> Future[bool]:
        """Remove a slice of a run's traces; False when none is left, so call it until then."""

        def operation(connection: sqlite3.Connection) -> bool:
            run = run_key(connection, run_id)
            if run is None:
                return False
            sql = "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE run = ? LIMIT ?)"
            if connection.execute(sql, (run, _CHUNKS_PER_SLICE)).rowcount:
                return True
            for table in ("cursors", "episodes", "totals"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            connection.execute("DELETE FROM run_keys WHERE key = ?", (run,))
            return False

        return self._write(operation, False, essential=True)  # it makes room

    def give_back(self) -> Future[bool]:
        """Return a slice of the free pages to the file system; False when none is left, so call it until then."""

        def operation(connection: sqlite3.Connection) -> bool:
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_PER_SLICE})").fetchall()
            return int(connection.execute("PRAGMA freelist_count").fetchone()[0]) > 0

        return self._write(operation, False, essential=True)  # it makes room

    # ---- reading -------------------------------------------------------------------------------------------------

    def acked(self, run_id: str, stream: str) -> int:
        rows = self._small_rows(
            "SELECT acked FROM cursors JOIN run_keys ON key = run WHERE run_id = ? AND stream = ?", (run_id, stream)
        )
        return int(rows[0][0]) if rows else 0

    def streams(self, run_id: str) -> list[str]:
        """The streams of which something is stored."""
        sql = "SELECT stream FROM cursors JOIN run_keys ON key = run WHERE run_id = ? AND acked > 0"
        return [str(stream) for (stream,) in self._small_rows(sql, (run_id,))]

    def bytes_by_run(self) -> dict[str, int]:
        """What the steps of each run take. Looks at every chunk: for a thread that may wait."""
        sql = (
            "SELECT run_id, sum(length(header) + coalesce(length(body), 0)) FROM chunks JOIN run_keys ON key = run"
            " GROUP BY run"
        )
        return {str(run_id): int(found) for run_id, found in self._large_rows(sql, ())}

    def totals(self, run_id: str) -> StepTotals:
        rows = self._small_rows(
            "SELECT next_step + claimed, damaged + claimed, trimmed, claimed FROM totals JOIN run_keys ON key = run"
            " WHERE run_id = ?",
            (run_id,),
        )
        return StepTotals(*map(int, rows[0])) if rows else StepTotals()

    def chunks_after(self, run_id: str, step: int, before: int = _BEYOND) -> list[tuple[int, bytes]]:
        """The records of chunks with steps from this one on, each with the step that follows it, as many as fit into
        one message. The first chunk may begin earlier."""
        return [(end, line) for _, end, line in self.chunks_between(run_id, step, before)]

    def neighbours_after(self, run_id: str, step: int, most: int) -> list[tuple[int, int, bytes]]:
        """(first step, the step that follows the last, record) of the first chunks with steps from this one on that
        follow each other: as many as fit into one message, and the last of them may go beyond so many steps."""
        found: list[tuple[int, int, bytes]] = []
        for chunk in self.chunks_between(run_id, step, most_steps=most):
            if found and chunk[0] != found[-1][1]:
                break
            found.append(chunk)
        return found

    def chunks_between(
        self, run_id: str, step: int, before: int = _BEYOND, *, most_steps: int = _BEYOND
    ) -> list[tuple[int, int, bytes]]:
        """(first step, the step that follows the last, record) of chunks with steps from this one on, as many as fit
        into one message."""
        run = "(SELECT key FROM run_keys WHERE run_id = ?)"
        sql = (
            f"SELECT first_step, first_step + count, header, body FROM chunks WHERE run = {run} AND first_step < ?"
            f" AND first_step >= coalesce((SELECT max(first_step) FROM chunks WHERE run = {run}"
            " AND first_step <= ?), 0) AND first_step + count > ? ORDER BY first_step"
        )
        found: list[tuple[int, int, bytes]] = []
        size = steps = 0
        if self._connections is None:
            return found
        with self._connections.large.each(sql, (run_id, before, run_id, step, step)) as cursor:
            while size < MESSAGE_BYTES and steps < most_steps and (row := cursor.fetchone()) is not None:
                found.append((int(row[0]), int(row[1]), joined(bytes(row[2]), row[3])))
                size += len(found[-1][2])
                steps += found[-1][1] - max(step, found[-1][0])
        return found

    def rows(self, run_id: str) -> Iterator[transfer.Row]:
        """Everything that is stored of a run that is over, to be brought to another store. Blocks."""
        whose = "WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
        for columns, table, head in (
            ("stream, acked", "cursors", transfer.Cursor),
            ("next_step, damaged, trimmed, compacted, claimed, episode_row, summaries", "totals", transfer.Totals),
        ):
            for row in self._large_rows(f"SELECT {columns} FROM {table} {whose} ORDER BY 1", (run_id,)):
                yield head(*row), b""
        columns = "row, episode, agent_id, length, total_reward, outcome, seed, first_step, last_step, ended_at"
        after = -1
        sql = f"SELECT {columns} FROM episodes {whose} AND row > ? ORDER BY row LIMIT 1000"
        while found := self._large_rows(sql, (run_id, after)):
            yield from ((transfer.Episode(*row), b"") for row in found)
            after = int(found[-1][0])
        after = 0
        while chunks := self.chunks_between(run_id, after):
            yield from ((transfer.Chunk(), line) for _, _, line in chunks)
            after = chunks[-1][1]

    def chunk_sizes(self, run_id: str, first_step: int, limit: int) -> list[tuple[int, int, int]]:
        """(id, first step, count) of the chunks that begin with this step or later."""
        rows = self._large_rows(
            "SELECT id, first_step, count FROM chunks WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
            " AND first_step >= ? ORDER BY first_step LIMIT ?",
            (run_id, first_step, limit),
        )
        return [(int(row[0]), int(row[1]), int(row[2])) for row in rows]

    def chunks(self, ids: Sequence[int], *, bodies: bool = True) -> list[tuple[int, ev.StepChunk]]:
        """(id, chunk) of those that are still there, in the order of their steps. Without bodies they cannot be
        unpacked, and cost little. Raises :class:`~mosaic_protocol.events.RecordError`."""
        marks, body = ", ".join("?" * len(ids)), "body" if bodies else "CASE WHEN body IS NULL THEN NULL ELSE '' END"
        rows = self._large_rows(f"SELECT id, header, {body} FROM chunks WHERE id IN ({marks}) ORDER BY first_step", ids)
        found = ((int(row[0]), ev.decode(joined(bytes(row[1]), _as_bytes(row[2])))) for row in rows)
        return [(number, record) for number, record in found if isinstance(record, ev.StepChunk)]

    def not_compacted(self) -> list[str]:
        """The runs that have come to an end, or not, without being compacted since."""
        rows = self._small_rows("SELECT run_id FROM totals JOIN run_keys ON key = run WHERE compacted = 0", ())
        return [str(row[0]) for row in rows]

    def newest_chunk(self, run_id: str) -> tuple[int, int, bytes] | None:
        """(first step, the step that follows the last, record) of the newest chunk."""
        rows = self._large_rows(
            "SELECT first_step, first_step + count, header, body FROM chunks"
            " WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) ORDER BY first_step DESC LIMIT 1",
            (run_id,),
        )
        return (int(rows[0][0]), int(rows[0][1]), joined(bytes(rows[0][2]), rows[0][3])) if rows else None

    def episodes(self, run_id: str, after_row: int = 0, limit: int = 1000) -> list[tuple[int, ev.EpisodeSummary]]:
        """(row, episode) of finished episodes in the order in which they ended: of several environments the later
        one may end first. Rows rise, and leave out those of ends that were undone."""
        rows = self._large_rows(
            "SELECT row, episode, agent_id, length, total_reward, outcome, seed, first_step, ended_at FROM episodes"
            " WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) AND row > ? ORDER BY row LIMIT ?",
            (run_id, after_row, limit),
        )
        return [(int(row[0]), ev.EndedEpisode(*row[1:8]).summary(row[8])) for row in rows]

    def episode_span(self, run_id: str, episode: int) -> tuple[int, int]:
        """Between which steps an episode lies: the first, and the one that follows the last. Of an episode that runs,
        or was never ended, as far as its steps can be; (0, 0) where there is none."""
        rows = self._small_rows(
            "SELECT first_step, last_step + 1 FROM episodes JOIN run_keys ON key = run"
            " WHERE run_id = ? AND episode = ?",
            (run_id, episode),
        ) or self._large_rows(
            "SELECT min(first_step), max(first_step + count) FROM chunks"
            " WHERE run = (SELECT key FROM run_keys WHERE run_id = ?) AND last_episode >= ?",
            (run_id, episode),
        )
        return (int(rows[0][0] or 0), int(rows[0][1] or 0)) if rows else (0, 0)

    def summaries_before(self, run_id: str) -> int | None:
        """How many summaries a worker had sent before the first chunk of its run; None where there is no chunk."""
        sql = "SELECT summaries FROM totals JOIN run_keys ON key = run WHERE run_id = ? AND next_step > 0"
        rows = self._small_rows(sql, (run_id,))
        return int(rows[0][0]) if rows else None

    def count_episodes(self, run_id: str, after_row: int, to_row: int = _BEYOND) -> int:
        """How many finished episodes have a row after one and up to another."""
        rows = self._large_rows(
            "SELECT count(*) FROM episodes WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
            " AND row > ? AND row <= ?",
            (run_id, after_row, to_row),
        )
        return int(rows[0][0]) if rows else 0

    def episode_row_before_last(self, run_id: str, count: int) -> int | None:
        """After which row the last so many episodes begin; None where there are no more than these."""
        rows = self._large_rows(
            "SELECT row FROM episodes WHERE run = (SELECT key FROM run_keys WHERE run_id = ?)"
            " ORDER BY row DESC LIMIT 1 OFFSET ?",
            (run_id, count),
        )
        return int(rows[0][0]) if rows else None


def _as_bytes(body: bytes | str | None) -> bytes | None:
    return None if body is None else bytes(body, "ascii") if isinstance(body, str) else bytes(body)
