"""One writer, many writes per commit: each is whole or absent, and answered after it is on disk."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.errors import RegistryCorruptError, StorageFullError, WorldError
from gym_gui.services.trainer.storage.group_commit import GroupCommitter, Migration, connect, translate

PATIENCE = 60.0


def _schema(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE words (word TEXT NOT NULL UNIQUE)")


def committer(path: Path, migrations: list[Migration] | None = None) -> GroupCommitter:
    return GroupCommitter(path, [_schema] if migrations is None else migrations, synchronous="NORMAL")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "words.sqlite"


@pytest.fixture
def writer(path: Path) -> Iterator[GroupCommitter]:
    with closing(committer(path)) as opened:
        yield opened


def adding(word: str) -> Callable[[sqlite3.Connection], str]:
    def operation(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO words VALUES (?)", (word,))
        return word

    return operation


def words(path: Path) -> list[str]:
    with closing(connect(path, read_only=True)) as reader:
        return [str(row[0]) for row in reader.execute("SELECT word FROM words ORDER BY rowid")]


class Gate:
    """An operation that holds the writing thread, so that what is submitted meanwhile ends up in one batch."""

    def __init__(self, writer: GroupCommitter) -> None:
        self._entered, self._opened = threading.Event(), threading.Event()
        self._done = writer.submit(self._hold)
        assert self._entered.wait(PATIENCE)

    def _hold(self, _: sqlite3.Connection) -> None:
        self._entered.set()
        assert self._opened.wait(PATIENCE)

    def open(self) -> None:
        self._opened.set()
        self._done.result(PATIENCE)


def test_a_result_is_given_after_the_commit(writer: GroupCommitter, path: Path) -> None:
    assert writer.submit(adding("one")).result(PATIENCE) == "one"
    assert words(path) == ["one"]


def test_what_waits_is_committed_together_and_in_order(writer: GroupCommitter, path: Path) -> None:
    gate = Gate(writer)
    seen: list[list[str]] = []
    waiting = [writer.submit(adding(f"w{number}")) for number in range(1000)]
    waiting[0].add_done_callback(lambda _: seen.append(words(path)))
    gate.open()
    assert [future.result(PATIENCE) for future in waiting] == [f"w{number}" for number in range(1000)]
    assert len(seen[0]) > 100, "the first was answered when many were committed"
    assert words(path) == [f"w{number}" for number in range(1000)]


def test_an_operation_that_fails_is_undone_alone(writer: GroupCommitter, path: Path) -> None:
    def half_way(connection: sqlite3.Connection) -> None:
        adding("half")(connection)
        raise KeyError("half-way")

    gate = Gate(writer)
    futures: list[Future[Any]] = [writer.submit(op) for op in (adding("a"), half_way, adding("a"), adding("b"))]
    gate.open()
    assert futures[0].result(PATIENCE) == "a"
    with pytest.raises(KeyError, match="half-way"):
        futures[1].result(PATIENCE)
    with pytest.raises(sqlite3.IntegrityError):
        futures[2].result(PATIENCE)
    assert futures[3].result(PATIENCE) == "b"
    assert words(path) == ["a", "b"]


def test_without_space_nothing_of_the_batch_is_kept_and_later_writes_work(writer: GroupCommitter, path: Path) -> None:
    writer.submit(lambda c: c.execute("PRAGMA max_page_count = 8").fetchall()).result(PATIENCE)
    gate = Gate(writer)
    futures = [writer.submit(adding(word)) for word in ("small", "x" * 500_000)]
    gate.open()
    for future in futures:
        with pytest.raises(StorageFullError, match=r"words\.sqlite"):
            future.result(PATIENCE)
    assert words(path) == []
    assert writer.submit(adding("fits")).result(PATIENCE) == "fits"
    assert words(path) == ["fits"]


async def test_a_caller_that_hangs_up_does_not_stop_the_writer(writer: GroupCommitter, path: Path) -> None:
    gate = Gate(writer)
    waiting = asyncio.ensure_future(asyncio.wrap_future(writer.submit(adding("given up"))))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    assert await asyncio.wrap_future(writer.submit(adding("next"))) == "next"
    assert words(path) in (["next"], ["given up", "next"])


def test_closing_finishes_what_was_submitted(path: Path) -> None:
    writer = committer(path)
    gate = Gate(writer)
    waiting = [writer.submit(adding(f"w{number}")) for number in range(5)]
    closing_thread = threading.Thread(target=writer.close)
    closing_thread.start()
    gate.open()
    closing_thread.join(PATIENCE)
    assert [future.result(0) for future in waiting] == [f"w{number}" for number in range(5)]
    assert len(words(path)) == 5


def test_a_write_after_closing_is_refused_and_not_left_waiting(path: Path) -> None:
    writer = committer(path)
    writer.close()
    with pytest.raises(WorldError, match="closed"):
        writer.submit(adding("late")).result(PATIENCE)


@pytest.mark.parametrize("name", ["a b.sqlite", "what?.sqlite", "100%25.sqlite", "#1.sqlite", "ümlaut.sqlite"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    with closing(committer(tmp_path / name)) as writer:
        writer.submit(adding("here")).result(PATIENCE)
        assert words(tmp_path / name) == ["here"]
    assert (tmp_path / name).is_file()


def test_a_new_file_can_shrink_and_its_log_does_not_stay_large(writer: GroupCommitter) -> None:
    def settings(connection: sqlite3.Connection) -> dict[str, Any]:
        names = ("auto_vacuum", "journal_mode", "journal_size_limit")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    incremental = 2
    assert writer.submit(settings).result(PATIENCE) == {
        "auto_vacuum": incremental,
        "journal_mode": "wal",
        "journal_size_limit": 64 * 1024 * 1024,
    }


# ---- opening -------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_reported_and_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, " * 100)
    with pytest.raises(RegistryCorruptError, match="damaged"):
        committer(path)
    assert path.read_bytes().startswith(b"this is not a database")


def test_a_database_with_a_damaged_page_is_reported(path: Path) -> None:
    with closing(committer(path)) as writer:
        for number in range(200):
            writer.submit(adding(f"{number:>500}")).result(PATIENCE)
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xa5" * 4096
    path.write_bytes(content)
    with pytest.raises(RegistryCorruptError, match="damaged"):
        committer(path)


def test_an_operation_that_meets_damage_says_so(writer: GroupCommitter, path: Path) -> None:
    def operation(_: sqlite3.Connection) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    with pytest.raises(RegistryCorruptError, match="damaged"):
        writer.submit(operation).result(PATIENCE)
    assert writer.submit(adding("next")).result(PATIENCE) == "next"


_KILLED_WHILE_IT_IS_MADE = """
import os, signal, sqlite3, sys
made = sqlite3.connect(sys.argv[1], isolation_level=None)
made.execute("PRAGMA auto_vacuum=INCREMENTAL")
made.execute("CREATE TABLE before (word TEXT)")
made.execute("PRAGMA cache_size=1")  # so that pages of the transaction, and its journal before them, are on the disk
made.execute("BEGIN")
made.execute("CREATE TABLE unfinished (space BLOB)")
made.executemany("INSERT INTO unfinished VALUES (zeroblob(5000))", [()] * 50)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_whose_maker_was_killed_in_its_first_transaction_is_opened(path: Path) -> None:
    """It has a rollback journal and no write-ahead log yet."""
    path.parent.mkdir(parents=True)
    died = subprocess.run([sys.executable, "-c", _KILLED_WHILE_IT_IS_MADE, str(path)], check=False)
    journal = path.with_name(path.name + "-journal")
    assert died.returncode == -signal.SIGKILL and journal.stat().st_size and path.stat().st_size
    with closing(committer(path)) as opened:
        assert opened.submit(adding("first")).result(PATIENCE) == "first"
    assert words(path) == ["first"]
    with closing(connect(path, read_only=True)) as reader:
        tables = {str(row[0]) for row in reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "before" in tables and "unfinished" not in tables, "what was not committed is undone, and nothing else"
    assert not journal.exists()


def test_a_place_that_cannot_hold_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken.sqlite").mkdir()
    with pytest.raises(WorldError, match=r"taken\.sqlite"):
        committer(tmp_path / "taken.sqlite")


def test_migrations_run_once_and_from_where_the_file_is(path: Path) -> None:
    ran: list[str] = []

    def second(connection: sqlite3.Connection) -> None:
        ran.append("second")
        connection.execute("ALTER TABLE words ADD COLUMN tongue TEXT NOT NULL DEFAULT 'en'")

    with closing(committer(path)) as writer:
        writer.submit(adding("old")).result(PATIENCE)
    for _ in range(2):
        committer(path, [_schema, second]).close()
    assert ran == ["second"]
    with closing(connect(path, read_only=True)) as reader:
        assert [tuple(row) for row in reader.execute("SELECT word, tongue FROM words")] == [("old", "en")]


def test_a_migration_that_fails_changes_nothing_and_can_be_tried_again(path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE extra (x)")
        connection.execute("no such statement")

    committer(path).close()
    with pytest.raises(WorldError):
        committer(path, [_schema, broken])
    with closing(committer(path, [_schema])) as writer:
        tables = writer.submit(lambda c: [r[0] for r in c.execute("SELECT name FROM sqlite_master")]).result(PATIENCE)
        assert "extra" not in tables


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sqlite3.OperationalError("database or disk is full"), StorageFullError),
        (sqlite3.DatabaseError("database disk image is malformed"), RegistryCorruptError),
        (sqlite3.DatabaseError("file is not a database"), RegistryCorruptError),
        (sqlite3.OperationalError("database is locked"), WorldError),
    ],
)
def test_storage_errors_become_sentences_that_name_the_file(error: sqlite3.Error, kind: type[WorldError]) -> None:
    told = translate(error, Path("/data/registry.sqlite"))
    assert type(told) is kind
    assert "/data/registry.sqlite" in str(told)
