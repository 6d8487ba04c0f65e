"""Telemetry stores as earlier versions wrote them: metrics by tag and, a second time, as records."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from gym_gui.services.trainer.storage.group_commit import GroupCommitter
from gym_gui.services.trainer.telemetry.store import MIGRATIONS
from mosaic_protocol import events as ev
from mosaic_protocol.headline import RETURN_TAG

TABLES = """
    CREATE TABLE run_keys (key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE);
    CREATE TABLE tags (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE cursors (run INTEGER NOT NULL, stream TEXT NOT NULL, acked INTEGER NOT NULL,
        PRIMARY KEY (run, stream)) WITHOUT ROWID;
    CREATE TABLE metrics (run INTEGER NOT NULL, tag INTEGER NOT NULL, step INTEGER NOT NULL, stream TEXT NOT NULL,
        seq INTEGER NOT NULL, wall_time REAL NOT NULL, value REAL, PRIMARY KEY (run, tag, step, stream, seq))
        WITHOUT ROWID;
    CREATE TABLE records (run INTEGER NOT NULL, kind TEXT NOT NULL, row INTEGER NOT NULL, stream TEXT NOT NULL,
        seq INTEGER NOT NULL, line BLOB NOT NULL, PRIMARY KEY (run, kind, row)) WITHOUT ROWID;
    CREATE TABLE headline (run INTEGER NOT NULL, tag INTEGER NOT NULL, step INTEGER NOT NULL, value REAL,
        PRIMARY KEY (run, tag)) WITHOUT ROWID;
"""


def older_store(path: Path, version: int, lines: Mapping[str, Sequence[bytes]]) -> None:
    """A file from before databases held space of their own; ``lines`` by run."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(TABLES)
        fill(connection, lines)
        connection.execute(f"PRAGMA user_version = {version}")


def older_store_with_ballast(path: Path, lines: Mapping[str, Sequence[bytes]]) -> None:
    with closing(GroupCommitter(path, MIGRATIONS[:2], synchronous="NORMAL")) as writer:
        writer.submit(lambda connection: fill(connection, lines)).result(60)


def fill(connection: sqlite3.Connection, lines: Mapping[str, Sequence[bytes]]) -> None:
    keys: dict[str, int] = {}
    for run, (name, said) in enumerate(lines.items(), 1):
        connection.execute("INSERT INTO run_keys VALUES (?, ?)", (run, name))
        connection.execute("INSERT INTO cursors VALUES (?, 'worker', ?)", (run, len(said)))
        for row, line in enumerate(said, 1):
            connection.execute("INSERT INTO records VALUES (?, 'metric', ?, 'worker', ?, ?)", (run, row, row, line))
            record = ev.decode(line)
            assert isinstance(record, ev.MetricRow)
            for tag, value in record.values.items():
                if tag not in keys:
                    keys[tag] = int(connection.execute("INSERT INTO tags (name) VALUES (?)", (tag,)).lastrowid or 0)
                point = (run, keys[tag], record.step, row, record.t, value)
                connection.execute("INSERT INTO metrics VALUES (?, ?, ?, 'worker', ?, ?, ?)", point)
                if tag == RETURN_TAG:
                    headline = (run, keys[tag], record.step, value)
                    connection.execute("REPLACE INTO headline VALUES (?, ?, ?, ?)", headline)


def tables_of(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
