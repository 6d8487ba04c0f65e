"""A damaged database is kept aside and reported, never overwritten; a copy lies beside it."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.trainer.errors import RegistryCorruptError, WorldError
from gym_gui.services.trainer.storage.keep_aside import RecentCopy, backup_of, opened_or_kept_aside
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.run_records import run_record

GARBAGE = b"not a database at all " * 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    return folder / "registry.sqlite"


@pytest.fixture
def registry(path: Path) -> Iterator[RunRegistry]:
    with closing(RunRegistry(path)) as opened:
        yield opened


def kept(path: Path) -> list[Path]:
    return sorted(file for file in path.parent.iterdir() if "damaged" in file.name)


def open_it(path: Path) -> None:
    opened_or_kept_aside(path, RunRegistry).close()


def runs_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT run_id FROM runs")]


def test_a_sound_database_is_opened_and_left_where_it_is(path: Path) -> None:
    open_it(path)
    open_it(path)
    assert kept(path) == []


def test_a_damaged_database_is_moved_aside_whole_and_reported(path: Path) -> None:
    path.write_bytes(GARBAGE)
    path.with_name("registry.sqlite-wal").write_bytes(b"wal")
    with pytest.raises(RegistryCorruptError) as told:
        open_it(path)
    moved = kept(path)
    assert moved[0].read_bytes() == GARBAGE
    left = [file for file in path.parent.iterdir() if "damaged" not in file.name and file.name != "reserve"]
    assert left == [], "a stale journal would be read"
    assert str(moved[0]) in str(told.value)
    assert "start the daemon again" in str(told.value)


def test_the_next_start_begins_with_an_empty_one_and_the_damaged_one_stays(path: Path) -> None:
    path.write_bytes(GARBAGE)
    with pytest.raises(RegistryCorruptError):
        open_it(path)
    open_it(path)
    assert runs_in(path) == []
    assert kept(path)[0].read_bytes() == GARBAGE


def test_damage_after_damage_overwrites_nothing(path: Path) -> None:
    for number in range(3):
        path.write_bytes(GARBAGE + bytes([number]))
        with pytest.raises(RegistryCorruptError):
            open_it(path)
    assert {file.read_bytes()[-1] for file in kept(path)} == {0, 1, 2}


def test_the_command_in_the_sentence_brings_the_copy_back(path: Path) -> None:
    with closing(RunRegistry(path)) as registry:
        run, _ = registry.insert(run_record(), "").result(30)
        RecentCopy(registry).refresh()
    path.write_bytes(GARBAGE)
    with pytest.raises(RegistryCorruptError) as told:
        open_it(path)
    command = str(told.value).partition("UTC: ")[2].partition("; or ")[0]
    subprocess.run(shlex.split(command), check=True)
    open_it(path)
    assert runs_in(path) == [run.run_id]


def test_without_a_copy_none_is_offered(path: Path) -> None:
    path.write_bytes(GARBAGE)
    with pytest.raises(RegistryCorruptError) as told:
        open_it(path)
    assert "cp " not in str(told.value)


def test_other_trouble_moves_nothing(path: Path) -> None:
    open_it(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(WorldError, match="version 99"):
        open_it(path)
    assert path.exists()
    assert kept(path) == []


def test_a_copy_is_taken_while_the_registry_is_in_use_and_holds_what_was_acknowledged(
    path: Path, registry: RunRegistry
) -> None:
    copy = RecentCopy(registry)
    first, _ = registry.insert(run_record(), "").result(30)
    copy.refresh()
    assert runs_in(backup_of(path)) == [first.run_id]
    second, _ = registry.insert(run_record(), "").result(30)
    copy.refresh()
    assert runs_in(backup_of(path)) == [first.run_id, second.run_id]
    assert not list(path.parent.glob("*draft*"))


def test_a_registry_that_did_not_change_is_not_copied_again(path: Path, registry: RunRegistry) -> None:
    copy = RecentCopy(registry)
    copy.refresh()
    backup_of(path).unlink()
    copy.refresh()
    assert not backup_of(path).exists()
    registry.insert(run_record(), "").result(30)
    copy.refresh()
    assert backup_of(path).exists()


def test_a_copy_that_fails_leaves_the_old_one(
    path: Path, registry: RunRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = RecentCopy(registry)
    run, _ = registry.insert(run_record(), "").result(30)
    copy.refresh()
    registry.insert(run_record(), "").result(30)

    def no_replace(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "replace", no_replace)
        with pytest.raises(OSError, match="No space"):
            copy.refresh()
    assert runs_in(backup_of(path)) == [run.run_id]
    copy.refresh()
    assert len(runs_in(backup_of(path))) == 2, "it is tried again"
