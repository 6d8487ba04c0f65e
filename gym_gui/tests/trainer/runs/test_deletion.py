"""Deleting: to the trash and back, or for good; never a run that lives, never a file that is not the run's."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gym_gui.logging_config.structured import write_structured_log
from gym_gui.services.beginnings import copies_of, copy_for, copy_of_all
from gym_gui.services.trainer.errors import UnknownRunError, WorldError, WrongStateError
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.support.run_records import live_record, run_record
from mosaic_protocol import events as ev
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.states import LIVE_STATES, Outcome, RunState
from mosaic_protocol.whole_files import draft_of

PATIENCE = 30.0


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def registry(paths: MosaicPaths) -> Iterator[RunRegistry]:
    with closing(RunRegistry(paths.registry_db)) as opened:
        yield opened


@pytest.fixture
def store(paths: MosaicPaths) -> Iterator[TelemetryStore]:
    with closing(TelemetryStore(paths.telemetry_db)) as opened:
        yield opened


@pytest.fixture
def deletion(paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore) -> RunDeletion:
    return RunDeletion(paths, registry, [store])


def owned(paths: MosaicPaths, run: RunRecord) -> list[Path]:
    return [
        paths.run(run.run_id).directory / "checkpoints" / "step-1" / "model.bin",
        paths.run_logs(run.run_id) / "stdout.log",
        paths.run_config(run.run_id),
        paths.worker_config(run.run_id),
    ]


def finished(paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, **facts: object) -> RunRecord:
    """A run that is over, with files and records of every sort."""
    over = live_record(**{"state": RunState.TERM, "outcome": Outcome.COMPLETED, "reason": "done", **facts})
    run, _ = registry.insert(over, "").result(PATIENCE)
    for path in owned(paths, run):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
    store.ingest(Batch(run.run_id, "worker", 1, [ev.encode(ev.MetricRow(seq=1, step=1, values={"a": 1.0}))])).result(
        PATIENCE
    )
    return run


async def test_a_trashed_run_is_hidden_and_comes_back_whole(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion
) -> None:
    run = finished(paths, registry, store)
    trashed = await deletion.trash(run)
    assert registry.page(Query(), 9, "").runs == []
    assert all(path.exists() for path in owned(paths, run))
    restored = await deletion.restore(trashed)
    assert registry.page(Query(), 9, "").runs == [restored]
    assert restored == replace(run, revision=restored.revision)
    assert [row.transition.cause for row in registry.history(run.run_id)] == ["Submitted", "Deleted", "Restored"]


async def test_a_purged_run_leaves_nothing_and_says_what_it_freed(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion
) -> None:
    run, other = finished(paths, registry, store), finished(paths, registry, store)
    assert await deletion.purge(run) == 400
    with pytest.raises(UnknownRunError):
        registry.get(run.run_id)
    assert list(paths.root.rglob(f"*{run.run_id}*")) == []
    assert store.metric_rows(run.run_id) == 0
    assert all(path.exists() for path in owned(paths, other))
    assert store.metric_rows(other.run_id) == 1


def begins_with(folder: Path, name: str = "from_recording") -> str:
    """The config of a run that begins with steps that were copied there, whatever its worker calls them."""
    return json.dumps({"metadata": {"worker": {"config": {"params": {"episodes": 3, name: str(folder)}}}}})


def written(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "recording.json").write_bytes(b"x" * 100)
    return folder


async def test_copies_that_sessions_began_with_go_with_the_run_and_nothing_else_does(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion, tmp_path: Path
) -> None:
    run, other = finished(paths, registry, store), finished(paths, registry, store)
    copies = [written(copy_for(paths, run.run_id, episode, 90)) for episode in (0, 12)]
    copies += [
        written(copy_of_all(paths, run.run_id, 12)),
        written(draft_of(copies_of(paths, run.run_id, 3))),
        written(copies_of(paths, run.run_id, 5)),
    ]
    needed, kept = written(copy_for(paths, run.run_id, 7, 90)), written(copy_for(paths, other.run_id, 0, 90))
    strange = written(paths.beginnings / f"{run.run_id.lower()}-notes")
    elsewhere = written(tmp_path / "elsewhere" / f"{run.run_id.lower()}-3")
    link = copy_for(paths, run.run_id, 4, 90)
    link.symlink_to(elsewhere)
    waiting, _ = registry.insert(run_record(config_json=begins_with(needed)), "").result(PATIENCE)
    expected = 400 + 500 + link.lstat().st_size
    assert await deletion.purge(run) == expected
    assert not [path for path in (*copies, link) if path.exists() or path.is_symlink()]
    assert all(path.is_dir() for path in (needed, kept, strange, elsewhere)), "a session waits for the first"
    over = replace(waiting, state=RunState.TERM, outcome=Outcome.COMPLETED)
    await deletion.purge(registry.save(over, ()).result(PATIENCE))
    assert not needed.exists()
    shown = written(copy_of_all(paths, other.run_id, 120))
    learner = finished(paths, registry, store, config_json=begins_with(shown, "seed_from"))
    await deletion.purge(learner)
    assert not shown.exists() and kept.is_dir()
    hostile = finished(paths, registry, store, config_json=begins_with(paths.beginnings / ".." / "datasets"))
    await deletion.purge(hostile)
    outside = finished(paths, registry, store, config_json=begins_with(elsewhere))
    await deletion.purge(outside)
    assert all(path.is_dir() for path in (kept, strange, elsewhere))


@pytest.mark.parametrize("state", sorted({RunState.INIT, *LIVE_STATES}))
async def test_a_run_that_is_not_over_cannot_be_deleted(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion, state: RunState
) -> None:
    run = finished(paths, registry, store, state=state, outcome=None)
    for delete in (deletion.trash, deletion.purge):
        with pytest.raises(WrongStateError, match="mosaic cancel"):
            await delete(run)
    assert registry.get(run.run_id) == run
    assert all(path.exists() for path in owned(paths, run))


async def test_only_what_is_in_the_trash_can_be_restored(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion
) -> None:
    run = finished(paths, registry, store)
    with pytest.raises(WrongStateError, match="not in the trash"):
        await deletion.restore(run)


async def test_what_was_purged_meanwhile_cannot_be_restored(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion
) -> None:
    trashed = await deletion.trash(finished(paths, registry, store))
    await deletion.purge(trashed)
    with pytest.raises(UnknownRunError):
        await deletion.restore(trashed)


async def test_a_purge_cut_short_can_be_done_again(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion
) -> None:
    run = finished(paths, registry, store)
    shutil.rmtree(paths.run(run.run_id).directory)
    store.forget(run.run_id).result(PATIENCE)
    assert await deletion.purge(run) == 300
    assert registry.page(Query(include_deleted=True), 9, "").total == 0


async def test_links_out_of_a_run_directory_are_not_followed(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").write_bytes(b"y" * 5000)
    run = finished(paths, registry, store)
    folder = paths.run(run.run_id).directory
    (folder / "folder").symlink_to(mine)
    (folder / "file").symlink_to(mine / "precious")
    assert await deletion.purge(run) < 1000
    assert (mine / "precious").stat().st_size == 5000
    assert not folder.exists()


async def test_a_run_directory_that_is_itself_a_link_is_only_unlinked(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").touch()
    run = finished(paths, registry, store)
    folder = paths.run(run.run_id).directory
    shutil.rmtree(folder)
    folder.symlink_to(mine)
    await deletion.purge(run)
    assert (mine / "precious").exists()
    assert not folder.is_symlink()


async def test_what_cannot_be_removed_is_reported_and_the_run_stays_in_the_trash(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(paths, registry, store)

    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", denied)
    with pytest.raises(WorldError, match="Permission denied"):
        await deletion.purge(run)
    assert [left.run_id for left in registry.page(Query(include_deleted=True), 9, "").runs] == [run.run_id]


class SlowRemoval:
    """Holds the removal of one run's files until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: RunRecord) -> None:
        self._run_id, self._remove = run.run_id, shutil.rmtree
        self.begun, self._go_on = threading.Event(), threading.Event()
        self.times = 0
        monkeypatch.setattr(shutil, "rmtree", self._hold)

    def _hold(self, path: Path) -> None:
        if self._run_id in str(path) and not self._go_on.is_set():
            self.times += 1
            self.begun.set()
            assert self._go_on.wait(PATIENCE)
        self._remove(path)

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)

    def end(self) -> None:
        self._go_on.set()


