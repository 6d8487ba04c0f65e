"""Remembers what small files say, so that a listing of thousands need not parse them all again.

A file is known by path, time of change and size: one that changed is read again. The index is a cache in SQLite; when
it is missing, damaged or cannot be written, everything is read from the files and nothing is lost.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_VERSION = 3
_PATIENCE = 0.2

Digest = dict[str, Any]


class FileIndex:
    """One scan's view of the index: look files up, then :meth:`save` what was learned. Belongs to one thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = _load(file)
        self._seen: set[str] = set()
        self._learned: dict[str, tuple[int, int, str]] = {}

    def digest(self, file: Path, read: Callable[[], Digest]) -> Digest:
        """What ``read`` makes of a file, called only when the file is not as it was. Passes on what it raises."""
        name = str(file)
        status = os.stat(name)  # noqa: PTH116 - called for every checkpoint there is, and twice as fast
        self._seen.add(name)
        kept = self._known.get(name)
        if kept is not None and kept[:2] == (status.st_mtime_ns, status.st_size):
            with suppress(ValueError):
                found: Digest = json.loads(kept[2])
                return found
        digest = read()
        self._learned[name] = (status.st_mtime_ns, status.st_size, json.dumps(digest))
        return digest

    def save(self) -> None:
        """Keep what was learned, and forget files that this scan did not meet. Never fails."""
        gone = self._known.keys() - self._seen
        if not self._learned and not gone:
            return
        with suppress(sqlite3.Error, OSError, UnicodeError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._file, timeout=_PATIENCE)) as connection, connection:
                _prepare(connection)
                rows = [(name, *facts) for name, facts in self._learned.items()]
                connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)
                connection.executemany("DELETE FROM files WHERE path = ?", [(name,) for name in gone])


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        connection.execute("DROP TABLE IF EXISTS files")
        connection.execute("CREATE TABLE files (path TEXT PRIMARY KEY, mtime INTEGER, size INTEGER, digest TEXT)")
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _load(file: Path) -> dict[str, tuple[int, int, str]]:
    if not file.is_file():
        return {}
    try:
        with closing(sqlite3.connect(file, timeout=_PATIENCE)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            rows = connection.execute("SELECT path, mtime, size, digest FROM files") if version == _VERSION else ()
            return {path: (mtime, size, digest) for path, mtime, size, digest in rows}
    except sqlite3.DatabaseError as error:
        if not isinstance(error, sqlite3.OperationalError):  # not merely busy: it is no database any more
            with suppress(OSError):
                file.unlink()
        return {}
