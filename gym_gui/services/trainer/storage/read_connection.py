"""A read-only connection to a database that somebody else writes, for several threads in turn."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from gym_gui.services.trainer.errors import RegistryCorruptError
from gym_gui.services.trainer.storage.group_commit import connect, translate

_PATIENCE = 10.0
"""Seconds after which a connection that somebody still reads is left to the end of the process."""


class ReadConnection:
    """Sees every commit made before a query begins. A query waits for the one before it, so what must answer at once
    and what may take seconds need a connection each. Raises :class:`WorldError` for what the file does not give."""

    def __init__(self, path: Path, **functions: Callable[[Any], Any]) -> None:
        """``functions`` of one value that queries may use, by name."""
        self._path = path
        self._connection = connect(path, read_only=True)
        for name, function in functions.items():
            self._connection.create_function(name, 1, function, deterministic=True)
        self._turn = threading.Lock()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        with self.each(sql, values) as cursor:
            return cursor.fetchall()

    @contextmanager
    def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[sqlite3.Cursor]:
        """For a reader that may have enough before the end."""
        with self._translated(), self._turn, closing(self._connection.execute(sql, tuple(values))) as cursor:
            yield cursor

    @contextmanager
    def snapshot(self) -> Iterator[Callable[[str, Sequence[object]], sqlite3.Cursor]]:
        """For several queries that have to see the same commits: gives the function that makes them. Rows are plain
        tuples, which large reads notice."""
        with self._translated(), self._turn:
            self._connection.execute("BEGIN")
            try:
                yield self._plain
            finally:
                if self._connection.in_transaction:  # an error may have ended it
                    self._connection.execute("ROLLBACK")

    def _plain(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(sql, values)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            problem = translate(error, self._path)
            if isinstance(problem, RegistryCorruptError):  # found while it is in use, so nobody has kept it aside
                advice = "stop the daemon (runs go on), move the file aside and start it again"
                problem = RegistryCorruptError(f"{problem}: {advice}")
            raise problem from error

    def close(self) -> None:
        """A query under way in another thread is broken off first: SQLite does not survive that its connection is
        closed below it."""
        with suppress(sqlite3.ProgrammingError):  # it is closed already
            self._connection.interrupt()
        if self._turn.acquire(timeout=_PATIENCE):
            try:
                self._connection.close()
            finally:
                self._turn.release()
