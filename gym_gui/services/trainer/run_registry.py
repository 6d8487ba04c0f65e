"""The registry of runs: what it acknowledged is on disk.

Contract: writes return after a commit with ``synchronous=FULL``; reads see every acknowledged write. All methods may
be called from any thread; writes return futures, reads return values. Raises :class:`StorageFullError` (through the
future) with nothing changed, and :class:`UnknownRunError` / :class:`RefusedError` for references that fit no run or
several.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gym_gui.services.trainer.disk_reserve import DiskReserve
from gym_gui.services.trainer.errors import RefusedError, UnknownRunError
from gym_gui.services.trainer.group_commit import GroupCommitter, Migration
from gym_gui.services.trainer.lifecycle import Transition
from gym_gui.services.trainer.read_connection import ReadConnection
from gym_gui.services.trainer.run_queue import Reservation
from gym_gui.services.trainer.run_record import RunRecord
from mosaic_protocol.states import TERMINAL_STATES


def _first_schema(connection: sqlite3.Connection) -> None:
    for statement in (
        """CREATE TABLE runs (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            run_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL,
            worker_type TEXT NOT NULL, algo TEXT NOT NULL, env_id TEXT NOT NULL,
            deleted INTEGER NOT NULL, revision INTEGER NOT NULL, document TEXT NOT NULL)""",
        "CREATE INDEX runs_by_state ON runs(state)",
        "CREATE INDEX runs_by_revision ON runs(revision)",
        "CREATE INDEX runs_by_name ON runs(name)",
        """CREATE TABLE transitions (
            revision INTEGER PRIMARY KEY AUTOINCREMENT,
            run_id TEXT NOT NULL, wall_time REAL NOT NULL, monotonic REAL NOT NULL, origin TEXT NOT NULL,
            target TEXT NOT NULL, cause TEXT NOT NULL, detail TEXT NOT NULL, reservation TEXT NOT NULL)""",
        "CREATE INDEX transitions_by_run ON transitions(run_id, revision)",
        """CREATE TABLE requests (
            client_request_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID""",
    ):
        connection.execute(statement)


def _count_quickly(connection: sqlite3.Connection) -> None:
    """Every page of a listing counts the runs that are not deleted; without an index that reads all documents."""
    connection.execute("CREATE INDEX runs_by_deleted ON runs(deleted)")


MIGRATIONS: list[Migration] = [_first_schema, _count_quickly]


@dataclass(frozen=True)
class HistoryRow:
    """One stored transition."""

    revision: int
    run_id: str
    wall_time: float
    monotonic: float
    transition: Transition
    reservation: Reservation | None


@dataclass(frozen=True)
class Page:
    """A page of a listing, newest first."""

    runs: list[RunRecord]
    next_token: str
    total: int


@dataclass(frozen=True)
class Query:
    """Which runs a listing shows."""

    states: Sequence[str] = ()
    outcomes: Sequence[str] = ()
    search: str = ""
    include_deleted: bool = False

    def where(self) -> tuple[str, list[object]]:
        clauses, values = ["1"], list[object]()
        for column, wanted in (("state", self.states), ("outcome", self.outcomes)):
            if wanted:
                clauses.append(f"{column} IN ({','.join('?' * len(wanted))})")
                values += wanted
        if not self.include_deleted:
            clauses.append("deleted = 0")
        if self.search:
            clauses.append(
                "(" + " OR ".join(f"instr(lower({c}), ?)" for c in ("name", "run_id", "algo", "env_id")) + ")"
            )
            values += [self.search.lower()] * 4
        return " AND ".join(clauses), values


class RunRegistry:
    """See the module's contract."""

    def __init__(self, path: Path) -> None:
        reserve = DiskReserve(path.with_name("reserve"))
        self._writer = GroupCommitter(path, MIGRATIONS, synchronous="FULL", reserve=reserve)
        self._reader = ReadConnection(path)

    def close(self) -> None:
        self._reader.close()  # first, because the last one to close folds the write-ahead log into the file
        self._writer.close()

    @property
    def path(self) -> Path:
        return self._writer.path

    @property
    def commits(self) -> int:
        """Grows with every change; tells whether a copy is still good."""
        return self._writer.commits

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert(self, run: RunRecord, request_id: str) -> Future[tuple[RunRecord, bool]]:
        """Accept a run. A request id seen before returns its run and True, or raises when the config differs."""
        digest = hashlib.sha256(run.config_json.encode()).hexdigest()

        def operation(connection: sqlite3.Connection) -> tuple[RunRecord, bool]:
            known = _known_request(connection, request_id, digest)
            if known is not None:
                return known, True
            accepted = Transition(run.state, run.state, "Submitted", run.name)
            revision = _add_transition(connection, run, accepted)
            stored = replace(run, revision=revision)
            _write_run(connection, stored, new=True)
            if request_id:
                connection.execute("INSERT INTO requests VALUES (?, ?, ?)", (request_id, run.run_id, digest))
            return stored, False

        return self._writer.submit(operation)

    def save(self, run: RunRecord, transitions: Sequence[Transition]) -> Future[RunRecord]:
        """Store a decision: the run as it is now and the transitions that led there, in one commit."""

        def operation(connection: sqlite3.Connection) -> RunRecord:
            revision = run.revision
            for transition in transitions:
                revision = _add_transition(connection, run, transition)
            stored = replace(run, revision=revision)
            _write_run(connection, stored, new=False)
            return stored

        return self._writer.submit(operation, essential=True)

    def remove(self, run_id: str) -> Future[None]:
        """Forget a run altogether."""

        def operation(connection: sqlite3.Connection) -> None:
            for table in ("runs", "transitions", "requests"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))

        return self._writer.submit(operation, essential=True)

    # ---- reading -------------------------------------------------------------------------------------------------

    def get(self, run_id: str) -> RunRecord:
        rows = self._reader.rows("SELECT document FROM runs WHERE run_id = ?", (run_id,))
        if not rows:
            raise UnknownRunError(f"no run has the id {run_id[:60]!r}: `mosaic runs` lists them")
        return _decode(rows[0])

    def find(self, reference: str) -> RunRecord:
        """The run a person means: an id, the beginning or end of one, or a name."""
        if not reference:
            raise UnknownRunError("no run was named: `mosaic runs` lists them")
        key = reference.upper()
        exact = self._reader.rows("SELECT document FROM runs WHERE run_id = ?", (key,))
        if exact:  # programs ask so many times a second: here an index answers, below all runs are read
            return _decode(exact[0])
        parts = "substr(run_id, 1, ?) = ? OR substr(run_id, -?) = ?"
        sql = f"SELECT document FROM runs WHERE {parts} OR name = ? ORDER BY position DESC LIMIT 20"
        rows = self._reader.rows(sql, (len(key), key, len(key), key, reference))
        return _the_one(reference, [_decode(row) for row in rows])

    def page(self, query: Query, size: int, token: str) -> Page:
        where, values = query.where()
        after = _position_of(token)
        total = int(self._reader.rows(f"SELECT count(*) FROM runs WHERE {where}", values)[0][0])
        sql = f"SELECT position, document FROM runs WHERE {where} AND position < ? ORDER BY position DESC LIMIT ?"
        rows = self._reader.rows(sql, [*values, after, size + 1])
        shown, more = rows[:size], len(rows) > size
        return Page([_decode(row) for row in shown], str(shown[-1]["position"]) if more else "", total)

    def unfinished(self) -> list[RunRecord]:
        """Every run that is not over, in the order of submission."""
        over = tuple(TERMINAL_STATES)
        marks = ",".join("?" * len(over))
        sql = f"SELECT document FROM runs WHERE state NOT IN ({marks}) ORDER BY position"
        return [_decode(row) for row in self._reader.rows(sql, over)]

    def changed_after(self, revision: int, limit: int = 500) -> list[RunRecord]:
        """Runs changed since a revision, oldest change first."""
        sql = "SELECT document FROM runs WHERE revision > ? ORDER BY revision LIMIT ?"
        return [_decode(row) for row in self._reader.rows(sql, (revision, limit))]

    def deleted_before(self, wall_time: float) -> list[RunRecord]:
        rows = self._reader.rows("SELECT document FROM runs WHERE deleted = 1")
        return [run for run in map(_decode, rows) if run.deleted_at < wall_time]

    def history(self, run_id: str = "") -> list[HistoryRow]:
        """Transitions of one run, or of all, oldest first."""
        where, values = ("WHERE run_id = ?", (run_id,)) if run_id else ("", ())
        rows = self._reader.rows(f"SELECT * FROM transitions {where} ORDER BY revision", values)
        return [_decode_history(row) for row in rows]


