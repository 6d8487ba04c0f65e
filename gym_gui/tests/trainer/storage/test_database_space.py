"""Space that a database has before it needs it: nobody else can take it, and it is used for nothing less."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.trainer.errors import StorageFullError
from gym_gui.services.trainer.storage.database_space import BALLAST_SLICES
from gym_gui.services.trainer.storage.disk_reserve import RESERVED_BYTES, SLICE_BYTES, DiskReserve
from gym_gui.services.trainer.storage.group_commit import GroupCommitter, connect
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk

PATIENCE = 60.0


def _schema(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE words (word TEXT NOT NULL)")


def opened(path: Path) -> GroupCommitter:
    return GroupCommitter(path, [_schema], synchronous="FULL")


def adding(word: str) -> Callable[[sqlite3.Connection], None]:
    def operation(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO words VALUES (?)", (word,))

    return operation


def count(path: Path, table: str) -> int:
    with closing(connect(path, read_only=True)) as reader:
        return int(reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", megabytes=16)
    yield disk
    disk.unmount()


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def kept_log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal.kept")


def test_the_blocks_of_the_log_outlive_a_clean_close_and_its_words_do_not(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    with closing(opened(path)) as writer:
        writer.submit(adding("one")).result(PATIENCE)
        inode = log_of(path).stat().st_ino
    assert not log_of(path).exists() and kept_log_of(path).stat().st_ino == inode
    with closing(opened(path)):
        assert log_of(path).stat().st_ino == inode and not kept_log_of(path).exists()
        assert count(path, "words") == 1


def test_a_log_in_use_is_never_replaced_by_the_kept_one(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    with closing(opened(path)) as first:
        first.submit(adding("one")).result(PATIENCE)
        kept_log_of(path).write_bytes(b"an old log" * 1000)
        with closing(opened(path)) as second:
            second.submit(adding("two")).result(PATIENCE)
        assert kept_log_of(path).samefile(log_of(path)), "closing one of two leaves the log in use, with a second name"
        first.submit(adding("three")).result(PATIENCE)
    with closing(opened(path)):
        assert count(path, "words") == 3


def test_a_reserve_is_given_up_in_slices_and_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = DiskReserve(path)
    assert not reserve.release()
    reserve.hold()
    assert path.stat().st_blocks * 512 >= RESERVED_BYTES
    given = 0
    while reserve.release():
        given += 1
        assert path.stat().st_size == RESERVED_BYTES - given * SLICE_BYTES
    reserve.hold()
    assert path.stat().st_size == RESERVED_BYTES


@on_a_small_disk
def test_what_was_given_up_for_essential_writes_is_for_no_others(disk: SmallDisk) -> None:
    path = disk.mount() / "words.sqlite"
    with closing(opened(path)) as writer:
        with disk.eaten():
            for number in range(40):
                writer.submit(adding(f"{number}" * 400), essential=True).result(PATIENCE)
            assert 0 < count(path, "ballast") < BALLAST_SLICES
            with pytest.raises(StorageFullError, match="free some disk space"):
                writer.submit(adding("small")).result(PATIENCE)
            assert count(path, "words") == 40
        disk.free()
        writer.submit(adding("small")).result(PATIENCE)
        assert (count(path, "words"), count(path, "ballast")) == (41, BALLAST_SLICES)


@on_a_small_disk
def test_what_is_committed_can_always_be_folded_into_the_file(disk: SmallDisk) -> None:
    """A log that cannot be folded would grow, and there is no space for that."""
    path = disk.mount() / "words.sqlite"
    with closing(opened(path)) as writer:
        for _ in range(20):
            writer.submit(adding("x" * 20_000)).result(PATIENCE)
        disk.fill()
        with closing(connect(path)) as other:
            busy, in_log, folded = other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        assert (busy, in_log) == (0, folded)
