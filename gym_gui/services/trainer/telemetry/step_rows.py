"""The tables of the step store, and what a write does to them. Everything here runs inside one transaction."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from gym_gui.services.trainer.storage.group_commit import Migration
from gym_gui.services.trainer.telemetry.batches import Batch, Line, Stored, new_lines, sorted_out
from mosaic_protocol import events as ev
from mosaic_protocol.steps.chunk import ChunkError, check
from mosaic_protocol.steps.merging import MOST_STEPS

_BODY = b'"body":"'


def _first_schema(connection: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE run_keys (key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE)",
        """CREATE TABLE cursors (run INTEGER NOT NULL, stream TEXT NOT NULL, acked INTEGER NOT NULL,
            PRIMARY KEY (run, stream)) WITHOUT ROWID""",
        # Large blobs belong into a table with row ids: the index is narrow then.
        """CREATE TABLE chunks (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, first_step INTEGER NOT NULL,
            count INTEGER NOT NULL, last_episode INTEGER NOT NULL, header BLOB NOT NULL, body BLOB)""",
        "CREATE UNIQUE INDEX chunks_by_step ON chunks (run, first_step)",
        """CREATE TABLE episodes (run INTEGER NOT NULL, row INTEGER NOT NULL, episode INTEGER NOT NULL,
            agent_id TEXT NOT NULL, length INTEGER NOT NULL, total_reward REAL, outcome TEXT NOT NULL, seed,
            first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, ended_at REAL NOT NULL,
            PRIMARY KEY (run, row)) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX episodes_by_number ON episodes (run, episode)",
        """CREATE TABLE totals (run INTEGER PRIMARY KEY, next_step INTEGER NOT NULL, damaged INTEGER NOT NULL,
            trimmed INTEGER NOT NULL)""",
    ):
        connection.execute(statement)


def _compacted_runs(connection: sqlite3.Connection) -> None:
    """Runs of earlier versions are compacted when the next daemon has time."""
    connection.execute("ALTER TABLE totals ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0")


def _exact_counts(connection: sqlite3.Connection) -> None:
    """``claimed`` are the steps that damaged chunks after the newest sound one say they hold. ``episode_row`` is the
    last row that an episode got: rows of ends that were undone are free and are not given again. ``summaries`` is how
    many rows the worker's own summaries of episodes took before its first chunk."""
    for name in ("claimed", "episode_row", "summaries"):
        connection.execute(f"ALTER TABLE totals ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")
    newest = "SELECT max(row) FROM episodes WHERE episodes.run = totals.run"
    connection.execute(f"UPDATE totals SET episode_row = coalesce(({newest}), 0)")


MIGRATIONS: list[Migration] = [_first_schema, _compacted_runs, _exact_counts]


@dataclass
class _Progress:
    """How far the steps of a run are."""

    next_step: int = 0
    damaged: int = 0
    claimed: int = 0
    episode_row: int = 0
    summaries: int = 0


def store(connection: sqlite3.Connection, batch: Batch, summaries: int) -> Stored:
    """``summaries`` is how many episodes the run has told of itself so far; of use with its first chunk."""
    run = run_key(connection, batch.run_id)
    acked = _acked(connection, run, batch.stream)
    if not batch.lines:
        return Stored(acked, ())
    run = run if run is not None else new_run_key(connection, batch.run_id)
    fresh, damaged = new_lines(batch, acked)
    lines, strangers = sorted_out(batch, fresh, _why_not)
    kept, lost = _write_chunks(connection, run, lines, summaries)
    acked = fresh[-1][0].seq if fresh else max(acked, batch.oldest_seq - 1)
    connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (run, batch.stream, acked))
    return Stored(acked, kept, [*damaged, *strangers, *lost])


def _why_not(record: ev.Record) -> str:
    """Why a record is not taken; nothing for a chunk."""
    if isinstance(record, ev.StepChunk):
        return ""
    return f"the stream of steps takes chunks of steps, not {record.__struct_config__.tag!r}"


def _acked(connection: sqlite3.Connection, run: int | None, stream: str) -> int:
    row = connection.execute("SELECT acked FROM cursors WHERE run = ? AND stream = ?", (run, stream)).fetchone()
    return int(row[0]) if row else 0


