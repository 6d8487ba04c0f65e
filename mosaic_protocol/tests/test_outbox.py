from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol import events, outbox
from mosaic_protocol.outbox import OutboxReader, OutboxWriter


def record(text: str = "x") -> events.RunLifecycleEvent:
    return events.RunLifecycleEvent(event="heartbeat", sentence=text)


def sentences(lines: list[bytes]) -> list[str]:
    decoded = [events.decode(line) for line in lines]
    return [item.sentence for item in decoded if isinstance(item, events.RunLifecycleEvent)]


def fill(directory: Path, texts: list[str], *, segment_bytes: int = outbox.SEGMENT_BYTES) -> None:
    writer = OutboxWriter(directory, "script", segment_bytes=segment_bytes)
    for text in texts:
        writer.append(record(text))
    writer.close()


def read_all(directory: Path, *, after_seq: int = 0) -> list[bytes]:
    reader = OutboxReader(directory, "script", after_seq=after_seq)
    try:
        return reader.read(10**9)
    finally:
        reader.close()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("script-*.jsonl"))


def tear(directory: Path, torn: bytes) -> None:
    """Leave behind what a writer leaves that died in the middle of a line."""
    with segments(directory)[-1].open("ab") as file:
        file.write(torn)


def test_records_get_numbers_without_gaps_and_come_back_in_order(tmp_path: Path) -> None:
    writer = OutboxWriter(tmp_path, "script")
    assert [writer.append(record(text)) for text in "abc"] == [1, 2, 3]
    assert writer.last_seq == 3 and writer.held == 0
    lines = read_all(tmp_path)
    writer.close()
    assert sentences(lines) == ["a", "b", "c"]
    assert [events.decode(line).seq for line in lines] == [1, 2, 3]
    assert all(events.decode(line).t > 0 for line in lines)


def test_a_record_can_be_read_as_soon_as_append_returns(tmp_path: Path) -> None:
    writer = OutboxWriter(tmp_path, "script")
    reader = OutboxReader(tmp_path, "script")
    for text in "abc":
        writer.append(record(text))
        assert sentences(reader.read()) == [text] and reader.read() == []
    writer.close()
    reader.close()


def test_a_stream_goes_on_where_it_ended(tmp_path: Path) -> None:
    fill(tmp_path, ["a", "b"])
    fill(tmp_path, ["c"])
    assert [(events.decode(line).seq, text) for line, text in zip(read_all(tmp_path), "abc", strict=True)] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]


@pytest.mark.parametrize(
    "torn", [b"{", b'{"kind":"lifecycle","event":"hea', b"\0\0\0", b'{"kind":"lifecycle","event":"x"}']
)
def test_a_torn_last_line_is_not_shown_and_is_cut_off_when_writing_goes_on(tmp_path: Path, torn: bytes) -> None:
    fill(tmp_path, ["a", "b"])
    tear(tmp_path, torn)
    assert sentences(read_all(tmp_path)) == ["a", "b"]
    fill(tmp_path, ["c"])
    assert sentences(read_all(tmp_path)) == ["a", "b", "c"]
    assert [events.decode(line).seq for line in read_all(tmp_path)] == [1, 2, 3]


def test_a_reader_that_saw_a_torn_line_gets_the_one_that_replaced_it(tmp_path: Path) -> None:
    fill(tmp_path, ["a"])
    tear(tmp_path, b'{"kind":"lifecycle","event":"heartbeat","sentence":"torn')
    reader = OutboxReader(tmp_path, "script")
    assert sentences(reader.read()) == ["a"]
    fill(tmp_path, ["another text, longer than the torn one by far", "c"])
    assert sentences(reader.read()) == ["another text, longer than the torn one by far", "c"]
    reader.close()


def test_a_reader_that_is_behind_keeps_nothing_of_a_torn_line_it_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, ["a", "b"])
    tear(tmp_path, b'{"kind":"lifecycle","event":"heartbeat","sentence":"torn')
    reader = OutboxReader(tmp_path, "script")
    assert sentences(reader.read(1)) == ["a"]
    fill(tmp_path, ["c", "d"])
    assert sentences(reader.read()) == ["b", "c", "d"]
    reader.close()


def test_a_line_may_be_longer_than_any_block_that_is_read(tmp_path: Path) -> None:
    texts = ["a", "x" * 1_000_000, "b", "y" * 131_072, "c"]
    fill(tmp_path, texts)
    assert sentences(read_all(tmp_path)) == texts


