"""A registry of an earlier version on a disk without a byte left: brought up to date, or left as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gym_gui.services.run_filter import parse
from gym_gui.services.trainer.errors import StorageFullError
from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.group_commit import GroupCommitter
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import MIGRATIONS, RunRegistry
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.run_records import run_record
from mosaic_protocol.states import RunState

PATIENCE = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", megabytes=32)
    yield disk
    disk.unmount()


def old_registry(path: Path, count: int) -> list[RunRecord]:
    """As an earlier version left it, ballast and all."""
    config = '{"metadata": {"tags": ["old"], "worker": {"config": {"seed": 7, "notes": "%s"}}}}' % ("x" * 200)
    runs = [run_record(name=f"old-{number}", config_json=config) for number in range(count)]

    def fill(connection: sqlite3.Connection) -> None:
        for run in runs:
            document = msgspec.to_builtins(run)
            del document["labels"]
            values = (run.run_id, run.name, run.state, "", "toy", "", "", 0, 0, msgspec.json.encode(document).decode())
            connection.execute(
                "INSERT INTO runs (run_id, name, state, outcome, worker_type, algo, env_id, deleted, revision,"
                " document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )

    with closing(GroupCommitter(path, MIGRATIONS[:2], synchronous="FULL")) as writer:
        writer.submit(fill).result(PATIENCE)
    return runs


@on_a_small_disk
def test_a_registry_of_some_runs_is_brought_up_to_date_and_its_runs_can_be_ended(disk: SmallDisk) -> None:
    path = disk.mount() / "trainer" / "registry.sqlite"
    runs = old_registry(path, 200)
    disk.fill()
    with closing(RunRegistry(path)) as registry:
        assert registry.page(Query(filter=parse("tag=old seed=7")), 1, "").total == 200
        ended = replace(registry.get(runs[0].run_id), state=RunState.TERM)
        registry.save(ended, [Transition(runs[0].state, ended.state, "Gone")]).result(PATIENCE)
        assert registry.page(Query(filter=parse("state=over")), 1, "").total == 1
    disk.free()
    with closing(RunRegistry(path)) as registry:
        assert registry.page(Query(filter=parse("tag=old")), 1, "").total == 200


@on_a_small_disk
def test_a_registry_that_is_too_large_for_what_is_held_back_is_left_as_it_was(disk: SmallDisk) -> None:
    path = disk.mount() / "trainer" / "registry.sqlite"
    old_registry(path, 5000)
    disk.fill()
    with pytest.raises(StorageFullError, match="nothing was changed"):
        RunRegistry(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (5000,)
    disk.free()
    with closing(RunRegistry(path)) as registry:
        assert registry.page(Query(filter=parse("tag=old")), 1, "").total == 5000
