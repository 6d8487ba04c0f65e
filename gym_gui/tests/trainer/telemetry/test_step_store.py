"""The store of steps: chunks to the byte, exactly once, with what is damaged counted."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard

from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.telemetry.batches import Batch, Stored
from gym_gui.services.trainer.telemetry.step_rows import MIGRATIONS
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.tests.support.made_chunks import made_chunk
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.steps.chunk import ChunkError, OpenedChunk, checksum
from mosaic_protocol.steps.open_chunk import STREAM
from mosaic_worker.recording.step_recorder import StepRecorder

RUN = "run"
PATIENCE = 30.0
STEPS, EACH = 2000, 100


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StepStore]:
    with closing(StepStore(tmp_path / "steps.sqlite")) as opened:
        yield opened


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The journal of a worker: 20 chunks of 100 steps, an episode every 30."""
    outbox = tmp_path_factory.mktemp("outbox")
    recorder = StepRecorder(outbox, seal_seconds=3600.0)
    lane = recorder.lane("agent", "policy")
    for number in range(STEPS):
        lane.append(np.full(3, number, np.float32), number, 1.0, number % 30 == 29)
        if number % EACH == EACH - 1:
            recorder.flush()
    recorder.close()
    found = journalled(outbox)
    assert len(found) == STEPS // EACH
    return found


def ingest(store: StepStore, first: int, lines: list[bytes], run: str = RUN, **options: Any) -> Stored:
    return store.ingest(Batch(run, STREAM, first, lines, **options)).result(PATIENCE)


def stored_steps(store: StepStore, run: str = RUN, first: int = 0, before: int = 2**62) -> list[int]:
    """The numbers of the steps that the store gives, from one on."""
    found: list[int] = []
    while page := store.chunks_after(run, first, before):
        for _, line in page:
            record = ev.decode(line)
            assert isinstance(record, ev.StepChunk)
            found += [step.step for step in OpenedChunk(record).steps() if step.step >= first]
        first = page[-1][0]
    return found


def steps_of(store: StepStore, first: int, before: int) -> list[ev.TrainingStep]:
    found: list[ev.TrainingStep] = []
    for _, line in store.chunks_after(RUN, first, before):
        record = ev.decode(line)
        assert isinstance(record, ev.StepChunk)
        found += OpenedChunk(record).steps()
    return found


def journalled(outbox: Path) -> list[bytes]:
    reader = OutboxReader(outbox, STREAM)
    try:
        return reader.read()
    finally:
        reader.close()


def changed(line: bytes, **fields: object) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(line) | fields)


def test_chunks_come_back_to_the_byte(store: StepStore, lines: list[bytes]) -> None:
    spaced = lines[3].replace(b'"body":', b'"body": ')  # another encoder's way, and a field that nobody knows
    odd = [*lines[:2], changed(lines[2], later=1), spaced, *lines[4:]]
    ingest(store, 1, odd)
    assert [line for _, line in store.chunks_after(RUN, 0)] == odd


def test_nothing_is_made_on_disk_before_the_first_steps(tmp_path: Path, lines: list[bytes]) -> None:
    with closing(StepStore(tmp_path / "steps.sqlite")) as store:
        assert store.totals(RUN).steps == 0 and store.chunks_after(RUN, 0) == [] and store.episodes(RUN) == []
        assert not store.forget(RUN).result(PATIENCE) and not store.give_back().result(PATIENCE)
        assert store.episode_span(RUN, 0) == (0, 0) and not store.path.exists()
        ingest(store, 1, lines)
    with closing(StepStore(tmp_path / "steps.sqlite")) as store:
        assert stored_steps(store) == list(range(STEPS))


def test_batches_that_come_twice_or_overlap_are_stored_once(store: StepStore, lines: list[bytes]) -> None:
    assert ingest(store, 1, lines[:10]).acked == 10
    assert not ingest(store, 1, lines[:10]).fresh
    assert ingest(store, 6, lines[5:]).acked == len(lines)
    assert stored_steps(store) == list(range(STEPS))
    assert len(store.episodes(RUN)) == STEPS // 30


