"""One SQLite connection, one writing thread, many writers per commit.

SQLite allows one writer; an fsync costs milliseconds. So every write is an operation handed to the writing thread,
which runs all that wait in one transaction and answers each after the commit. An operation that raises is rolled back
alone.

On a full disk everything is refused, except that an operation called essential may use the space that the database
holds for it (:mod:`gym_gui.services.trainer.storage.database_space`).
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gym_gui.services.trainer.errors import LeavingError, RegistryCorruptError, StorageFullError, WorldError
from gym_gui.services.trainer.storage.database_space import BALLAST_SLICES, DatabaseSpace
from gym_gui.services.trainer.storage.disk_reserve import NO_SPACE, DiskReserve

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], Any]
Migration = Callable[[sqlite3.Connection], None]

_MOST_PER_COMMIT = 512
_MOST_BYTES_TO_READ = 64 * 1024 * 1024
"""Up to this size a file is read whole when it is opened. Telemetry grows to gigabytes, and live workers wait."""
_MOST_BYTES_OF_WAL = 64 * 1024 * 1024
"""A write-ahead log that grew beyond is cut back to this size once it is folded in, and does not hold its largest size
for ever."""
_FULL_WORDS = ("disk is full", "disk I/O error")
_NEEDS = (0, 0, 1, BALLAST_SLICES // 4, BALLAST_SLICES)
"""How much of the ballast an essential write gets, attempt by attempt; the log is folded after each."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection without implicit transactions; read-only ones may be used from one thread at a time."""
    mode = "ro" if read_only else "rwc"
    connection = sqlite3.connect(
        f"file:{_quoted(path)}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
    )
    connection.row_factory = sqlite3.Row
    return connection


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


@dataclass(frozen=True)
class _Write:
    """An operation that waits for its commit."""

    operation: Operation
    future: Future[Any]
    essential: bool


