"""A read-only connection to a database that somebody else writes, for several threads in turn."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gym_gui.services.trainer.errors import RegistryCorruptError
from gym_gui.services.trainer.group_commit import connect, translate


class ReadConnection:
    """Sees every commit made before a query begins. A query waits for the one before it, so what must answer at once
    and what may take seconds need a connection each. Raises :class:`WorldError` for what the file does not give."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path, read_only=True)
        self._turn = threading.Lock()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        with self.each(sql, values) as cursor:
            return cursor.fetchall()

    @contextmanager
    def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[sqlite3.Cursor]:
        """For a reader that may have enough before the end."""
        try:
            with self._turn, closing(self._connection.execute(sql, tuple(values))) as cursor:
                yield cursor
        except sqlite3.Error as error:
            problem = translate(error, self._path)
            if isinstance(problem, RegistryCorruptError):  # found while it is in use, so nobody has kept it aside
                advice = "stop the daemon (runs go on), move the file aside and start it again"
                problem = RegistryCorruptError(f"{problem}: {advice}")
            raise problem from error

    def close(self) -> None:
        self._connection.close()
