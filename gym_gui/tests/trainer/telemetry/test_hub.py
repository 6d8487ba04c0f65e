"""The hub: one door for records; what a dead worker left arrives as if it had been sent."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.logging_config.structured import write_structured_log
from gym_gui.services.trainer.errors import RefusedError, StorageFullError, WorldError
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.hub import LivePage, TelemetryHub
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.support.made_chunks import SCHEMA, made_chunk
from mosaic_host.agent import open_chunk_line, outbox_part
from mosaic_host.executor import OutboxPart
from mosaic_host.wire import PipeError
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import OutboxPlace, OutboxReader, OutboxWriter, discard_through, oldest_seq, streams
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.columns import Column, StepSchema
from mosaic_protocol.steps.open_chunk import STREAM, ChunkPlace, Layout, OpenChunk, path_of
from mosaic_worker.recording.step_recorder import StepRecorder

RUN = "run"
PATIENCE = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TelemetryStore]:
    with closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as opened:
        yield opened


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[StepStore]:
    with closing(StepStore(tmp_path / "steps.sqlite")) as opened:
        yield opened


@pytest.fixture
def hub(store: TelemetryStore, steps: StepStore) -> Iterator[TelemetryHub]:
    with closing(TelemetryHub(store, steps)) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "daemon.jsonl"
    handler = write_structured_log(path)
    yield path
    logging.getLogger("gym_gui").removeHandler(handler)
    handler.close()


class Journals:
    """The outbox of every run is one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def streams(self, run_id: str) -> list[str]:
        return streams(self._folder)

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        return outbox_part(self._folder, stream, after_seq, place)

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        return open_chunk_line(self._folder, stream)


class FailingJournals(Journals):
    """Cannot do one thing now."""

    def __init__(self, folder: Path, missing: str, error: Exception) -> None:
        super().__init__(folder)
        self._error = error
        setattr(self, missing, self._fail)

    async def _fail(self, *_: object) -> None:
        raise self._error


def entries(log: Path, code: str) -> list[dict[str, object]]:
    return [entry for entry in map(json.loads, log.read_text().splitlines()) if entry["code"] == code]


def journal(outbox: Path, stream: str = "worker", *, records: int = 8, segment_bytes: int = 200) -> None:
    """A worker's journal of several segments, with a word at its beginning and at its end."""
    writer = OutboxWriter(outbox, stream, segment_bytes=segment_bytes)
    writer.append(ev.RunLifecycleEvent(event=ev.RUN_STARTED))
    for step in range(1, records - 1):
        writer.append(ev.MetricRow(step=step, values={"loss": float(step)}))
    writer.append(ev.RunLifecycleEvent(event=ev.RUN_COMPLETED, sentence="done"))
    writer.close()


def lines_of(outbox: Path, stream: str = "worker") -> list[bytes]:
    reader = OutboxReader(outbox, stream)
    with closing(reader):
        return reader.read(1000)


def contents(store: TelemetryStore) -> list[list[tuple[int, bytes]]]:
    return [store.records(RUN, kind, 0) for kind in ("lifecycle", "metric", "step", "episode", "artifact")]


class Listener:
    """Hears lifecycle records and looks whether they are stored by then."""

    def __init__(self, store: TelemetryStore) -> None:
        self.heard: list[tuple[str, str, str]] = []
        self._store = store
        self._news = asyncio.Event()

    async def __call__(self, run_id: str, stream: str, record: ev.RunLifecycleEvent) -> None:
        assert self._store.acked(run_id, stream) >= record.seq, "heard before it was stored"
        self.heard.append((run_id, stream, record.event))
        self._news.set()

    async def wait(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.heard) < number:
                self._news.clear()
                await self._news.wait()


async def test_a_published_word_is_stored_then_heard_once(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path
) -> None:
    listener = Listener(store)
    hub.listen(listener)
    journal(tmp_path / "outbox")
    batch = Batch(RUN, "worker", 1, lines_of(tmp_path / "outbox"))
    assert [await hub.publish(batch), await hub.publish(batch)] == [8, 8]
    assert listener.heard == [(RUN, "worker", ev.RUN_STARTED), (RUN, "worker", ev.RUN_COMPLETED)]