def test_a_gap_in_the_stream_and_other_records_are_refused(store: StepStore, lines: list[bytes]) -> None:
    ingest(store, 1, lines[:2])
    with pytest.raises(RefusedError, match="goes on at 3"):
        ingest(store, 5, lines[4:])
    word = ev.encode(ev.RunLifecycleEvent(event="run_started", seq=3))
    with pytest.raises(RefusedError, match="takes chunks of steps"):
        ingest(store, 3, [word])
    assert stored_steps(store) == list(range(200))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ({"crc": 1}, "checksum"),
        ({"schema": {"columns": [], "v": 3}}, "newer than 2"),
        ({"schema": {"columns": []}}, "not those of steps"),
        ({"count": 0}, "impossible"),
        ({"raw_bytes": 2**40}, "does not fit"),
        ({"first_step": 0}, "checksum"),
        ({"first_step": 2**63 - 50}, "impossible"),
    ],
)
def test_a_damaged_chunk_costs_its_own_steps_which_are_counted(
    damage: dict[str, object], sentence: str, store: StepStore, lines: list[bytes]
) -> None:
    result = ingest(store, 1, [*lines[:5], changed(lines[5], **damage), *lines[6:]])
    assert sentence in result.damaged[0] and result.acked == len(lines)
    assert stored_steps(store) == [number for number in range(STEPS) if not 500 <= number < 600]
    totals = store.totals(RUN)
    assert (totals.steps, totals.damaged) == (STEPS, 100)


def test_steps_that_are_sent_again_under_another_number_are_not_doubled(store: StepStore, lines: list[bytes]) -> None:
    again = changed(lines[0], seq=len(lines) + 1)
    result = ingest(store, 1, [*lines, again])
    assert "come again" in result.damaged[0]
    assert stored_steps(store) == list(range(STEPS))


@pytest.mark.parametrize(("first", "before"), [(0, 2**62), (150, 2**62), (199, 200), (1999, 2**62), (2000, 2**62)])
def test_any_range_is_found(first: int, before: int, store: StepStore, lines: list[bytes]) -> None:
    ingest(store, 1, lines)
    ingest(store, 1, lines[:3], run="another")
    found = stored_steps(store, first=first, before=before)
    assert found[: 2000 - first] == list(range(first, 2000))[: len(found)] and (len(found) > 0) == (first < 2000)