def test_a_journal_is_split_into_segments_named_by_their_first_record(tmp_path: Path) -> None:
    fill(tmp_path, [str(number) for number in range(40)], segment_bytes=400)
    names = [path.name for path in segments(tmp_path)]
    assert len(names) > 3 and names[0] == "script-000000000001.jsonl"
    for path in segments(tmp_path):
        first = events.decode(path.read_bytes().splitlines()[0])
        assert path.name == f"script-{first.seq:012d}.jsonl"
    assert sentences(read_all(tmp_path)) == [str(number) for number in range(40)]


@pytest.mark.parametrize("after_seq", [0, 1, 17, 39, 40])
def test_reading_can_begin_after_any_record(tmp_path: Path, after_seq: int) -> None:
    fill(tmp_path, [str(number) for number in range(1, 41)], segment_bytes=400)
    assert sentences(read_all(tmp_path, after_seq=after_seq)) == [str(number) for number in range(after_seq + 1, 41)]


def test_an_empty_newest_segment_keeps_the_numbering(tmp_path: Path) -> None:
    fill(tmp_path, ["a", "b"])
    (tmp_path / "script-000000000003.jsonl").touch()  # the writer died between opening a segment and its first line
    fill(tmp_path, ["c"])
    assert [events.decode(line).seq for line in read_all(tmp_path)] == [1, 2, 3]


def test_two_readers_do_not_disturb_each_other(tmp_path: Path) -> None:
    fill(tmp_path, [str(number) for number in range(30)], segment_bytes=400)
    fast, slow = OutboxReader(tmp_path, "script"), OutboxReader(tmp_path, "script")
    seen_fast, seen_slow = [], []
    while lines := fast.read(7):
        seen_fast += sentences(lines)
        seen_slow += sentences(slow.read(2))
    while lines := slow.read(2):
        seen_slow += sentences(lines)
    fast.close()
    slow.close()
    assert seen_fast == seen_slow == [str(number) for number in range(30)]


def test_rewinding_reads_records_again(tmp_path: Path) -> None:
    fill(tmp_path, list("abcdef"), segment_bytes=150)
    reader = OutboxReader(tmp_path, "script")
    reader.read()
    reader.rewind(2)
    assert reader.next_seq == 3 and sentences(reader.read()) == ["c", "d", "e", "f"]
    reader.close()


@pytest.mark.parametrize("salvage", [False, True])
def test_a_reader_goes_on_where_another_one_was(tmp_path: Path, salvage: bool) -> None:
    texts = [str(number) for number in range(20)]
    fill(tmp_path, texts, segment_bytes=300)
    assert len(segments(tmp_path)) > 3
    reader = OutboxReader(tmp_path, "script", salvage=salvage)
    assert reader.place is None
    lines = reader.read(2)
    while part := _read_on(reader, salvage):
        lines += part
    reader.close()
    assert sentences(lines) == texts


def _read_on(reader: OutboxReader, salvage: bool) -> list[bytes]:
    """One line by a reader that was just made, which the first one then follows."""
    assert reader.place is not None
    later = OutboxReader.at(reader.directory, reader.stream, reader.place, salvage=salvage)
    assert later.next_seq == reader.next_seq
    lines = later.read(1)
    later.close()
    assert reader.read(1) == lines
    return lines


def test_a_place_cannot_lead_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a stream name"):
        OutboxReader.at(tmp_path, "../script", outbox.OutboxPlace(1, 0, 1))


def test_streams_of_one_directory_are_apart(tmp_path: Path) -> None:
    for stream in ("supervisor", "script", "script_2"):
        writer = OutboxWriter(tmp_path, stream)
        writer.append(record(stream))
        writer.close()
    (tmp_path / "notes.txt").touch()
    assert outbox.streams(tmp_path) == ["script", "script_2", "supervisor"]
    assert sentences(read_all(tmp_path)) == ["script"]
    assert outbox.streams(tmp_path / "absent") == []


@pytest.mark.parametrize("stream", ["", "../x", "a/b", "A", "1a", "a-b", "a\n", "x" * 32])
def test_a_stream_name_cannot_lead_elsewhere(tmp_path: Path, stream: str) -> None:
    with pytest.raises(ValueError, match="is not a stream name"):
        OutboxWriter(tmp_path / "outbox", stream)
    assert not (tmp_path / "outbox").exists()


