"""The registry of runs: what it acknowledged is on disk.

Contract: writes return after a commit with ``synchronous=FULL``; reads see every acknowledged write. All methods may
be called from any thread; writes return futures, reads return values. Raises :class:`StorageFullError` (through the
future) with nothing changed, and :class:`UnknownRunError` / :class:`RefusedError` for references that fit no run or
several.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gym_gui.services.run_filter import folded
from gym_gui.services.run_labels import Scalar, config_of, flat_settings, labels_in
from gym_gui.services.run_request import LONGEST_STEM, fresh_name
from gym_gui.services.trainer.errors import RefusedError, UnknownRunError
from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.queue_keys import MIDDLE
from gym_gui.services.trainer.runs.run_queue import Reservation
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage import sweep_rows
from gym_gui.services.trainer.storage.group_commit import GroupCommitter, Migration
from gym_gui.services.trainer.storage.read_connection import ReadConnection
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.sweep_rows import SweepRows
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


def _locators(connection: sqlite3.Connection) -> None:
    """A run named the process of its worker; it now holds what its executor finds the process by, and a pid to show.
    Before every step that writes documents from records, which know no process any more. Runs that are over have no
    process to be found, and stay as they are: the step needs no space for them."""
    connection.execute(
        "UPDATE runs SET document = json_set(document, '$.locator', json_extract(document, '$.process') || '',"
        " '$.pid', json_extract(document, '$.process.pid'))"
        " WHERE state <> 'TERM' AND json_type(document, '$.process') = 'object'"
    )


def _run_index(connection: sqlite3.Connection) -> None:
    """What listings look at, apart from the documents: narrow rows, so that a look at ten thousand runs reads a few
    hundred pages. Runs that are there get theirs from their configs; their documents stay as they are, which keeps the
    step small enough for a disk that is nearly full."""
    connection.execute(
        """CREATE TABLE run_index (
            position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
            outcome TEXT NOT NULL, deleted INTEGER NOT NULL, worker_type TEXT NOT NULL, algo TEXT NOT NULL,
            env_id TEXT NOT NULL, created_at REAL NOT NULL, last_step INTEGER NOT NULL, total_steps INTEGER NOT NULL,
            active_seconds REAL NOT NULL, tags TEXT NOT NULL, seed INTEGER, run_group TEXT NOT NULL,
            sweep TEXT NOT NULL, dataset TEXT NOT NULL, parent TEXT NOT NULL, settings TEXT NOT NULL)"""
    )
    connection.execute("CREATE INDEX run_index_by_deleted ON run_index(deleted)")
    for position, document in connection.execute("SELECT position, document FROM runs ORDER BY position"):
        _write_index(connection, position, _decoded(document), new=True)


def _queue_keys(connection: sqlite3.Connection) -> None:
    """Runs that wait stood in the order in which they were accepted; from now on a key says it. The others wait no
    more, and stay as they are."""
    connection.execute(
        "UPDATE runs SET document = json_set(document, '$.queue_key', printf('%012x', ? + position))"
        " WHERE state = 'INIT'",
        (MIDDLE,),
    )


MIGRATIONS: list[Migration] = [
    _first_schema,
    _count_quickly,
    _locators,
    _run_index,
    sweep_rows.create_tables,
    _queue_keys,
]


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
class PastMove:
    """A transition that was made elsewhere, and when."""

    wall_time: float
    monotonic: float
    transition: Transition


class IndexRow(Protocol):
    """What :meth:`RunRegistry.page` shows of a run to those who have more to say than SQL can."""

    def __getitem__(self, column: str, /) -> Any:
        """``run_id``, ``worker_type``, ``state``, ``last_step``, ``total_steps``, ``active_seconds``, ``settings``
        (JSON)."""


@dataclass(frozen=True)
class Page:
    """A page of a listing, newest first."""

    runs: list[RunRecord]
    next_token: str
    total: int


class RunRegistry:
    """See the module's contract."""

    def __init__(self, path: Path) -> None:
        self._writer = GroupCommitter(path, MIGRATIONS, synchronous="FULL")
        self._reader, self._scanner = (ReadConnection(path, folded=folded) for _ in range(2))
        """The second for looks at every run, for which nobody else waits."""

    def close(self) -> None:
        for reader in (self._reader, self._scanner):  # first: the last one to close folds the log into the file
            reader.close()
        self._writer.close()

    @cached_property
    def sweeps(self) -> SweepRows:
        """Sweeps and their trials, in the same file."""
        return SweepRows(self._writer, self._reader)

    @property
    def path(self) -> Path:
        return self._writer.path

    @property
    def commits(self) -> int:
        """Grows with every change; tells whether a copy is still good."""
        return self._writer.commits

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert(
        self,
        run: RunRecord,
        request_id: str,
        *,
        name_is_default: bool = False,
        accepted: Transition | None = None,
    ) -> Future[tuple[RunRecord, bool]]:
        """Accept a run. A request id seen before returns its run and True, or raises when the config differs. A default
        name is made one that no run has, here: of several clients that chose it at once each was told it is free.
        ``accepted`` is the first row of its history where that is not its submission."""
        digest = hashlib.sha256(run.config_json.encode()).hexdigest()

        def operation(connection: sqlite3.Connection) -> tuple[RunRecord, bool]:
            known = _known_request(connection, request_id, digest)
            if known is not None:
                return known, True
            named = _with_fresh_name(connection, run) if name_is_default else run
            first = accepted or Transition(run.state, run.state, "Submitted", named.name)
            revision = _add_transition(connection, named, first)
            stored = replace(named, revision=revision)
            _write_run(connection, stored, new=True)
            _note_request(connection, request_id, run.run_id, digest)
            return stored, False

        return self._writer.submit(operation)

    def adopt(
        self, run: RunRecord, past: Sequence[PastMove], note: Transition, *, name_is_default: bool = False
    ) -> Future[RunRecord]:
        """Store a run that is over with its history, as another registry had it; ``note`` is the last row of it. Raises
        :class:`RefusedError` through the future when a run has the id."""

        def operation(connection: sqlite3.Connection) -> RunRecord:
            if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run.run_id,)).fetchone() is not None:
                raise RefusedError(f"run {run.short} is here already")
            named = _with_fresh_name(connection, run) if name_is_default else run
            for move in past:
                _add_transition(connection, named, move.transition, move.wall_time, move.monotonic)
            stored = replace(named, revision=_add_transition(connection, named, note))
            _write_run(connection, stored, new=True)
            return stored

        return self._writer.submit(operation)

    def save(
        self, run: RunRecord, transitions: Sequence[Transition], request_id: str = "", digest: str = ""
    ) -> Future[RunRecord]:
        """Store a decision: the run as it is now and the transitions that led there, in one commit; with the id of the
        request that it answers, where that must not be answered twice."""

        def operation(connection: sqlite3.Connection) -> RunRecord:
            revision = run.revision
            for transition in transitions:
                revision = _add_transition(connection, run, transition)
            stored = replace(run, revision=revision)
            _write_run(connection, stored, new=False)
            _note_request(connection, request_id, run.run_id, digest)
            return stored

        return self._writer.submit(operation, essential=True)

    def remove(self, run_id: str) -> Future[None]:
        """Forget a run altogether."""

        def operation(connection: sqlite3.Connection) -> None:
            for table in ("run_index", "runs", "transitions", "requests"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))

        return self._writer.submit(operation, essential=True)

    # ---- reading -------------------------------------------------------------------------------------------------

    def get(self, run_id: str) -> RunRecord:
        rows = self._reader.rows("SELECT document FROM runs WHERE run_id = ?", (run_id,))
        if not rows:
            raise UnknownRunError(f"no run has the id {run_id[:60]!r}: `mosaic runs` lists them")
        return _decode(rows[0])

    def accepted(self, request_id: str) -> str:
        """The id of the run that was accepted for a request; "" when none was."""
        rows = self._reader.rows("SELECT run_id FROM requests WHERE client_request_id = ?", (request_id,))
        return str(rows[0][0]) if rows else ""

    def knows_request(self, request_id: str, run_id: str, digest: str) -> bool:
        """Whether a decision about this run was stored under the id of a request. Raises :class:`RefusedError` when the
        id was used for something else."""
        rows = self._reader.rows("SELECT run_id, digest FROM requests WHERE client_request_id = ?", (request_id,))
        if rows and tuple(rows[0]) != (run_id, digest):
            raise RefusedError(_USED_BEFORE.format(request_id[:60]))
        return bool(rows)

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
        """The runs that SQL finds; terms of its filter that are :attr:`Query.left` are for :meth:`page_of_fitting`."""
        where, values = query.where()
        after = _position_of(token)
        total = int(self._reader.rows(f"SELECT count(*) FROM run_index WHERE {where}", values)[0][0])
        sql = f"SELECT position FROM run_index WHERE {where} AND position < ? ORDER BY position DESC LIMIT ?"
        rows = self._reader.rows(sql, [*values, after, size + 1])
        return self._page([int(row[0]) for row in rows], size, total)

    def page_of_fitting(self, query: Query, fits: Callable[[IndexRow], bool], size: int, token: str) -> Page:
        """The same, of those runs that ``fits`` lets through. Looks at every run that SQL finds: not for a thread that
        must not wait."""
        where, values = query.where()
        after = _position_of(token)
        sql = f"SELECT {_SHOWN} FROM run_index WHERE {where} ORDER BY position DESC"
        fitting = [int(row["position"]) for row in self._scanner.rows(sql, values) if fits(row)]
        return self._page([place for place in fitting if place < after][: size + 1], size, len(fitting))

    def _page(self, positions: Sequence[int], size: int, total: int) -> Page:
        """``positions`` has one more than the page where another page follows."""
        shown, more = positions[:size], len(positions) > size
        marks = ",".join("?" * len(shown))
        sql = f"SELECT document FROM runs WHERE position IN ({marks}) ORDER BY position DESC"
        return Page([_decode(row) for row in self._reader.rows(sql, shown)], str(shown[-1]) if more else "", total)

    def known_settings(self) -> dict[str, Scalar]:
        """Every setting that any run was given, each with one of its values."""
        known: dict[str, Scalar] = {}
        for row in self._scanner.rows("SELECT settings FROM run_index"):
            known |= settings_of(row)
        return known

    def unfinished(self) -> list[RunRecord]:
        """Every run that is not over, in the order of submission, which those that wait need not have any more."""
        over = tuple(TERMINAL_STATES)
        marks = ",".join("?" * len(over))
        sql = f"SELECT document FROM runs WHERE state NOT IN ({marks}) ORDER BY position"
        return [_decode(row) for row in self._reader.rows(sql, over)]

    def with_unread_journal(self) -> list[RunRecord]:
        """Runs that ended before their journal could be read. Reads over every document: for a thread that may wait."""
        marked = 'instr(document, \'"journal_unread":"\') AND NOT instr(document, \'"journal_unread":""\')'
        return [_decode(row) for row in self._scanner.rows(f"SELECT document FROM runs WHERE {marked}")]

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