async def test_a_drained_outbox_leaves_what_publishing_would_have_left(tmp_path: Path, steps: StepStore) -> None:
    outbox = tmp_path / "outbox"
    for stream in ("worker", "script"):
        journal(outbox, stream)
    with (
        closing(TelemetryStore(tmp_path / "a.sqlite")) as published,
        closing(TelemetryStore(tmp_path / "b.sqlite")) as drained,
    ):
        by_wire, by_disk = TelemetryHub(published, steps), TelemetryHub(drained, steps)
        wire, disk = Listener(published), Listener(drained)
        by_wire.listen(wire)
        by_disk.listen(disk)
        for stream in ("script", "worker"):
            await by_wire.publish(Batch(RUN, stream, 1, lines_of(outbox, stream)))
        await by_disk.drain(RUN, Journals(outbox))
        assert contents(drained) == contents(published)
        assert disk.heard == wire.heard


@pytest.mark.parametrize("sent", range(9))
async def test_draining_goes_on_where_publishing_stopped(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, sent: int
) -> None:
    listener = Listener(store)
    hub.listen(listener)
    journal(tmp_path / "outbox")
    lines = lines_of(tmp_path / "outbox")
    await hub.publish(Batch(RUN, "worker", 1, lines[:sent]))
    for _ in range(2):
        await hub.drain(RUN, Journals(tmp_path / "outbox"))
    assert store.acked(RUN, "worker") == 8
    assert [line for _, line in store.records(RUN, "metric", 0)] == lines[1:-1]
    assert [event for _, _, event in listener.heard] == [ev.RUN_STARTED, ev.RUN_COMPLETED]