def _write_chunks(
    connection: sqlite3.Connection, run: int, lines: Sequence[Line], summaries: int
) -> tuple[list[ev.Record], list[str]]:
    progress = _progress(connection, run)
    kept: list[ev.Record] = []
    damaged: list[str] = []
    for record, line in lines:
        assert isinstance(record, ev.StepChunk)
        try:
            check(record)
        except ChunkError as error:
            damaged.append(str(error))
            progress.claimed += _believable_steps(record, progress)
            continue
        if record.first_step < progress.next_step:
            damaged.append(f"steps from {record.first_step} on come again, {progress.next_step} is next")
            continue
        if missing := record.first_step - progress.next_step:
            progress.damaged += missing
            damaged.append(f"{missing} steps from {progress.next_step} on did not arrive")
        if not progress.next_step:
            progress.summaries = progress.episode_row = summaries
        progress.next_step, progress.claimed = record.first_step + record.count, 0
        insert_chunk(connection, run, record, line)
        progress.episode_row = _write_episodes(connection, run, record, progress.episode_row)
        kept.append(record)
    _keep_progress(connection, run, progress)
    return kept, damaged


def _believable_steps(record: ev.StepChunk, progress: _Progress) -> int:
    """What a damaged chunk says it holds, where that can be: the next sound chunk shows how many really are missing,
    and there may be none."""
    follows = record.first_step == progress.next_step + progress.claimed
    return record.count if follows and 0 < record.count <= MOST_STEPS else 0


def insert_chunk(connection: sqlite3.Connection, run: int, record: ev.StepChunk, line: bytes) -> None:
    header, body = _split(line, record)
    connection.execute(
        "INSERT INTO chunks (run, first_step, count, last_episode, header, body) VALUES (?, ?, ?, ?, ?, ?)",
        (run, record.first_step, record.count, record.last_episode, header, body),
    )


def _progress(connection: sqlite3.Connection, run: int) -> _Progress:
    columns = "next_step, damaged, claimed, episode_row, summaries"
    row = connection.execute(f"SELECT {columns} FROM totals WHERE run = ?", (run,)).fetchone()
    return _Progress(*map(int, row)) if row else _Progress()


def _keep_progress(connection: sqlite3.Connection, run: int, now: _Progress) -> None:
    connection.execute("INSERT OR IGNORE INTO totals (run, next_step, damaged, trimmed) VALUES (?, 0, 0, 0)", (run,))
    connection.execute(
        "UPDATE totals SET next_step = ?, damaged = ?, claimed = ?, episode_row = ?, summaries = ?, compacted = 0"
        " WHERE run = ?",
        (now.next_step, now.damaged, now.claimed, now.episode_row, now.summaries, run),
    )


def _write_episodes(connection: sqlite3.Connection, run: int, record: ev.StepChunk, row: int) -> int:
    """Returns the last row that was given. The last end of an episode counts, and gets a row of its own: who watches
    hears of it."""
    if record.undone:
        gone = [(run, number) for number in record.undone]
        connection.executemany("DELETE FROM episodes WHERE run = ? AND episode = ?", gone)
    last_step = record.first_step + record.count - 1
    connection.executemany(
        "INSERT OR REPLACE INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(run, place, e.episode, e.agent_id, e.length, e.total_reward, e.outcome, e.seed),
                *(e.first_step, last_step, record.t),
            )
            for place, e in enumerate(record.episodes, row + 1)
        ],
    )
    return row + len(record.episodes)


def _split(line: bytes, record: ev.StepChunk) -> tuple[bytes, bytes | None]:
    """The line without its body, and the body; a third smaller than as text. The whole line where it is written in
    another way than ours."""
    start = line.find(_BODY) + len(_BODY)
    end = line.find(b'"', start)
    if line.count(_BODY) == 1 and line[start:end] == base64.b64encode(record.body):
        return line[:start] + line[end:], record.body
    return line, None


def joined(header: bytes, body: bytes | None) -> bytes:
    if body is None:
        return header
    start = header.find(_BODY) + len(_BODY)
    return header[:start] + base64.b64encode(body) + header[start:]


def run_key(connection: sqlite3.Connection, run_id: str) -> int | None:
    row = connection.execute("SELECT key FROM run_keys WHERE run_id = ?", (run_id,)).fetchone()
    return int(row[0]) if row else None


def new_run_key(connection: sqlite3.Connection, run_id: str) -> int:
    return int(connection.execute("INSERT INTO run_keys (run_id) VALUES (?)", (run_id,)).lastrowid or 0)