_settings_decoder = msgspec.json.Decoder(dict[str, int | float | str])
_SHOWN = "position, run_id, worker_type, state, last_step, total_steps, active_seconds, settings"
_USED_BEFORE = "request id {!r} was used before for something else: use a new one"
_HAS_LABELS = '"labels":{'
"""In every document but those from before the run index. A config inside a document has its quotes escaped."""


def _decode(row: sqlite3.Row) -> RunRecord:
    return _decoded(row["document"])


def _decoded(document: str) -> RunRecord:
    run = _decoder.decode(document)
    return run if _HAS_LABELS in document else replace(run, labels=labels_in(config_of(run.config_json)))


def settings_of(row: IndexRow) -> dict[str, Scalar]:
    """The settings of a run by their names, as :func:`gym_gui.services.run_labels.flat_settings` made them."""
    return _settings_decoder.decode(row["settings"])


def _decode_history(row: sqlite3.Row) -> HistoryRow:
    transition = msgspec.convert({key: row[key] for key in ("origin", "target", "cause", "detail")}, Transition)
    reservation = msgspec.json.decode(row["reservation"], type=Reservation | None)
    return HistoryRow(row["revision"], row["run_id"], row["wall_time"], row["monotonic"], transition, reservation)


def _with_fresh_name(connection: sqlite3.Connection, run: RunRecord) -> RunRecord:
    def is_taken(name: str) -> bool:
        return connection.execute("SELECT 1 FROM runs WHERE name = ?", (name,)).fetchone() is not None

    if not is_taken(run.name):
        return run
    name = fresh_name(run.name[:LONGEST_STEM], is_taken)
    return replace(run, name=name, config_json=json.dumps({**json.loads(run.config_json), "run_name": name}))