async def test_a_run_restored_while_the_trash_is_emptied_stays(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = finished(paths, registry, store, deleted_at=10.0)
    wanted = finished(paths, registry, store, deleted_at=10.0)
    removal = SlowRemoval(monkeypatch, first)
    emptying = asyncio.create_task(deletion.purge_old(24.0))
    await removal.has_begun()
    restored = await deletion.restore(wanted)
    removal.end()
    await emptying
    assert registry.page(Query(include_deleted=True), 9, "").runs == [restored]
    assert all(path.exists() for path in owned(paths, wanted))


async def test_a_run_deleted_again_while_the_trash_is_emptied_has_its_full_time_there(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = finished(paths, registry, store, deleted_at=10.0)
    wanted = finished(paths, registry, store, deleted_at=10.0)
    removal = SlowRemoval(monkeypatch, first)
    emptying = asyncio.create_task(deletion.purge_old(24.0))
    await removal.has_begun()
    await deletion.trash(await deletion.restore(wanted))
    removal.end()
    await emptying
    assert all(path.exists() for path in owned(paths, wanted))


async def test_a_run_that_is_being_purged_cannot_be_touched_by_another_call(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await deletion.trash(finished(paths, registry, store))
    removal = SlowRemoval(monkeypatch, run)
    purging = asyncio.create_task(deletion.purge(run))
    await removal.has_begun()
    for action in (deletion.restore, deletion.purge, deletion.trash):
        with pytest.raises(WrongStateError, match="being removed for good"):
            await action(run)
    await deletion.purge_old(0.0)
    assert removal.times == 1
    removal.end()
    assert await purging == 400
    assert registry.page(Query(include_deleted=True), 9, "").total == 0


async def test_a_purge_goes_to_its_end_when_its_client_hangs_up(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(paths, registry, store)
    removal = SlowRemoval(monkeypatch, run)
    purging = asyncio.create_task(deletion.purge(run))
    await removal.has_begun()
    assert registry.page(Query(), 9, "").runs == [], "it is not listed any more while its files go"
    purging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await purging
    removal.end()
    await deletion.close()
    assert deletion.purged == [run.run_id]
    assert registry.page(Query(include_deleted=True), 9, "").total == 0
    assert store.metric_rows(run.run_id) == 0


async def test_a_purge_that_a_crash_cut_short_is_ended_by_housekeeping_and_not_undone(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(paths, registry, store)

    def crash(run_id: str) -> Future[bool]:
        raise WorldError("as a crash would")

    with monkeypatch.context() as patched:
        patched.setattr(store, "forget", crash)
        with pytest.raises(WorldError, match="crash"):
            await deletion.purge(run)
    after_a_crash = RunDeletion(paths, registry, [store])
    for action in (after_a_crash.restore, after_a_crash.trash):
        with pytest.raises(WrongStateError, match="cannot come back"):
            await action(registry.get(run.run_id))
    await after_a_crash.purge_old(float("inf"))
    assert after_a_crash.purged == [run.run_id], "those who watch hear of it too"
    assert registry.page(Query(include_deleted=True), 9, "").total == 0
    assert store.metric_rows(run.run_id) == 0


async def test_a_daemon_that_leaves_begins_no_deletion(
    paths: MosaicPaths, registry: RunRegistry, store: TelemetryStore, deletion: RunDeletion
) -> None:
    run = finished(paths, registry, store, deleted_at=10.0)
    await deletion.close()
    for action in (deletion.restore, deletion.purge, deletion.trash):
        with pytest.raises(WorldError, match="leaving"):
            await action(run)
    await deletion.purge_old(0.0)
    assert registry.get(run.run_id) == run
    assert all(path.exists() for path in owned(paths, run))


async def test_a_daemon_that_leaves_does_not_wait_for_the_last_record_of_a_purge(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(paths, registry, store)
    begun = asyncio.Event()

    def one_slice_of_many(run_id: str) -> Future[bool]:
        begun.set()
        more: Future[bool] = Future()
        more.set_result(True)
        return more

    with monkeypatch.context() as patched:
        patched.setattr(store, "forget", one_slice_of_many)
        purging = asyncio.create_task(deletion.purge(run))
        await begun.wait()
        await deletion.close()
        with pytest.raises(WorldError, match="leaving"):
            await purging
    assert [left.run_id for left in registry.page(Query(include_deleted=True), 9, "").runs] == [run.run_id]
    await RunDeletion(paths, registry, [store]).purge_old(24.0)
    assert registry.page(Query(include_deleted=True), 9, "").total == 0


async def test_the_trash_is_emptied_by_age_and_one_that_sticks_does_not_keep_the_others(
    paths: MosaicPaths,
    registry: RunRegistry,
    store: TelemetryStore,
    deletion: RunDeletion,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    day = 24 * 3600.0
    sticks = finished(paths, registry, store, deleted_at=time.time() - 3 * day)
    old = finished(paths, registry, store, deleted_at=time.time() - 2 * day)
    young = finished(paths, registry, store, deleted_at=time.time() - day / 2)
    kept = finished(paths, registry, store)
    remove = shutil.rmtree

    def sometimes(path: Path) -> None:
        if sticks.run_id in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", sometimes)
    handler = write_structured_log(tmp_path / "log.jsonl")
    try:
        await deletion.purge_old(24.0)
    finally:
        logging.getLogger("gym_gui").removeHandler(handler)
        handler.close()
    left = {run.run_id for run in registry.page(Query(include_deleted=True), 9, "").runs}
    assert left == {sticks.run_id, young.run_id, kept.run_id}
    assert not paths.run(old.run_id).directory.exists()
    told = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert any(entry["level"] == "WARNING" and entry.get("run_id") == sticks.run_id for entry in told)
