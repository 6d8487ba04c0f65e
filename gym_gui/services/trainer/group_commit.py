"""One SQLite connection, one writing thread, many writers per commit.

SQLite allows one writer; an fsync costs milliseconds. So every write is an operation handed to the writing thread,
which runs all that wait in one transaction and answers each after the commit. An operation that raises is rolled back
alone.

On a full disk everything is refused, except that an operation called essential may use a reserve that was kept back.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gym_gui.services.trainer.disk_reserve import DiskReserve
from gym_gui.services.trainer.errors import RegistryCorruptError, StorageFullError, WorldError

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

    def __init__(
        self, path: Path, migrations: list[Migration], *, synchronous: str, reserve: DiskReserve | None = None
    ) -> None:
        self.path = path
        self.commits = 0
        """How many transactions were committed since it was opened."""
        self._pending: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._reserve, self._reserve_given_up = reserve, False
        path.parent.mkdir(parents=True, exist_ok=True)
        if reserve is not None:
            reserve.hold()
        self._connection = _open_checked(path, synchronous, migrations)
        self._thread = threading.Thread(target=self._work, name=f"writer-{path.stem}", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[sqlite3.Connection], T], *, essential: bool = False) -> Future[T]:
        """Run an operation in the next transaction; the future is done after its commit. An operation may run twice,
        the first time in vain."""
        future: Future[T] = Future()
        if self._closed.is_set():
            future.set_exception(WorldError(f"{self.path} is closed: the daemon is leaving"))
        else:
            self._pending.put(_Write(operation, future, essential))
        return future

    def close(self) -> None:
        """Finish what was submitted and close the file. No thread may submit while this one closes."""
        self._closed.set()
        self._pending.put(None)
        self._thread.join()
        self._connection.close()

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
        problem = self._try_to_commit(batch)
        essential = [write for write in batch if write.essential]
        if isinstance(problem, StorageFullError) and essential and self._give_up_reserve():
            _refuse([write for write in batch if not write.essential], problem)
            batch, problem = essential, self._try_to_commit(essential)
        if problem is not None:
            _refuse(batch, problem)
        elif self._reserve is not None and self._reserve_given_up:
            self._reserve.hold()

    def _give_up_reserve(self) -> bool:
        if self._reserve is None or not self._reserve.release():
            return False
        self._reserve_given_up = True
        return True

    def _try_to_commit(self, batch: list[_Write]) -> WorldError | None:
        """Commit and answer everybody, or roll back, answer nobody and say why."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            answers = [(write.future, *self._run_alone(write.operation)) for write in batch]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
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
        write.future.set_exception(type(problem)(*problem.args))  # one each: whoever raises it adds its traceback


def translate(error: sqlite3.Error, path: Path) -> WorldError:
    """A storage error as a sentence."""
    text = str(error)
    if any(words in text for words in _FULL_WORDS):
        return StorageFullError(f"no space left for {path}: free some disk space and try again; nothing was changed")
    if isinstance(error, sqlite3.DatabaseError) and ("malformed" in text or "not a database" in text):
        return RegistryCorruptError(f"{path} is damaged ({text})")
    return WorldError(f"{path}: {text}")


def _open_checked(path: Path, synchronous: str, migrations: list[Migration]) -> sqlite3.Connection:
    """A connection to a sound database of the newest schema; what cannot be had leaves no lock behind."""
    try:
        _check(path)
        connection = connect(path)
        try:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only a file without tables heeds it
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA journal_size_limit={_MOST_BYTES_OF_WAL}")
            connection.execute(f"PRAGMA synchronous={synchronous}")
            connection.execute("PRAGMA foreign_keys=ON")
            _migrate(connection, migrations, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise WorldError(f"{path} cannot be opened: {error.strerror}") from error
    return connection


def _check(path: Path) -> None:
    """Read-only, because a connection that may write changes a damaged file when it is closed."""
    if not path.exists() or path.stat().st_size == 0:
        return
    if _is_cut_off(path):
        raise RegistryCorruptError(f"{path} is damaged (its end is missing)")
    check = "PRAGMA quick_check(1)" if path.stat().st_size <= _MOST_BYTES_TO_READ else "SELECT 'ok' FROM sqlite_master"
    with closing(connect(path, read_only=True)) as connection:
        (verdict,) = connection.execute(check).fetchone() or ("it has no tables",)
    if verdict != "ok":
        raise RegistryCorruptError(f"{path} is damaged ({' '.join(str(verdict).split())})")


def _is_cut_off(path: Path) -> bool:
    """Whether a file is shorter than its header says: SQLite takes the missing part for zeros and need not notice."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        return False  # the end may still be there
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0") or header[24:28] != header[92:96]:
        return False
    page_size, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    return path.stat().st_size < pages * (65536 if page_size == 1 else page_size)


def _migrate(connection: sqlite3.Connection, migrations: list[Migration], path: Path) -> None:
    """Bring the schema to the newest version, each step in a transaction with its version number."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        raise WorldError(
            f"{path} has schema version {version}, this MOSAIC knows {len(migrations)}: "
            "update MOSAIC, or point MOSAIC_HOME at another folder"
        )
    for number in range(version, len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        migrations[number](connection)
        connection.execute(f"PRAGMA user_version={number + 1}")
        connection.execute("COMMIT")
