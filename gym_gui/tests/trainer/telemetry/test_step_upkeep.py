"""Keeping the step store small: old steps go and are counted, small chunks become full ones, and no step changes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.step_upkeep import StepUpkeep
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for, wait_until_trimmed
from gym_gui.tests.support.made_chunks import made_chunk
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.chunk import END, OpenedChunk
from mosaic_protocol.steps.merging import MOST_STEPS, merged
from mosaic_protocol.steps.open_chunk import STREAM
from mosaic_worker.recording.step_recorder import StepRecorder

RUN = "run"
PATIENCE = 120.0
SIZES = [1, 3, 2, 500, 6, 512, 7, 7, 7, 490, 30, 1]


def journal(folder: Path, sizes: list[int]) -> list[bytes]:
    """A chunk of each size; from the eighth on the observations have another form."""
    recorder = StepRecorder(folder, seal_seconds=3600.0)
    lane = recorder.lane("agent", "policy")
    number = 0
    for place, size in enumerate(sizes):
        for _ in range(size):
            lane.append(np.full(3 if place < 7 else 4, number, np.float32), number, 1.0, number % 30 == 29)
            number += 1
        recorder.flush()
    recorder.close()
    reader = OutboxReader(folder, STREAM)
    try:
        return reader.read(10 * len(sizes))
    finally:
        reader.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StepStore]:
    with closing(StepStore(tmp_path / "steps.sqlite")) as opened:
        opened.ingest(Batch(RUN, STREAM, 1, journal(tmp_path / "outbox", SIZES))).result(PATIENCE)
        yield opened


def all_steps(store: StepStore) -> list[str]:
    found: list[str] = []
    first = 0
    while page := store.chunks_after(RUN, first):
        for _, line in page:
            record = ev.decode(line)
            assert isinstance(record, ev.StepChunk)
            found += map(repr, OpenedChunk(record).steps())
        first = page[-1][0]
    return found


def sizes_in(store: StepStore) -> list[int]:
    return [count for _, _, count in store.chunk_sizes(RUN, 0, 10_000)]


def compacted(store: StepStore) -> None:
    asyncio.run(StepUpkeep(store, lambda run_id: 0).compact(RUN))


def test_small_chunks_become_full_ones_and_no_step_changes(store: StepStore) -> None:
    before, episodes = all_steps(store), store.episodes(RUN)
    assert store.not_compacted() == [RUN]
    compacted(store)
    assert all_steps(store) == before
    assert sizes_in(store) == [512, 512, 7, 504, 31]  # the form changes after the seventh
    assert max(sizes_in(store)) <= MOST_STEPS
    assert store.episodes(RUN) == episodes and store.not_compacted() == []
    assert [store.episode_span(RUN, number) for number in (0, 3)] == [(0, 506), (90, 506)]


def test_compacting_again_changes_nothing(store: StepStore) -> None:
    compacted(store)
    before = store.chunk_sizes(RUN, 0, 10_000)
    compacted(store)
    assert store.chunk_sizes(RUN, 0, 10_000) == before


def test_what_is_removed_meanwhile_does_not_come_back(store: StepStore) -> None:
    ids = [number for number, _, _ in store.chunk_sizes(RUN, 0, 3)]
    record = StepUpkeep(store, lambda run_id: 0)._merged(ids)[0][1]
    while store.trim(RUN, 100).result(PATIENCE):
        pass
    left = all_steps(store)
    assert not store.replace(RUN, ids, [record]).result(PATIENCE)
    assert all_steps(store) == left


def test_trimming_keeps_the_last_steps_and_counts_the_others(store: StepStore) -> None:
    before = all_steps(store)
    asyncio.run(StepUpkeep(store, lambda run_id: 0).trim(RUN, 100))
    left, totals = all_steps(store), store.totals(RUN)
    assert left == before[-len(left) :]
    assert 100 <= len(left) < 100 + MOST_STEPS
    assert (totals.steps, totals.trimmed) == (len(before), len(before) - len(left))
    asyncio.run(StepUpkeep(store, lambda run_id: 0).trim(RUN, 0))
    assert all_steps(store) == left, "0 keeps all"


def test_a_run_that_asked_for_its_place_and_recorded_nothing_is_kept_up_as_well(tmp_path: Path) -> None:
    with closing(StepStore(tmp_path / "steps.sqlite")) as store:
        assert store.ingest(Batch(RUN, STREAM, 1, [])).result(PATIENCE).acked == 0
        asyncio.run(StepUpkeep(store, lambda run_id: 0).trim(RUN, 100))
        store.ingest(Batch("older", STREAM, 1, [ev.encode(made_chunk(0, 3))])).result(PATIENCE)
        store._made().writer.submit(lambda to: to.execute("DELETE FROM totals")).result(PATIENCE)
        assert not store.trim("older", 100).result(PATIENCE), "a key without totals, as earlier versions left it"


def test_a_run_that_cannot_be_kept_up_costs_no_other_run_its_upkeep(store: StepStore) -> None:
    bad = [made_chunk(0, 3, heap.packed(0, END, 5)), made_chunk(3, 3, seq=2)]
    store.ingest(Batch("damaged", STREAM, 1, list(map(ev.encode, bad)))).result(PATIENCE)
    store.ingest(Batch("unheard of", STREAM, 1, [ev.encode(made_chunk(0, 3))])).result(PATIENCE)

    def kept_of(run_id: str) -> int:
        if run_id == "unheard of":
            raise RuntimeError("nobody thought of this")
        return 0

    async def until_only_it_is_left() -> None:
        upkeep = StepUpkeep(store, kept_of)
        for run_id in ("unheard of", "damaged", RUN):  # the sound one comes last
            upkeep.run_ended(run_id)
        task = asyncio.create_task(upkeep.run())
        async with asyncio.timeout(PATIENCE):
            while store.not_compacted() != ["unheard of"]:
                assert not task.done(), task.exception()
                await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_only_it_is_left())
    assert len(store.chunk_sizes("damaged", 0, 10)) == 2, "what is damaged stays as it is"


def test_chunks_that_go_while_they_are_merged_are_let_go(store: StepStore) -> None:
    upkeep = StepUpkeep(store, lambda run_id: 0)
    ids = [number for number, _, _ in store.chunk_sizes(RUN, 0, 3)]
    while store.forget(RUN).result(PATIENCE):
        pass
    assert upkeep._merged(ids) == [] and merged([]) is None


COMPACT = """
import asyncio, sys
from pathlib import Path
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.step_upkeep import StepUpkeep
store = StepStore(Path(sys.argv[1]))
print("begins", flush=True)
asyncio.run(StepUpkeep(store, lambda run_id: 0).compact("run"))
"""


@pytest.mark.parametrize("kills", [pytest.param(3), pytest.param(40, marks=pytest.mark.nightly)])
def test_compacting_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "steps.sqlite"
    with closing(StepStore(path)) as store:
        store.ingest(Batch(RUN, STREAM, 1, journal(tmp_path / "outbox", [5] * 2000))).result(PATIENCE)
        before = all_steps(store)
    for attempt in range(kills):
        process = subprocess.Popen([sys.executable, "-c", COMPACT, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"begins\n"
        time.sleep(0.03 * (attempt + 1) / kills)  # the instant itself
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        process.stdout.close()
        with closing(StepStore(path)) as store:
            assert all_steps(store) == before
    with closing(StepStore(path)) as store:
        compacted(store)
        assert all_steps(store) == before
        assert len(sizes_in(store)) < 25


def test_a_run_is_compacted_when_it_ends_and_keeps_what_its_config_says(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(keep_steps=1_000).start()
    slow = {"total_timesteps": 40, "step_seconds": 0.05, "metrics": False}
    few = daemon.submit(record=2, **slow)
    trimmed = daemon.submit(record=100, **slow)
    for run_id in (few, trimmed):
        assert daemon.wait_over(run_id).outcome == "completed"
    wait_for("one chunk of many", lambda: len(list(daemon.client.step_chunks(few))) == 1)
    steps = list(daemon.client.steps(few))
    assert [step.action for step in steps] == list(range(80)) and len({step.t for step in steps}) > 1
    wait_until_trimmed(daemon, trimmed, to=3_000)
    totals, left = daemon.client.step_totals(trimmed), [step.step for step in daemon.client.steps(trimmed)]
    assert (totals.steps, totals.damaged, totals.kept_last) == (4_000, 0, 1_000)
    assert left == list(range(totals.trimmed, 4_000)) and 1_000 <= len(left) < 1_000 + MOST_STEPS
    assert len(list(daemon.client.episodes(trimmed))) == 400
