"""Disk space that a database has before it needs it, because on a full disk nobody gives it any.

SQLite asks for space when its write-ahead log grows, when the file grows as the log is folded into it, and for the
index of the log when a file is opened. Space that a daemon frees in that moment may be taken by the very run that
filled the disk. So it is held inside the database's own files, where nobody else can take it:

- the log is made long beforehand, and its disk blocks outlive a clean close under another name;
- a transaction that makes the file longer gets the blocks for it before it is committed: folding then always works;
- a table of ballast is given up, slice by slice, for writes that must not be refused.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from gym_gui.services.trainer.storage.disk_reserve import NO_SPACE, DiskReserve, allocate, has_room

BALLAST_SLICES = 16
_SLICE_BYTES = 32 * 1024
"""Pages for some hundred changes of state."""
_LOG_BYTES = 1024 * 1024
_LOG_HEADER_BYTES = 32


class DatabaseSpace:
    """The space of one database file. Belongs to the thread that writes it.

    Its descriptor of the file is opened before SQLite opens the file and closed after: closing any descriptor of a file
    gives up the locks that this process has on it.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        self._log, self._kept_log = (path.with_name(path.name + suffix) for suffix in ("-wal", "-wal.kept"))
        self.reserve = DiskReserve(path.with_name("reserve"))
        self.reserve.hold()
        self._bring_back_log()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def close(self) -> None:
        """After the connections were closed."""
        os.close(self._descriptor)

    # ---- the file ------------------------------------------------------------------------------------------------

    def back(self, connection: sqlite3.Connection) -> None:
        """Have disk space behind every page of the transaction under way. Raises OSError when there is none."""
        (pages,), (size,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
        there, wanted = os.fstat(self._descriptor).st_size, pages * size
        if wanted > there:
            try:
                os.posix_fallocate(self._descriptor, there, wanted - there)
            except OSError as error:
                if error.errno in NO_SPACE:
                    raise  # what a file system does not offer is left to chance, as it was

    # ---- the ballast ---------------------------------------------------------------------------------------------

    def hold(self, connection: sqlite3.Connection) -> bool:
        """Take what is missing of the ballast, the log and the reserve, if there is room. False while some of the
        ballast is given up. Raises sqlite3.Error and OSError; nothing is changed then."""
        held = _slices(connection)
        if held is None or held < BALLAST_SLICES:
            missing = BALLAST_SLICES - (held or 0)
            if not has_room(self._path.parent, missing * _SLICE_BYTES + _LOG_BYTES):
                return held is None  # a disk that was nearly full from the beginning is used as long as it goes
            self._take(connection, missing)
        if self._log.exists() and self._log.stat().st_size < _LOG_BYTES and has_room(self._path.parent, _LOG_BYTES):
            allocate(self._log, _LOG_BYTES)
        self.reserve.hold()
        return True

    def _take(self, connection: sqlite3.Connection, slices: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS ballast (slice INTEGER PRIMARY KEY, space BLOB NOT NULL)")
            taking = "INSERT INTO ballast (space) VALUES (zeroblob(?))"
            connection.executemany(taking, [(_SLICE_BYTES,)] * slices)
            self.back(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @staticmethod
    def give_up(connection: sqlite3.Connection, slices: int) -> None:
        """Let the transaction under way have the pages of so many slices."""
        if _slices(connection):
            newest = "SELECT slice FROM ballast ORDER BY slice DESC LIMIT ?"
            connection.execute(f"DELETE FROM ballast WHERE slice IN ({newest})", (slices,))

    # ---- the log -------------------------------------------------------------------------------------------------

    def keep_log(self) -> None:
        """Before the connection is closed, which deletes the log: a second name keeps its disk blocks. Where another
        database stands by now, its log is not ours to touch."""
        with suppress(OSError):
            if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                return
            self._kept_log.unlink(missing_ok=True)
            os.link(self._log, self._kept_log)

    def _bring_back_log(self) -> None:
        """Let the next connection find a long and empty log. Linked and not renamed: a log that somebody else began
        meanwhile is never replaced."""
        with suppress(OSError):
            if not self._log.exists() and self._kept_log.stat().st_nlink == 1:
                with self._kept_log.open("r+b") as log:
                    log.write(bytes(_LOG_HEADER_BYTES))
                os.link(self._kept_log, self._log)
            self._kept_log.unlink()


def _slices(connection: sqlite3.Connection) -> int | None:
    """How much of the ballast is held, None when there never was any."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ballast'").fetchone()
    return int(connection.execute("SELECT count(*) FROM ballast").fetchone()[0]) if known else None