_decoder = msgspec.json.Decoder(RunRecord)
_encode = msgspec.json.Encoder().encode


def _decode(row: sqlite3.Row) -> RunRecord:
    return _decoder.decode(row["document"])


def _decode_history(row: sqlite3.Row) -> HistoryRow:
    transition = msgspec.convert({key: row[key] for key in ("origin", "target", "cause", "detail")}, Transition)
    reservation = msgspec.json.decode(row["reservation"], type=Reservation | None)
    return HistoryRow(row["revision"], row["run_id"], row["wall_time"], row["monotonic"], transition, reservation)


def _known_request(connection: sqlite3.Connection, request_id: str, digest: str) -> RunRecord | None:
    if not request_id:
        return None
    row = connection.execute(
        "SELECT run_id, digest FROM requests WHERE client_request_id = ?", (request_id,)
    ).fetchone()
    if row is None:
        return None
    if row["digest"] != digest:
        raise RefusedError(f"request id {request_id[:60]!r} was used before with another config: use a new one")
    return _decode(connection.execute("SELECT document FROM runs WHERE run_id = ?", (row["run_id"],)).fetchone())


def _add_transition(connection: sqlite3.Connection, run: RunRecord, transition: Transition) -> int:
    cursor = connection.execute(
        "INSERT INTO transitions (run_id, wall_time, monotonic, origin, target, cause, detail, reservation)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run.run_id,
            time.time(),
            time.monotonic(),
            transition.origin,
            transition.target,
            transition.cause,
            transition.detail,
            _encode(run.reservation).decode(),
        ),
    )
    return int(cursor.lastrowid or 0)