class GroupCommitter:
    """Owns the writing connection of one database file. Thread-safe."""

    def __init__(self, path: Path, migrations: list[Migration], *, synchronous: str) -> None:
        self.path = path
        self.commits = 0
        """How many transactions were committed since it was opened."""
        self._pending: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._space, self._connection = _open_with_space(path, synchronous, migrations)
        self._in_need = not self._hold_space()
        self._thread = threading.Thread(target=self._work, name=f"writer-{path.stem}", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[sqlite3.Connection], T], *, essential: bool = False) -> Future[T]:
        """Run an operation in the next transaction; the future is done after its commit. An operation may run twice,
        the first time without effect."""
        future: Future[T] = Future()
        if self._closed.is_set():
            future.set_exception(LeavingError(f"{self.path} is closed: the daemon is leaving"))
        else:
            self._pending.put(_Write(operation, future, essential))
        return future

    def close(self) -> None:
        """Finish what was submitted and close the file. No thread may submit while this one closes."""
        self._closed.set()
        self._pending.put(None)
        self._thread.join()
        self._space.keep_log()
        with suppress(sqlite3.Error, OSError):  # a disk that does not take it: nothing more can be done
            self._bring_back_file()
        self._connection.close()
        self._space.close()

    def _bring_back_file(self) -> None:
        """Write the database down once more when somebody removed its file: what is open is the last copy of it."""
        if self.path.exists():
            return
        draft = self.path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with closing(sqlite3.connect(draft)) as target:
            self._connection.backup(target)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        draft.replace(self.path)

    def _work(self) -> None:
        while (first := self._pending.get()) is not None:
            batch = [first]
            ending = self._collect(batch)
            # From here on a caller that hangs up can no longer cancel its write: it is either skipped or committed.
            self._commit([write for write in batch if write.future.set_running_or_notify_cancel()])
            if ending:
                return

    def _collect(self, batch: list[_Write]) -> bool:
        """Take what else waits; True when the end was among it."""
        while len(batch) < _MOST_PER_COMMIT:
            try:
                write = self._pending.get_nowait()
            except queue.Empty:
                return False
            if write is None:
                return True
            batch.append(write)
        return False

    def _commit(self, batch: list[_Write]) -> None:
        if self._in_need and self._hold_space():
            self._in_need = False
        # What was given up for essential writes is not for others, and they must not use it up.
        problem = _full(self.path) if self._in_need else self._try_to_commit(batch)
        if isinstance(problem, StorageFullError):
            _refuse([write for write in batch if not write.essential], problem)
            for write in batch:
                if write.essential:  # one at a time: each needs little, and the log is folded in between
                    self._commit_in_need(write)
        elif problem is not None:
            _refuse(batch, problem)

    def _commit_in_need(self, write: _Write) -> None:
        """With as little of the ballast as will do."""
        problem: WorldError | None = None
        for slices in _NEEDS:
            problem = self._try_to_commit([write], slices)
            if problem is None:
                self._in_need = self._in_need or slices > 0
                return
            self._fold_log()
        _refuse([write], problem or _full(self.path))

    def _fold_log(self) -> None:
        """Begin the log from its start again, so that what is written next needs no new disk space."""
        with suppress(sqlite3.Error):  # whether it was possible shows in the next commit
            self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def _hold_space(self) -> bool:
        try:
            return self._space.hold(self._connection)
        except (sqlite3.Error, OSError):
            return False  # the next commit tries again

    def _try_to_commit(self, batch: list[_Write], slices: int = 0) -> WorldError | None:
        """Commit and answer everybody, or roll back, answer nobody and say why."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if slices:
                self._space.give_up(self._connection, slices)
            answers = [(write.future, *self._run_alone(write.operation)) for write in batch]
            self._space.back(self._connection)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._roll_back()
            return translate(error, self.path)
        self.commits += 1
        for future, result, problem in answers:
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)
        return None

    def _run_alone(self, operation: Operation) -> tuple[Any, BaseException | None]:
        """One operation in a savepoint of its own. A storage error (no space, damage) concerns all and is raised."""
        self._connection.execute("SAVEPOINT one")
        try:
            result = operation(self._connection)
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
                raise
            self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
            return None, error
        self._connection.execute("RELEASE one")
        return result, None

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # the writing thread must live on; the next BEGIN tells if this did not work
                self._connection.execute("ROLLBACK")


def _refuse(batch: list[_Write], problem: WorldError) -> None:
    for write in batch:
        write.future.set_exception(type(problem)(*problem.args))  # one each: a caller that raises it adds a traceback


def translate(error: sqlite3.Error | OSError, path: Path) -> WorldError:
    """A storage error as a sentence."""
    text = str(error)
    full = error.errno in NO_SPACE if isinstance(error, OSError) else any(words in text for words in _FULL_WORDS)
    if full:
        return _full(path)
    if isinstance(error, sqlite3.DatabaseError) and ("malformed" in text or "not a database" in text):
        return RegistryCorruptError(f"{path} is damaged ({text})")
    kind = (
        f", {name}" if (name := getattr(error, "sqlite_errorname", "")) else ""
    )  # one sentence stands for several kinds
    return WorldError(f"{path} cannot be used now ({text}{kind}): see that no other program uses it, and try again")


def _full(path: Path) -> StorageFullError:
    return StorageFullError(f"no space left for {path}: free some disk space and try again; nothing was changed")


def _open_with_space(
    path: Path, synchronous: str, migrations: list[Migration]
) -> tuple[DatabaseSpace, sqlite3.Connection]:
    """A connection to a sound database of the newest schema; what cannot be had leaves no lock behind."""
    try:
        space = DatabaseSpace(path)
        try:
            with _checked(path, space.reserve):
                return space, _open(path, synchronous, migrations, space)
        except BaseException:
            space.close()
            raise
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        if error.errno in NO_SPACE:
            raise translate(error, path) from error
        raise WorldError(f"{path} cannot be opened: {error.strerror}") from error


def _open(path: Path, synchronous: str, migrations: list[Migration], space: DatabaseSpace) -> sqlite3.Connection:
    connection = connect(path)
    try:
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a file with tables it would only take space
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA journal_size_limit={_MOST_BYTES_OF_WAL}")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")
        _migrate(connection, migrations, path, space)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _checked(path: Path, reserve: DiskReserve) -> Iterator[None]:
    """Look whether a file is sound: read-only, because a connection that may write changes a damaged file when it is
    closed. It stays open for the one that follows, which then needs no disk space for an index of the log."""
    if not path.exists() or path.stat().st_size == 0:
        yield
        return
    _roll_back_beginning(path)
    if _is_cut_off(path):
        raise RegistryCorruptError(f"{path} is damaged (its end is missing)")
    check = "PRAGMA quick_check(1)" if path.stat().st_size <= _MOST_BYTES_TO_READ else "SELECT 'ok' FROM sqlite_master"
    with closing(connect(path, read_only=True)) as connection:
        _make_index(connection, reserve)
        (verdict,) = connection.execute(check).fetchone() or ("it has no tables",)
        if verdict != "ok":
            raise RegistryCorruptError(f"{path} is damaged ({' '.join(str(verdict).split())})")
        yield


def _roll_back_beginning(path: Path) -> None:
    """Undo what a daemon left that was killed while it made the file. Until it has a write-ahead log, a file has a
    rollback journal, and a connection that may only read refuses to touch either."""
    if path.with_name(path.name + "-journal").exists():
        with closing(connect(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _make_index(connection: sqlite3.Connection, reserve: DiskReserve) -> None:
    """The first look at a database makes the index of its log, a file of eight pages. On a full disk the reserve gives
    them; the pages that one attempt got stay for the next."""
    while True:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if not any(words in str(error) for words in _FULL_WORDS) or not reserve.release():
                raise
        else:
            return


def _is_cut_off(path: Path) -> bool:
    """Whether a file is shorter than its header says: SQLite takes the missing part for zeros and need not notice."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and _begins_with_something(log):
        return False  # the end may still be there
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0") or header[24:28] != header[92:96]:
        return False
    page_size, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    return path.stat().st_size < pages * (65536 if page_size == 1 else page_size)


def _begins_with_something(log: Path) -> bool:
    """A log that only holds space for later has an empty header."""
    with log.open("rb") as file:
        return any(file.read(32))


def _migrate(connection: sqlite3.Connection, migrations: list[Migration], path: Path, space: DatabaseSpace) -> None:
    """Bring the schema to the newest version, each step in a transaction with its version number. On a full disk a step
    may use the whole ballast: without it no daemon could end the runs that fill the disk."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        raise WorldError(
            f"{path} has schema version {version}, this MOSAIC knows {len(migrations)}: "
            "update MOSAIC, or point MOSAIC_HOME at another folder"
        )
    for number in range(version, len(migrations)):
        try:
            _migrate_once(connection, migrations[number], number + 1, space, slices=0)
        except (sqlite3.Error, OSError) as error:
            if not isinstance(translate(error, path), StorageFullError):
                raise
            # Begun from its start again, the log needs no new disk space.
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            _migrate_once(connection, migrations[number], number + 1, space, slices=BALLAST_SLICES)


def _migrate_once(
    connection: sqlite3.Connection, migration: Migration, version: int, space: DatabaseSpace, *, slices: int
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if slices:
            space.give_up(connection, slices)
        migration(connection)
        connection.execute(f"PRAGMA user_version={version}")
        space.back(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