def _note_request(connection: sqlite3.Connection, request_id: str, run_id: str, digest: str) -> None:
    if not request_id:
        return
    try:
        connection.execute("INSERT INTO requests VALUES (?, ?, ?)", (request_id, run_id, digest))
    except sqlite3.IntegrityError as error:
        raise RefusedError(_USED_BEFORE.format(request_id[:60])) from error


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


def _add_transition(
    connection: sqlite3.Connection,
    run: RunRecord,
    transition: Transition,
    wall_time: float | None = None,
    monotonic: float | None = None,
) -> int:
    """Made now, unless it is said when."""
    cursor = connection.execute(
        "INSERT INTO transitions (run_id, wall_time, monotonic, origin, target, cause, detail, reservation)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run.run_id,
            time.time() if wall_time is None else wall_time,
            time.monotonic() if monotonic is None else monotonic,
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
        position = _insert(connection, "runs", {"run_id": run.run_id, **columns})
    else:
        position = _position(connection, run)
        _update(connection, "runs", columns, position)
    _write_index(connection, position, run, new=new)


def _write_index(connection: sqlite3.Connection, position: int, run: RunRecord, *, new: bool) -> None:
    columns = {
        "name": run.name,
        "tags": _encode(run.labels.tags).decode(),
        "state": run.state,
        "outcome": run.outcome or "",
        "deleted": int(run.deleted_at > 0),
        "last_step": run.last_step,
        "total_steps": run.total_steps,
        "active_seconds": run.active.seconds,
    }
    if not new:  # nothing else ever changes
        _update(connection, "run_index", columns, position)
        return
    labels = run.labels
    lasting = {
        "position": position,
        "run_id": run.run_id,
        "worker_type": run.worker_type,
        "algo": run.algo,
        "env_id": run.env_id,
        "created_at": run.created_at,
        "seed": labels.seed,
        "run_group": labels.group,
        "sweep": labels.sweep,
        "dataset": labels.dataset,
        "parent": labels.parent,
        "settings": _encode(flat_settings(config_of(run.config_json))).decode(),
    }
    _insert(connection, "run_index", {**lasting, **columns})


def _position(connection: sqlite3.Connection, run: RunRecord) -> int:
    row = connection.execute("SELECT position FROM runs WHERE run_id = ?", (run.run_id,)).fetchone()
    if row is None:
        raise UnknownRunError(f"run {run.short} was deleted for good meanwhile")
    return int(row[0])


def _insert(connection: sqlite3.Connection, table: str, columns: Mapping[str, object]) -> int:
    marks = ", ".join("?" * len(columns))
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    return int(connection.execute(sql, tuple(columns.values())).lastrowid or 0)


def _update(connection: sqlite3.Connection, table: str, columns: Mapping[str, object], position: int) -> None:
    settings = ", ".join(f"{column} = ?" for column in columns)
    connection.execute(f"UPDATE {table} SET {settings} WHERE position = ?", (*columns.values(), position))


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
