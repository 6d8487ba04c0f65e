"""The rows of sweeps and trials, in the registry's file: the same writer, the same promise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from msgspec.structs import replace

from gym_gui.services.run_request import LONGEST_STEM, fresh_name
from gym_gui.services.sweeps.model import (
    OVER,
    Sweep,
    Trial,
    TrialState,
    decode_sweep,
    decode_trials,
    encode_sweep,
    encode_trial,
)
from gym_gui.services.trainer.errors import RefusedError, UnknownRunError
from gym_gui.services.trainer.storage.group_commit import GroupCommitter
from gym_gui.services.trainer.storage.read_connection import ReadConnection
from mosaic_protocol.suggest import nearest


def create_tables(connection: sqlite3.Connection) -> None:
    """A row for every sweep and every trial: listings read rows, and nobody opens a study for them."""
    for statement in (
        """CREATE TABLE sweeps (
            position INTEGER PRIMARY KEY AUTOINCREMENT, sweep_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
            state TEXT NOT NULL, request_id TEXT NOT NULL, document TEXT NOT NULL)""",
        "CREATE INDEX sweeps_by_state ON sweeps(state)",
        """CREATE TABLE trials (
            sweep INTEGER NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, value REAL, document TEXT NOT NULL,
            PRIMARY KEY (sweep, number)) WITHOUT ROWID""",
        "CREATE INDEX trials_by_value ON trials(sweep, state, value)",
    ):
        connection.execute(statement)


class SweepRows:
    """Writes return futures that are done after the commit; reads see every commit. Any thread."""

    def __init__(self, writer: GroupCommitter, reader: ReadConnection) -> None:
        self._writer, self._reader = writer, reader

    def insert(self, sweep: Sweep, request_id: str, *, name_is_default: bool) -> Future[Sweep]:
        """Accept a sweep. A request seen before returns its sweep. A default name is made one that no sweep has."""

        def operation(connection: sqlite3.Connection) -> Sweep:
            known = connection.execute("SELECT document FROM sweeps WHERE request_id = ?", (request_id,)).fetchone()
            if known is not None:
                return decode_sweep(known[0])

            def is_taken(name: str) -> bool:
                return connection.execute("SELECT 1 FROM sweeps WHERE name = ?", (name,)).fetchone() is not None

            if is_taken(sweep.name) and not name_is_default:
                raise RefusedError(f"a sweep is called {sweep.name[:60]!r} already: choose another name")
            named = replace(sweep, name=fresh_name(sweep.name[:LONGEST_STEM], is_taken))
            connection.execute(
                "INSERT INTO sweeps (sweep_id, name, state, request_id, document) VALUES (?, ?, ?, ?, ?)",
                (named.sweep_id, named.name, named.state, request_id, encode_sweep(named).decode()),
            )
            return named

        return self._writer.submit(operation)

    def save(self, sweep: Sweep, changed: Sequence[int]) -> Future[None]:
        """Store a decision: the sweep as it is now and the trials that are not as they were, in one commit."""
        trials = [sweep.trials[number] for number in changed]

        def operation(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE sweeps SET state = ?, document = ? WHERE sweep_id = ?",
                (sweep.state, encode_sweep(sweep).decode(), sweep.sweep_id),
            )
            position = connection.execute(
                "SELECT position FROM sweeps WHERE sweep_id = ?", (sweep.sweep_id,)
            ).fetchone()[0]
            connection.executemany("INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?)", _rows(position, trials))

        return self._writer.submit(operation, essential=True)

    def find(self, reference: str) -> Sweep:
        """The sweep a person means, without its trials: an id, the end of one, or a name."""
        key = reference.upper()
        rows = self._reader.rows(
            "SELECT document FROM sweeps WHERE sweep_id = ? OR name = ? OR (? <> '' AND substr(sweep_id, -?) = ?)"
            " ORDER BY position DESC LIMIT 3",
            (key, reference, key, len(key), key),
        )
        if not rows:
            near = nearest(reference, (sweep.name for sweep in self.all()))
            hint = f"; did you mean {near!r}?" if near else ": `mosaic sweep list` lists them"
            raise UnknownRunError(f"no sweep is called {reference[:60]!r}{hint}")
        found = [decode_sweep(row[0]) for row in rows]
        named = [sweep for sweep in found if sweep.name == reference]
        if len(found) > 1 and not named:
            raise UnknownRunError(f"several sweeps end with {reference[:60]!r}: give the name")
        return (named or found)[0]

    def documents(self, sweep_id: str) -> bytes:
        """The trials of a sweep as they are stored, by number, as one JSON array. SQLite puts it together: ten thousand
        rows need not go through Python one by one."""
        trials = (
            "SELECT document FROM trials WHERE sweep = (SELECT position FROM sweeps WHERE sweep_id = ?) ORDER BY number"
        )
        array = "'[' || coalesce(group_concat(document, ','), '') || ']'"
        return bytes(self._reader.rows(f"SELECT CAST({array} AS BLOB) FROM ({trials})", (sweep_id,))[0][0])

    def whole(self, sweep: Sweep) -> Sweep:
        """A sweep with its trials."""
        return replace(sweep, trials=decode_trials(self.documents(sweep.sweep_id)))

    def counts(self, sweep_id: str) -> dict[str, int]:
        sql = (
            "SELECT state, count(*) FROM trials WHERE sweep = (SELECT position FROM sweeps WHERE sweep_id = ?)"
            " GROUP BY state"
        )
        return {str(state): int(count) for state, count in self._reader.rows(sql, (sweep_id,))}

    def best(self, sweep: Sweep) -> bytes:
        """The document of the best complete trial; b"" while there is none."""
        order = "DESC" if sweep.spec.direction == "maximize" else "ASC"
        sql = (
            "SELECT CAST(document AS BLOB) FROM trials WHERE sweep = (SELECT position FROM sweeps WHERE sweep_id = ?)"
            f" AND state = ? AND value IS NOT NULL ORDER BY value {order}, number LIMIT 1"
        )
        rows = self._reader.rows(sql, (sweep.sweep_id, TrialState.COMPLETE))
        return bytes(rows[0][0]) if rows else b""

    def all(self) -> list[Sweep]:
        """Every sweep without its trials, newest first."""
        return [decode_sweep(row[0]) for row in self._reader.rows("SELECT document FROM sweeps ORDER BY position DESC")]

    def unfinished(self) -> list[Sweep]:
        """Sweeps that are not over, with their trials."""
        marks = ",".join("?" * len(OVER))
        rows = self._reader.rows(f"SELECT document FROM sweeps WHERE state NOT IN ({marks})", tuple(OVER))
        return [self.whole(decode_sweep(row[0])) for row in rows]


def _rows(position: int, trials: Iterable[Trial]) -> list[tuple[object, ...]]:
    return [(position, trial.number, trial.state, trial.value, encode_trial(trial).decode()) for trial in trials]
