"""The hub: one door for records; what a dead worker left arrives as if it had been sent."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.logging_config.structured import write_structured_log
from gym_gui.services.trainer import hub as hub_module
from gym_gui.services.trainer.errors import RefusedError, StorageFullError
from gym_gui.services.trainer.hub import TelemetryHub
from gym_gui.services.trainer.store import Batch, TelemetryStore
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import OutboxReader, OutboxWriter, discard_through, oldest_seq

RUN = "run"
PATIENCE = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TelemetryStore]:
    with closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as opened:
        yield opened


@pytest.fixture
def hub(store: TelemetryStore) -> Iterator[TelemetryHub]:
    with closing(TelemetryHub(store)) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "daemon.jsonl"
    handler = write_structured_log(path)
    yield path
    logging.getLogger("gym_gui").removeHandler(handler)
    handler.close()


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


async def test_a_drained_outbox_leaves_what_publishing_would_have_left(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    for stream in ("worker", "script"):
        journal(outbox, stream)
    with (
        closing(TelemetryStore(tmp_path / "a.sqlite")) as published,
        closing(TelemetryStore(tmp_path / "b.sqlite")) as drained,
    ):
        by_wire, by_disk = TelemetryHub(published), TelemetryHub(drained)
        wire, disk = Listener(published), Listener(drained)
        by_wire.listen(wire)
        by_disk.listen(disk)
        for stream in ("script", "worker"):
            await by_wire.publish(Batch(RUN, stream, 1, lines_of(outbox, stream)))
        await by_disk.drain(RUN, outbox)
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
        await hub.drain(RUN, tmp_path / "outbox")
    assert store.acked(RUN, "worker") == 8
    assert [line for _, line in store.records(RUN, "metric", 0)] == lines[1:-1]
    assert [event for _, _, event in listener.heard] == [ev.RUN_STARTED, ev.RUN_COMPLETED]


async def test_a_run_without_an_outbox_has_nothing_to_drain(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path
) -> None:
    await hub.drain(RUN, tmp_path / "nowhere")
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
async def test_a_damaged_journal_is_told_and_the_rest_of_it_kept(
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
    await hub.drain(RUN, outbox)
    steps = sorted(record.step for record in _metrics(store, "worker"))
    assert [step for step in steps if step != 3] == [1, 2, 4, 5, 6]
    assert len(steps) == len(set(steps))
    assert ("run", "worker", ev.RUN_COMPLETED) in listener.heard, "the last word decides how the run ended"
    assert store.acked(RUN, "other") == 8
    assert segment.read_bytes() == before
    (told,) = entries(log, "LOG603")
    assert (told["run_id"], told["stream"]) == (RUN, "worker")


def _metrics(store: TelemetryStore, stream: str) -> list[ev.MetricRow]:
    rows = store._large.rows("SELECT line FROM records WHERE kind = 'metric' AND stream = ?", (stream,))
    return [record for row in rows if isinstance(record := ev.decode(bytes(row[0])), ev.MetricRow)]


async def test_a_store_begun_anew_takes_what_the_journal_still_holds(
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
    await hub.drain(RUN, outbox)
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
    await hub.drain(RUN, outbox)
    assert {record.seq for record in _metrics(store, "worker")} == set(range(2, 40)) - lost
    assert listener.heard[-1] == (RUN, "worker", ev.RUN_COMPLETED)


async def test_readers_of_large_curves_keep_no_run_from_its_end(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path
) -> None:
    journal(tmp_path / "outbox")
    enough = threading.Event()
    readers = [asyncio.create_task(hub.read(enough.wait)) for _ in range(50)]
    async with asyncio.timeout(PATIENCE):
        await hub.drain(RUN, tmp_path / "outbox")
    assert store.acked(RUN, "worker") == 8
    enough.set()
    await asyncio.gather(*readers)


async def test_a_shortage_is_no_damage(hub: TelemetryHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal(tmp_path / "outbox")

    def short(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    for name in ("streams", "OutboxReader"):
        with monkeypatch.context() as machine:
            machine.setattr(hub_module, name, short)
            with pytest.raises(OSError, match="Too many"):
                await hub.drain(RUN, tmp_path / "outbox")


async def test_a_journal_that_cannot_be_opened_does_not_keep_the_run_from_ending(
    hub: TelemetryHub, store: TelemetryStore, tmp_path: Path, log: Path
) -> None:
    outbox = tmp_path / "outbox"
    (outbox / "script-000000000001.jsonl").mkdir(parents=True)
    journal(outbox)
    await hub.drain(RUN, outbox)
    assert store.acked(RUN, "worker") == 8
    assert [entry["stream"] for entry in entries(log, "LOG603")] == ["script"]


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
    await asyncio.wait_for(hub.drain(RUN, tmp_path / "outbox"), PATIENCE)
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
    watching = asyncio.ensure_future(hub.news(RUN, PATIENCE))
    other = asyncio.ensure_future(hub.news("another", PATIENCE))
    await asyncio.sleep(0)
    await hub.publish(Batch(RUN, "worker", 1, lines_of(tmp_path / "outbox")))
    await asyncio.wait_for(watching, PATIENCE)
    assert not other.done()
    other.cancel()


async def test_a_watcher_that_hears_nothing_goes_on_after_its_timeout(hub: TelemetryHub) -> None:
    await asyncio.wait_for(hub.news(RUN, 0.01), PATIENCE)


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