def test_only_whole_segments_of_acknowledged_records_are_discarded(tmp_path: Path) -> None:
    fill(tmp_path, [str(number) for number in range(1, 41)], segment_bytes=400)
    before = segments(tmp_path)
    second_first = int(before[1].stem.rpartition("-")[2])
    assert outbox.discard_through(tmp_path, "script", second_first - 2) == 0
    assert outbox.discard_through(tmp_path, "script", second_first - 1) == 1
    assert segments(tmp_path) == before[1:]
    assert sentences(read_all(tmp_path, after_seq=second_first - 1))[0] == str(second_first)


def test_the_newest_segment_stays_so_that_numbering_goes_on(tmp_path: Path) -> None:
    fill(tmp_path, [str(number) for number in range(1, 41)], segment_bytes=400)
    outbox.discard_through(tmp_path, "script", 40)
    assert len(segments(tmp_path)) == 1
    fill(tmp_path, ["next"])
    assert sentences(read_all(tmp_path, after_seq=40)) == ["next"]


def test_a_reader_goes_on_through_a_segment_that_is_discarded_under_it(tmp_path: Path) -> None:
    fill(tmp_path, [str(number) for number in range(40)], segment_bytes=400)
    reader = OutboxReader(tmp_path, "script")
    seen = sentences(reader.read(1))
    outbox.discard_through(tmp_path, "script", int(segments(tmp_path)[1].stem.rpartition("-")[2]) - 1)
    seen += sentences(reader.read(100))
    reader.close()
    assert seen == [str(number) for number in range(40)]


def test_threads_of_one_process_may_share_a_writer(tmp_path: Path) -> None:
    writer = OutboxWriter(tmp_path, "script", segment_bytes=2000)
    threads = [
        threading.Thread(target=lambda name=name: [writer.append(record(f"{name}{n}")) for n in range(100)])
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    lines = read_all(tmp_path)
    assert [events.decode(line).seq for line in lines] == list(range(1, 401))
    assert set(sentences(lines)) == {f"{name}{n}" for name in "abcd" for n in range(100)}


def test_a_record_that_cannot_be_encoded_leaves_no_gap(tmp_path: Path) -> None:
    writer = OutboxWriter(tmp_path, "script")
    writer.append(record("a"))
    with pytest.raises(TypeError):
        writer.append(events.RunLifecycleEvent(event="x", detail={"a": object()}))
    assert writer.append(record("b")) == 2
    writer.close()
    assert sentences(read_all(tmp_path)) == ["a", "b"]


def test_a_segment_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "script-000000000001.jsonl")
    with pytest.raises(OSError, match="it is a named pipe, not a regular file"):
        read_all(tmp_path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    with (tmp_path / "script-000000000001.jsonl").open("wb") as file:
        file.truncate(10**13)  # of holes
    with pytest.raises(OSError, match="it holds a line of more than"):
        read_all(tmp_path)


def test_a_torn_line_is_cut_off_before_the_next_one_also_where_that_fails_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes half a line and then refuses to cut it off, as one with errors does."""
    writer = OutboxWriter(tmp_path, "script")
    writer.append(record("a"))
    plain = writer._file

    class Torn:
        def write(self, line: bytes) -> int:
            plain.write(line[:5])
            raise OSError(errno.EIO, "Input/output error")

        def __getattr__(self, name: str) -> Any:
            return getattr(plain, name)

    def refuse(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(writer, "_file", Torn())
        broken.setattr(os, "ftruncate", refuse)
        writer.append(record("b"))
        assert writer.held == 1
    writer.append(record("c"))
    writer.close()
    assert sentences(read_all(tmp_path)) == ["a", "b", "c"]


def test_a_folder_that_is_away_for_a_moment_ends_no_writer(tmp_path: Path) -> None:
    """A volume may be mounted again; what was said meanwhile waits in memory."""
    folder = tmp_path / "outbox"
    folder.mkdir()
    writer = OutboxWriter(folder, "script", segment_bytes=1)
    writer.append(record("a"))
    folder.rename(tmp_path / "away")
    for text in "bc":
        writer.append(record(text))
    assert writer.held == 2
    (tmp_path / "away").rename(folder)
    assert writer.flush() and writer.held == 0
    writer.close()
    assert sentences(read_all(folder)) == ["a", "b", "c"]