async def test_a_run_without_an_outbox_has_nothing_to_drain(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path
) -> None:
    await hub.drain(RUN, Journals(tmp_path / "nowhere"))
    assert contents(store) == [[], [], [], [], []]


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"\x00" * (len(line) - 1) + b"\n",
        lambda line: line[: len(line) // 2] + b"\n",
        lambda line: b"",
        lambda line: line + line,
        lambda line: b'{"kind":"unheard_of","seq":4}\n',
    ],
    ids=["zeroed", "torn", "lost", "doubled", "of another kind"],
)
async def test_a_damaged_journal_is_reported_and_the_rest_of_it_kept(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path, damage: object
) -> None:
    assert callable(damage)
    listener = Listener(store)
    hub.listen(listener)
    outbox = tmp_path / "outbox"
    journal(outbox, segment_bytes=10**6)
    journal(outbox, "other")
    (segment,) = outbox.glob("worker-*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    before = b"".join([*lines[:3], damage(lines[3]), *lines[4:]])
    segment.write_bytes(before)
    await hub.drain(RUN, Journals(outbox))
    steps = sorted(record.step for record in _metrics(store, "worker"))
    assert [step for step in steps if step != 3] == [1, 2, 4, 5, 6]
    assert len(steps) == len(set(steps))
    assert ("run", "worker", ev.RUN_COMPLETED) in listener.heard, "the last word decides how the run ended"
    assert store.acked(RUN, "other") == 8
    assert segment.read_bytes() == before
    (told,) = entries(log, "LOG603")
    assert (told["run_id"], told["stream"]) == (RUN, "worker")


def _metrics(store: TelemetryStore, stream: str) -> list[ev.MetricRow]:
    wanted = {row[0] for row in store._large.rows("SELECT row FROM metric_lines WHERE stream = ?", (stream,))}
    found = [ev.decode(line) for row, line in store.records(RUN, "metric", 0) if row in wanted]
    return [record for record in found if isinstance(record, ev.MetricRow)]


async def test_a_new_store_takes_what_the_journal_still_holds(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path
) -> None:
    """An earlier store acknowledged the beginning, and the worker discarded it."""
    listener = Listener(store)
    hub.listen(listener)
    outbox = tmp_path / "outbox"
    journal(outbox, records=40)
    discard_through(outbox, "worker", 20)
    oldest = oldest_seq(outbox, "worker")
    assert oldest > 1
    await hub.drain(RUN, Journals(outbox))
    assert store.acked(RUN, "worker") == 40
    assert [record.seq for record in _metrics(store, "worker")] == list(range(oldest, 40))
    assert listener.heard[-1] == (RUN, "worker", ev.RUN_COMPLETED)
    assert f"records 1 to {oldest - 1} were acknowledged by an earlier store" in str(entries(log, "LOG603"))


@pytest.mark.parametrize("damage", [b"no record\n", b""], ids=["one line more", "one line less"])
@pytest.mark.parametrize("sent", [0, 9])
async def test_damage_in_one_segment_costs_nothing_of_the_others(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, damage: bytes, sent: int
) -> None:
    listener = Listener(store)
    hub.listen(listener)
    outbox = tmp_path / "outbox"
    journal(outbox, records=40)
    await hub.publish(Batch(RUN, "worker", 1, lines_of(outbox)[:sent]))
    segments = sorted(outbox.glob("worker-*.jsonl"))
    assert len(segments) > 4
    first, *rest = segments[2].read_bytes().splitlines(keepends=True)
    segments[2].write_bytes(damage + b"".join([first, *rest] if damage else rest))
    number = ev.decode(first).seq
    lost = set() if damage or number <= sent else {number}
    await hub.drain(RUN, Journals(outbox))
    assert {record.seq for record in _metrics(store, "worker")} == set(range(2, 40)) - lost
    assert listener.heard[-1] == (RUN, "worker", ev.RUN_COMPLETED)


async def test_readers_of_large_curves_keep_no_run_from_its_end(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path
) -> None:
    journal(tmp_path / "outbox")
    enough = threading.Event()
    readers = [asyncio.create_task(hub.read(enough.wait)) for _ in range(50)]
    async with asyncio.timeout(PATIENCE):
        await hub.drain(RUN, Journals(tmp_path / "outbox"))
    assert store.acked(RUN, "worker") == 8
    enough.set()
    await asyncio.gather(*readers)


@pytest.mark.parametrize("missing", ["streams", "read_outbox"])
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        PipeError("the host agent hung up"),
        RuntimeError("can't start new thread"),
        MemoryError(),
        WorldError("it cannot be used now"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_shortage_and_a_host_out_of_reach_are_no_damage(
    hub: TelemetryHub, tmp_path: Path, missing: str, error: Exception
) -> None:
    journal(tmp_path / "outbox")
    with pytest.raises(type(error)):
        await hub.drain(RUN, FailingJournals(tmp_path / "outbox", missing, error))


async def test_a_journal_that_cannot_be_opened_does_not_keep_the_run_from_ending(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path
) -> None:
    outbox = tmp_path / "outbox"
    (outbox / "script-000000000001.jsonl").mkdir(parents=True)
    journal(outbox)
    await hub.drain(RUN, Journals(outbox))
    assert store.acked(RUN, "worker") == 8
    assert [entry["stream"] for entry in entries(log, "LOG603")] == ["script"]


def open_chunk(outbox: Path, schema: StepSchema, place: ChunkPlace, entry: bytes = b"") -> None:
    """What a worker left: one counted step of these columns."""
    left = OpenChunk(path_of(outbox, STREAM), Layout(schema, 4, 256), place)
    left.add_to_heap(entry)
    left.commit()
    left.close()


def open_chunk_without_columns(outbox: Path) -> None:
    schema = b'{"columns":[],"v":1}'
    data = bytearray(128) + schema
    data[:8] = b"MOSSTEP1"
    struct.pack_into("<QQQ", data, 96, 0, 0, len(schema))
    path_of(outbox, STREAM).write_bytes(data)


BAD_OPEN_CHUNKS: dict[str, Callable[[Path], None]] = {
    "no columns": open_chunk_without_columns,
    "other columns": lambda outbox: open_chunk(outbox, StepSchema((Column(("x",), "u1"),)), ChunkPlace(1, 0, 0)),
    "a newer version": lambda outbox: open_chunk(outbox, StepSchema(SCHEMA.columns, v=99), ChunkPlace(1, 0, 0)),
    "no end": lambda outbox: open_chunk(outbox, SCHEMA, ChunkPlace(1, 0, 0), heap.packed(0, chunks.END, 5)),
    "half an end": lambda outbox: open_chunk(outbox, SCHEMA, ChunkPlace(1, 0, 0), heap.packed(0, chunks.END, [1, ""])),
    "steps beyond all": lambda outbox: open_chunk(outbox, SCHEMA, ChunkPlace(1, 2**63 - 1, 0)),
    "numbers beyond 64 bits": lambda outbox: open_chunk(outbox, SCHEMA, ChunkPlace(2**64 - 1, 2**64 - 1, 2**64 - 1)),
}


@pytest.mark.parametrize("how", BAD_OPEN_CHUNKS)
async def test_an_open_chunk_that_no_recorder_wrote_is_damage_and_the_run_ends(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path, how: str
) -> None:
    outbox = tmp_path / "outbox"
    journal(outbox)
    OutboxWriter(outbox, STREAM).close()
    BAD_OPEN_CHUNKS[how](outbox)
    assert await hub.drain(RUN, Journals(outbox)) is None
    assert store.acked(RUN, "worker") == 8
    (told,) = entries(log, "LOG603")
    assert told["stream"] == STREAM and not entries(log, "LOG404"), "it is damage, and no bug"


async def test_records_in_a_stream_that_takes_others_are_damage_when_they_are_salvaged(
    hub: TelemetryHub, store: TelemetryStore, steps: StepStore, tmp_path: Path, log: Path
) -> None:
    outbox = tmp_path / "outbox"
    for stream in ("worker", STREAM):
        writer = OutboxWriter(outbox, stream)
        writer.append(made_chunk(0, 3))
        writer.append(ev.MetricRow(step=1, values={"loss": 1.0}))
        writer.append(ev.RunLifecycleEvent(event=ev.RUN_COMPLETED))
        writer.append(made_chunk(3, 2))
        writer.close()
    assert await hub.drain(RUN, Journals(outbox)) is None
    assert [store.acked(RUN, "worker"), steps.acked(RUN, STREAM)] == [4, 4]
    assert len(_metrics(store, "worker")) == 1 and [event.event for _, event in store.lifecycle(RUN)] == [
        "run_completed"
    ]
    assert steps.totals(RUN).steps == 5
    assert [(told["stream"], told["places"]) for told in entries(log, "LOG603")] == [(STREAM, 2), ("worker", 2)]


async def test_a_bug_met_in_the_list_of_streams_costs_what_they_hold_and_not_the_run(
    hub: TelemetryHub, tmp_path: Path, log: Path
) -> None:
    assert await hub.drain(RUN, FailingJournals(tmp_path, "streams", KeyError("nobody thought of this"))) is None
    assert len(entries(log, "LOG404")) == len(entries(log, "LOG603")) == 1


async def test_a_bug_met_in_one_stream_costs_its_rest_and_not_the_run(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path
) -> None:
    class Surprising(Journals):
        async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
            raise ZeroDivisionError("nobody thought of this")

    outbox = tmp_path / "outbox"
    journal(outbox)
    OutboxWriter(outbox, STREAM).close()
    assert await hub.drain(RUN, Surprising(outbox)) is None
    assert store.acked(RUN, "worker") == 8
    (bug,) = entries(log, "LOG404")
    assert (bug["run_id"], bug["stream"]) == (RUN, STREAM) and "ZeroDivisionError" in str(bug["traceback"])
    assert "nobody thought of this" in str(entries(log, "LOG603"))


async def test_a_bad_batch_is_refused_to_its_sender(hub: TelemetryHub, store: TelemetryStore) -> None:
    with pytest.raises(RefusedError, match="record 1"):
        await hub.publish(Batch(RUN, "worker", 1, [b"nonsense"]))
    assert store.acked(RUN, "worker") == 0


async def test_draining_waits_for_space(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal(tmp_path / "outbox")
    ingest, refused = store.ingest, 0

    def sometimes(batch: Batch) -> object:
        nonlocal refused
        future = ingest(batch)
        if refused < 1:
            refused += 1
            future = type(future)()
            future.set_exception(StorageFullError("no space left"))
        return future

    monkeypatch.setattr(store, "ingest", sometimes)
    await asyncio.wait_for(hub.drain(RUN, Journals(tmp_path / "outbox")), PATIENCE)
    assert store.acked(RUN, "worker") == 8
    assert len(entries(log, "LOG601")) == 1


async def test_a_sender_that_hangs_up_does_not_silence_what_it_said(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path
) -> None:
    listener = Listener(store)
    hub.listen(listener)
    journal(tmp_path / "outbox")
    sending = asyncio.ensure_future(hub.publish(Batch(RUN, "worker", 1, lines_of(tmp_path / "outbox"))))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await listener.wait(2)
    assert store.acked(RUN, "worker") == 8


async def test_a_watcher_wakes_when_something_was_stored(hub: TelemetryHub, tmp_path: Path) -> None:
    journal(tmp_path / "outbox")
    watching, other = hub.news(RUN), hub.news("another")
    await hub.publish(Batch(RUN, "worker", 1, lines_of(tmp_path / "outbox")))
    assert (watching.is_set(), other.is_set(), hub.news(RUN).is_set()) == (True, False, False)


def watched(hub: TelemetryHub, kind: str, credit: int, row: int = 0) -> list[LivePage]:
    """What a watcher of a run that is over is sent whose credits never run out."""
    pages: list[LivePage] = []
    while (page := hub.next_records(RUN, kind, row, credit)).count:
        pages.append(page)
        row = page.last_row
    return [*pages, hub.missing_end(RUN, kind, row)]


@pytest.mark.parametrize("credit", [1, 7, 4096])
@pytest.mark.parametrize("kept", [0, 150])
def test_a_live_watcher_is_sent_what_is_stored_and_hears_of_every_step_that_is_not(
    hub: TelemetryHub, steps: StepStore, credit: int, kept: int
) -> None:
    """Steps 0 to 599; chunks of twenty, of which some are damaged: the last ones, and more than a small credit."""
    made = [made_chunk(20 * number, 20, seq=number + 1) for number in range(30)]
    for number in (0, 7, 8, *range(12, 20), 28, 29):
        made[number].crc ^= 1
    steps.ingest(Batch(RUN, STREAM, 1, list(map(ev.encode, made)))).result(PATIENCE)
    while kept and steps.trim(RUN, kept).result(PATIENCE):
        pass
    pages = watched(hub, "step", credit)
    sent = [number for page in pages for number in range(page.first_row, page.last_row) if page.count]
    stored = [step for first, step, _ in steps.chunks_between(RUN, 0) for step in range(first, step)]
    assert sent == stored and len(stored) < 600
    assert all(page.count == page.last_row - page.first_row < credit + 20 for page in pages)
    assert sum(page.count + page.missed for page in pages) == 600


def undone_episodes(outbox: Path) -> list[bytes]:
    """Three episodes, the end of each of which was undone four times, in chunks of their own."""
    recorder = StepRecorder(outbox, seal_seconds=3600.0)
    lane = recorder.lane()
    for _ in range(3):
        lane.begin_episode(1)
        lane.append(0.0, 0, 1.0)
        lane.append(0.0, 0, 1.0, True)
        recorder.flush()
        for _ in range(4):
            lane.undo(1, 1.0)
            lane.append(0.0, 1, 1.0, True)
            recorder.flush()
    recorder.close()
    return lines_of(outbox, STREAM)


async def test_episodes_are_counted_one_by_one_however_often_their_ends_were_undone(
    hub: TelemetryHub, tmp_path: Path
) -> None:
    lines = undone_episodes(tmp_path / "outbox")
    pages = [LivePage(0, 0)]
    for number, line in enumerate(lines, 1):
        await hub.publish(Batch(RUN, STREAM, number, [line]))
        pages.append(hub.next_records(RUN, "episode", pages[-1].last_row, 100))
    assert [page.count for page in pages[1:]] == [1] * 15, "who watches hears every end"
    late = hub.newest_records(RUN, "episode", 0)
    assert (late.count, late.missed) == (1, 2)
    tails = [hub.row_before_last(RUN, "episode", count) for count in (1, 2, 3, 9)]
    assert [hub.next_records(RUN, "episode", row, 9).count for row in tails] == [1, 2, 3, 3]


async def test_one_cursor_reaches_every_episode_of_a_worker_that_sends_summaries_and_steps(
    hub: TelemetryHub, tmp_path: Path
) -> None:
    said = [ev.EpisodeSummary(seq=n + 1, episode=n, length=1, total_reward=1.0) for n in range(5)]
    await hub.publish(Batch(RUN, "worker", 1, list(map(ev.encode, said))))
    before = hub.next_records(RUN, "episode", 0, 3)
    await hub.publish(Batch(RUN, STREAM, 1, undone_episodes(tmp_path / "outbox")))
    rows = [before.last_row]
    while found := hub.records(RUN, "episode", rows[-1]):
        rows += [row for row, _ in found]
    assert before.count == 3 and len(rows) == 1 + 2 + 3 and rows == sorted(set(rows))
    late = hub.newest_records(RUN, "episode", 0)
    assert (late.count, late.missed) == (1, 7)
    assert [hub.row_before_last(RUN, "episode", count) for count in (4, 7, 99)] == [4, 1, 0]


async def test_a_workers_log_line_appears_in_the_daemons_log_under_its_code(hub: TelemetryHub, log: Path) -> None:
    said = [
        ev.LogRecord(code="LOG803", message="script up", fields={"pid": 7}, seq=1),
        ev.LogRecord(code="MINE-1", message="unknown code", level="ERROR", seq=2),
    ]
    await hub.publish(Batch(RUN, "worker", 1, [ev.encode(record) for record in said]))
    (known,) = entries(log, "LOG803")
    assert (known["run_id"], known["said"], known["detail"], known["level"]) == (RUN, "script up", {"pid": 7}, "INFO")
    (unknown,) = entries(log, "LOG802")
    assert (unknown["worker_code"], unknown["level"]) == ("MINE-1", "ERROR")