def _write_run(connection: sqlite3.Connection, run: RunRecord, *, new: bool) -> None:
    columns = {
        "name": run.name,
        "state": run.state,
        "outcome": run.outcome or "",
        "worker_type": run.worker_type,
        "algo": run.algo,
        "env_id": run.env_id,
        "deleted": int(run.deleted_at > 0),
        "revision": run.revision,
        "document": _encode(run).decode(),
    }
    if new:
        names = ", ".join(["run_id", *columns])
        marks = ", ".join("?" * (len(columns) + 1))
        connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", (run.run_id, *columns.values()))
    else:
        settings = ", ".join(f"{column} = ?" for column in columns)
        changed = connection.execute(f"UPDATE runs SET {settings} WHERE run_id = ?", (*columns.values(), run.run_id))
        if changed.rowcount == 0:
            raise UnknownRunError(f"run {run.short} was deleted for good meanwhile")


def _position_of(token: str) -> int:
    if not token:
        return 2**62
    if not token.isdecimal() or len(token) > 18:
        raise RefusedError(f"{token[:60]!r} is not a page token: take next_page_token of the page before")
    return int(token)


def _the_one(reference: str, found: list[RunRecord]) -> RunRecord:
    """The run that a part of an id or a name means, which must be just one."""
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRunError(f"no run is called {reference[:60]!r}: `mosaic runs` lists them")
    shown = ", ".join(f"{run.run_id[-6:]} ({run.name})" for run in found[:5])
    raise UnknownRunError(f"{reference[:60]!r} may be {shown}{', …' if len(found) > 5 else ''}: give the id")