def test_episodes_are_found_with_their_steps(store: StepStore, lines: list[bytes]) -> None:
    ingest(store, 1, lines)
    episodes = [episode for _, episode in store.episodes(RUN)]
    assert [(e.episode, e.length, e.total_reward, e.outcome) for e in episodes[:2]] == [
        (0, 30, 30.0, "terminated"),
        (1, 30, 30.0, "terminated"),
    ]
    first, before = store.episode_span(RUN, 7)
    assert first == 210 and 240 <= before <= 300
    running, end = store.episode_span(RUN, STEPS // 30)
    assert running <= 1980 and end == STEPS


@pytest.mark.parametrize("chunked", [True, False], ids=["in chunks of their own", "in one chunk"])
@pytest.mark.parametrize("ends", [True, False])
def test_an_end_that_was_undone_does_not_stand(chunked: bool, ends: bool, store: StepStore, tmp_path: Path) -> None:
    """What is read of the episode is the line that was played on, whether it came to another end or not."""
    recorder = StepRecorder(tmp_path / "outbox", seal_seconds=3600.0)
    lane, other = recorder.lane("a"), recorder.lane("b")
    other.append(0.0, 0, 1.0)  # another episode goes on beside it all the time
    lane.begin_episode(1)
    for number in range(5):
        lane.append(float(number), 0, 1.0, number == 4)
    other.append(0.0, 0, 1.0)
    if chunked:
        recorder.flush()
    lane.undo(2, 3.0)
    for number in range(3):
        lane.append(float(number), 7, 10.0, ends and number == 2, extras={"note": 1})
    other.append(0.0, 0, 1.0)
    recorder.close()
    ingest(store, 1, journalled(tmp_path / "outbox"))
    told = [(row.episode, row.length, row.outcome) for _, row in store.episodes(RUN)]
    assert told == ([(1, 6, "terminated")] if ends else [])
    found = [step for step in steps_of(store, *store.episode_span(RUN, 1)) if step.episode == 1]
    assert [step.action for step in found] == [0] * 5 + [7] * 3


@pytest.mark.parametrize("seed", ["abc", "1_000", "9" * 5000, str(2**70), "-5"])
def test_a_seed_that_is_no_number_is_no_seed(seed: str, store: StepStore) -> None:
    record = made_chunk(0, 3, episodes=[ev.EndedEpisode(0, "", 3, 1.0, "terminated", seed, 0)])
    ingest(store, 1, [ev.encode(record)])
    expected = {str(2**70): 2**70, "-5": -5}
    assert [episode.seed for _, episode in store.episodes(RUN)] == [expected.get(seed)]


def test_damaged_chunks_at_the_end_are_counted_as_they_say_until_another_one_shows_better(
    store: StepStore, lines: list[bytes]
) -> None:
    def totals() -> tuple[int, int]:
        return store.totals(RUN).steps, store.totals(RUN).damaged

    ingest(store, 1, [*lines[:5], changed(lines[5], crc=1)])
    assert totals() == (600, 100)
    ingest(store, 7, [changed(lines[6], crc=1)])
    assert totals() == (700, 200)
    ingest(store, 8, [changed(lines[7], crc=1, count=2**40), changed(lines[8], crc=1, first_step=2**40)])
    assert totals() == (700, 200), "what cannot be is not believed"
    ingest(store, 10, [lines[9]])
    assert totals() == (1000, 400)
    assert stored_steps(store) == [*range(500), *range(900, 1000)]


def test_a_store_of_the_version_before_is_read_and_goes_on(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "steps.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    for migration in MIGRATIONS[:2]:
        migration(connection)
    connection.execute("PRAGMA user_version = 2")
    connection.execute("INSERT INTO run_keys VALUES (1, ?)", (RUN,))
    connection.execute("INSERT INTO cursors VALUES (1, ?, 1)", (STREAM,))
    connection.execute("INSERT INTO totals VALUES (1, 100, 0, 0, 0)")
    record = ev.decode(lines[0])
    assert isinstance(record, ev.StepChunk)
    connection.execute("INSERT INTO chunks VALUES (1, 1, 0, 100, ?, ?, NULL)", (record.last_episode, lines[0]))
    for row, ended in enumerate(record.episodes, 7):  # with holes, as undone ends left them
        values = (row, ended.episode, ended.length, ended.total_reward, ended.outcome)
        connection.execute("INSERT INTO episodes VALUES (1, ?, ?, '', ?, ?, ?, NULL, 0, 99, 1.0)", values)
    connection.commit()
    connection.close()
    with closing(StepStore(path)) as store:
        ingest(store, 1, lines)
        assert stored_steps(store) == list(range(STEPS)) and store.totals(RUN).steps == STEPS
        rows = [row for row, _ in store.episodes(RUN)]
        assert rows == list(range(7, 7 + STEPS // 30))


def test_retention_keeps_the_newest_steps(store: StepStore, lines: list[bytes]) -> None:
    ingest(store, 1, lines)
    while store.trim(RUN, keep_steps=250).result(PATIENCE):
        pass
    assert stored_steps(store) == list(range(1700, 2000))
    assert store.totals(RUN).trimmed == 1700
    ingest(store, 1, lines)
    assert stored_steps(store) == list(range(1700, 2000))


def test_a_forgotten_run_leaves_nothing_and_takes_nothing_of_others(store: StepStore, lines: list[bytes]) -> None:
    for run in (RUN, "another"):
        ingest(store, 1, lines, run=run)
    while store.forget(RUN).result(PATIENCE):
        pass
    assert stored_steps(store) == [] and store.acked(RUN, STREAM) == 0 and store.episodes(RUN) == []
    assert stored_steps(store, "another") == list(range(STEPS))


def test_a_small_record_that_claims_a_huge_body_is_not_unpacked(lines: list[bytes]) -> None:
    record = ev.decode(lines[0])
    assert isinstance(record, ev.StepChunk)
    record.heap_bytes = 2**40
    record.raw_bytes = record.schema.width * record.count + record.heap_bytes
    with pytest.raises(ChunkError, match="does not fit"):
        OpenedChunk(record)


def test_a_body_that_would_grow_beyond_what_its_record_announces_is_not_unpacked() -> None:
    record = made_chunk(0, 3)
    record.body = zstandard.ZstdCompressor().compress(bytes(100_000_000))
    record.crc = checksum(0, 3, record.body)
    tracemalloc.start()
    try:
        with pytest.raises(ChunkError, match="100,000,000 bytes where 93 were announced"):
            OpenedChunk(record)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
