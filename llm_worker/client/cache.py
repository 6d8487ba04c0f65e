"""Answers of servers by the hash of what was asked, shared by the runs of this machine."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import msgspec

from llm_worker.client.reply import Reply

_WAIT_SECONDS = 5.0


class ResponseCache:
    """A cache that cannot be read or written has nothing, and the run goes on. Belongs to one thread at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._base: sqlite3.Connection | None = None
        self._left: list[object] = []
        """Connections of the process that this one was forked from: to close them here would harm those."""
        self._open()

    def reopen(self) -> None:
        """After a fork, in which no connection may be used further."""
        self._left.append(self._base)
        self._open()

    def _open(self) -> None:
        file, self._base = self._file, None
        with suppress(OSError, sqlite3.Error):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            base = sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("PRAGMA synchronous=NORMAL")
            base.execute("CREATE TABLE IF NOT EXISTS replies (request TEXT PRIMARY KEY, reply BLOB) WITHOUT ROWID")
            file.chmod(0o600)
            self._base = base

    def find(self, request: str) -> Reply | None:
        if self._base is not None:
            with suppress(sqlite3.Error, msgspec.MsgspecError):
                row = self._base.execute("SELECT reply FROM replies WHERE request = ?", (request,)).fetchone()
                return msgspec.json.decode(row[0], type=Reply) if row else None
        return None

    def keep(self, request: str, reply: Reply) -> None:
        if self._base is not None:
            with suppress(sqlite3.Error):
                words = (request, msgspec.json.encode(reply))
                self._base.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", words)

    def close(self) -> None:
        if self._base is not None:
            self._base.close()
            self._base = None
