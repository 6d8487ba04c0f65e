"""Event files: what TensorBoard's own writers put there comes back, as they grow, and nothing harms the reader."""

from __future__ import annotations

import io
import math
import os
import resource
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2
from tensorboard.plugins.hparams import summary_v2 as hp

from gym_gui.services.scalars import event_reader, events
from gym_gui.services.scalars.crc32c import checksums, crc32c, masked
from gym_gui.services.scalars.event_reader import EventFileError, EventFileReader, event_files, log_folders
from gym_gui.services.scalars.event_writer import EventFile
from gym_gui.tests.support.made_logs import NAME, event, framed, simple, tensor, written

Point = tuple[str, int, float, float]


def points(reader: EventFileReader) -> list[Point]:
    found = reader.read_all().points
    return [
        (reader.tags[tag], step, value, when)
        for tag, step, value, when in zip(
            found.tag.tolist(), found.steps.tolist(), found.values.tolist(), found.wall_times.tolist(), strict=True
        )
    ]


# ---- checksums ---------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.binary(max_size=300) | st.binary(min_size=1, max_size=4), min_size=1, max_size=20), st.integers(0, 9)
)
def test_many_checksums_at_once_are_those_of_one_by_one(parts: list[bytes], before: int) -> None:
    data = b"x" * before + b"".join(parts)
    lengths = np.array([len(part) for part in parts], np.int64)
    starts = before + np.cumsum(lengths) - lengths
    found = checksums(np.frombuffer(data, np.uint8), starts, lengths)
    assert found.tolist() == [masked(crc32c(part)) for part in parts]


def test_the_checksum_of_a_long_record_is_joined_from_its_blocks() -> None:
    data = bytes(range(256)) * 2000 + b"end"
    found = checksums(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))
    assert found.tolist() == [masked(crc32c(data))]


# ---- scalars -----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "charts/ü", "a much longer tag"]),
            st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300),
            st.floats(width=32, allow_nan=False),
            st.floats(0, 1e10),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_scalars_of_both_styles_come_back_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, logged: list[tuple[str, int, float, float, bool]]
) -> None:
    parts = [
        event(
            step,
            when,
            tensor(f"new/{tag}", "scalars", dtype=1, float_val=[value]) if is_new else simple(tag, value),
        )
        for tag, step, value, when, is_new in logged
    ]
    file = written(tmp_path_factory.mktemp("events"), *parts)
    wanted = [(f"new/{tag}" if is_new else tag, step, value, when) for tag, step, value, when, is_new in logged]
    reader = EventFileReader(file)
    assert points(reader) == wanted
    assert (reader.damaged, reader.ended, reader.is_half_written) == (0, "", False)


@pytest.mark.parametrize(
    ("content", "number"),
    [
        ({"dtype": 1, "float_val": [0.5]}, 0.5),
        ({"dtype": 2, "double_val": [0.1]}, 0.1),
        ({"dtype": 3, "int_val": [-7]}, -7.0),
        ({"dtype": 9, "int64_val": [2**40]}, float(2**40)),
        ({"dtype": 1, "tensor_content": struct.pack("<f", 2.5)}, 2.5),
        ({"dtype": 2, "tensor_content": struct.pack("<d", 0.1)}, 0.1),
        ({"dtype": 19, "tensor_content": struct.pack("<e", 1.5)}, 1.5),
        ({"dtype": 14, "tensor_content": struct.pack("<f", 3.0)[2:]}, 3.0),
        ({"dtype": 1}, 0.0),
    ],
)
def test_a_scalar_is_read_from_any_form_of_tensor(tmp_path: Path, content: dict[str, Any], number: float) -> None:
    file = written(tmp_path, *(event(step, 2.0, tensor("x", "scalars", **content)) for step in range(3)))
    assert points(EventFileReader(file)) == [("x", step, number, 2.0) for step in range(3)]


def test_a_plugin_that_is_named_once_holds_for_the_tag(tmp_path: Path) -> None:
    first = event(1, 2.0, tensor("x", "scalars", dtype=1, float_val=[1.0]))
    later = [event(step, 2.0, tensor("x", None, dtype=1, float_val=[float(step)])) for step in (2, 3)]
    stranger = event(4, 2.0, tensor("y", None, dtype=1, float_val=[4.0]))
    reader = EventFileReader(written(tmp_path, first, *later, stranger))
    assert [(tag, step) for tag, step, _, _ in points(reader)] == [("x", 1), ("x", 2), ("x", 3)]


def test_several_values_of_one_event_and_what_is_not_finite(tmp_path: Path) -> None:
    reader = EventFileReader(written(tmp_path, event(5, 2.0, simple("a", 1.0), simple("b", math.inf))))
    assert points(reader) == [("a", 5, 1.0, 2.0), ("b", 5, math.inf, 2.0)]


def test_more_forms_than_are_decoded_side_by_side_all_come_back(tmp_path: Path) -> None:
    tags = [f"tag-{number:04d}" for number in range(3 * event_reader._MOST_SHAPES)]
    file = written(tmp_path, *(event(7, 2.0, simple(tag, 1.0)) for tag in tags * 2))
    assert [tag for tag, _, _, _ in points(EventFileReader(file))] == tags * 2


def test_what_mosaic_writes_it_reads(tmp_path: Path) -> None:
    memory = io.BytesIO()
    EventFile(memory, 5.0).add_scalars("x", [(step, step / 2, 1.0 + step) for step in range(1000)])
    file = tmp_path / NAME
    file.write_bytes(memory.getvalue())
    assert points(EventFileReader(file)) == [("x", step, step / 2, 1.0 + step) for step in range(1000)]


# ---- everything else ---------------------------------------------------------------------------------------------


def test_histograms_texts_and_images_are_listed_and_decoded_when_asked(tmp_path: Path) -> None:
    counts = histogram_pb2.HistogramProto(min=-1.0, max=2.0, num=3, bucket_limit=[0.0, 2.0], bucket=[1.0, 2.0])
    picture = summary_pb2.Summary.Image(height=1, width=1, encoded_image_string=b"\x89PNG")
    file = written(
        tmp_path,
        event(1, 2.0, summary_pb2.Summary.Value(tag="h", histo=counts)),
        event(2, 3.0, tensor("t/text_summary", "text", dtype=7, string_val=["hello ü".encode()])),
        event(3, 4.0, summary_pb2.Summary.Value(tag="i", image=picture)),
        event(4, 5.0, tensor("i2", "images", dtype=7, string_val=[b"1", b"1", b"\x89PNG2"])),
        event(5, 6.0, tensor("h2", "histograms", dtype=2, tensor_content=struct.pack("<6d", 0, 1, 2, 1, 2, 3))),
        event(6, 7.0, simple("x", 1.0)),
    )
    reader = EventFileReader(file)
    found = reader.read_all()
    assert len(found.points) == 1
    assert [(one.kind, one.tag, one.step, one.wall_time) for one in found.listed] == [
        ("histogram", "h", 1, 2.0),
        ("text", "t/text_summary", 2, 3.0),
        ("image", "i", 3, 4.0),
        ("image", "i2", 4, 5.0),
        ("histogram", "h2", 5, 6.0),
    ]
    opened = [reader.record_of(one) for one in found.listed]
    assert events.histogram(*opened[0]) == [(-1.0, 0.0, 1.0), (0.0, 2.0, 2.0)]
    assert events.texts(*opened[1]) == ["hello ü"]
    assert events.images(*opened[2]) == [b"\x89PNG"]
    assert events.images(*opened[3]) == [b"\x89PNG2"]
    assert events.histogram(*opened[4]) == [(0.0, 1.0, 2.0), (1.0, 2.0, 3.0)]


def test_the_settings_of_the_hparams_plugin_are_read(tmp_path: Path) -> None:
    summary = hp.hparams_pb({"lr": 0.5, "layers": 2, "name": "x", "flag": True}, start_time_secs=1.0)
    made = event_pb2.Event(step=0, wall_time=2.0)
    made.summary.ParseFromString(summary.SerializeToString())
    reader = EventFileReader(written(tmp_path, framed(made.SerializeToString())))
    (one,) = reader.read_all().listed
    assert one.kind == "hparams"
    assert events.hparams(*reader.record_of(one)) == {"lr": 0.5, "layers": 2, "name": "x", "flag": True}


# ---- as it grows -------------------------------------------------------------------------------------------------


def test_a_file_that_grows_byte_by_byte_gives_each_point_once(tmp_path: Path) -> None:
    whole = written(tmp_path, *(event(step, 2.0, simple("x", step)) for step in range(5))).read_bytes()
    file = tmp_path / "growing.tfevents"
    file.write_bytes(b"")
    reader, found = EventFileReader(file), []
    for byte in whole:
        with file.open("ab") as stream:
            stream.write(bytes([byte]))
        found += points(reader)
    assert [step for _, step, _, _ in found] == [0, 1, 2, 3, 4]
    assert (reader.damaged, reader.ended, reader.offset) == (0, "", len(whole))


def test_a_half_written_record_is_left_for_the_next_look(tmp_path: Path) -> None:
    file = written(tmp_path, event(1, 2.0, simple("x", 1.0)))
    rest = event(2, 2.0, simple("x", 2.0))
    with file.open("ab") as stream:
        stream.write(rest[:-3])
    reader = EventFileReader(file)
    assert len(points(reader)) == 1 and reader.is_half_written
    assert points(reader) == [] and reader.is_half_written
    with file.open("ab") as stream:
        stream.write(rest[-3:])
    assert [step for _, step, _, _ in points(reader)] == [2] and not reader.is_half_written


def test_records_larger_than_a_chunk_and_across_its_edge_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_reader, "CHUNK", 300)
    text = tensor("t", "text", dtype=7, string_val=[b"long " * 500])
    parts = [event(step, 2.0, simple("x", step)) for step in range(50)]
    reader = EventFileReader(written(tmp_path, *parts[:25], event(99, 2.0, text), *parts[25:]))
    found = reader.read_all()
    assert found.points.steps.tolist() == list(range(50))
    assert [one.step for one in found.listed] == [99]
    assert events.texts(*reader.record_of(found.listed[0])) == ["long " * 500]


def test_a_file_that_became_shorter_is_said(tmp_path: Path) -> None:
    file = written(tmp_path, event(1, 2.0, simple("x", 1.0)))
    reader = EventFileReader(file)
    points(reader)
    file.write_bytes(b"")
    with pytest.raises(EventFileError, match="shorter than it was"):
        points(reader)


# ---- bad input ---------------------------------------------------------------------------------------------------


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EventFileError, match=f"there is no file {tmp_path}/gone"):
        points(EventFileReader(tmp_path / "gone"))


def test_a_damaged_record_is_counted_and_the_next_one_read(tmp_path: Path) -> None:
    broken = bytearray(event(2, 2.0, simple("x", 2.0)))
    broken[-8] ^= 0xFF
    good = [event(step, 2.0, simple("x", step)) for step in (1, 3)]
    reader = EventFileReader(written(tmp_path, good[0], bytes(broken), good[1]))
    assert [step for _, step, _, _ in points(reader)] == [1, 3]
    assert (reader.damaged, reader.ended) == (1, "")


def test_a_record_that_is_no_event_is_counted(tmp_path: Path) -> None:
    reader = EventFileReader(written(tmp_path, framed(b"\xff\xff\xff"), event(1, 2.0, simple("x", 1.0))))
    assert len(points(reader)) == 1 and reader.damaged == 1


@pytest.mark.parametrize("length", [0, 7, 2**31, 2**63, 2**64 - 1])
def test_a_length_with_a_wrong_checksum_ends_the_file_with_a_sentence(tmp_path: Path, length: int) -> None:
    file = written(tmp_path, event(1, 2.0, simple("x", 1.0)))
    place = file.stat().st_size
    with file.open("ab") as stream:
        stream.write(struct.pack("<Q", length) + bytes(100) + event(2, 2.0, simple("x", 2.0)))
    reader = EventFileReader(file)
    assert len(points(reader)) == 1
    assert reader.ended == f"it is damaged at byte {place:,}, and what comes after it cannot be found"
    assert points(reader) == []


@pytest.mark.parametrize("length", [event_reader.MOST_RECORD, 2**40, 2**63 - 1, 2**64 - 20, 2**64 - 1])
def test_a_length_that_nobody_believes_is_not_allocated(tmp_path: Path, length: int) -> None:
    header = struct.pack("<Q", length)
    file = written(tmp_path, event(1, 2.0, simple("x", 1.0)), header, struct.pack("<I", masked(crc32c(header))))
    reader = EventFileReader(file)
    assert len(points(reader)) == 1
    assert "claims" in reader.ended and "more than the file has" in reader.ended


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04" + bytes(100), b"step,value\n1,2\n" * 10, bytes(100), framed(b"\x0a\x04abcd") * 3]
)
def test_a_foreign_file_is_no_event_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / NAME
    file.write_bytes(content)
    reader = EventFileReader(file)
    assert points(reader) == []
    assert reader.ended == "it is not an event file of TensorBoard"


def test_a_sparse_file_of_ten_gigabytes_costs_neither_time_nor_memory(tmp_path: Path) -> None:
    file = written(tmp_path, event(1, 2.0, simple("x", 1.0)))
    os.truncate(file, 10 * 2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader = EventFileReader(file)
    assert len(points(reader)) == 1
    assert reader.ended.startswith("it is damaged at byte")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_a_record_of_holes_is_skipped_without_being_read(tmp_path: Path) -> None:
    header = struct.pack("<Q", 9 * 2**30)
    file = written(tmp_path, header, struct.pack("<I", masked(crc32c(header))))
    os.truncate(file, file.stat().st_size + 9 * 2**30 + 4)
    with file.open("ab") as stream:
        stream.write(event(1, 2.0, simple("x", 1.0)))
    reader = EventFileReader(file)
    assert len(points(reader)) == 1
    assert (reader.damaged, reader.ended) == (1, "")


def test_pipes_and_links_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(EventFileError, match="it is a named pipe, not a regular file"):
        points(EventFileReader(tmp_path / NAME))
    link = tmp_path / "link.tfevents"
    link.symlink_to("/dev/zero")
    with pytest.raises(EventFileError, match="it is a link, not a regular file"):
        points(EventFileReader(link))
    with pytest.raises(EventFileError, match="it is a device, not a regular file"):
        points(EventFileReader(link, follow=True))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_bytes_harm_the_reader(tmp_path_factory: pytest.TempPathFactory, raw: bytes, record: bytes) -> None:
    folder = tmp_path_factory.mktemp("noise")
    for name, content in (("raw", raw), ("record", framed(record))):
        reader = EventFileReader(written(folder, content, name=name))
        reader.read_all()
        assert reader.read_all().listed == []


def test_a_tag_without_end_is_no_tag(tmp_path: Path) -> None:
    reader = EventFileReader(written(tmp_path, event(1, 2.0, simple("x" * 5000, 1.0))))
    assert points(reader) == [] and reader.damaged == 1


# ---- folders -----------------------------------------------------------------------------------------------------


def test_the_files_of_a_folder_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("events.out.tfevents.20.host", "events.out.tfevents.10.host", "notes.txt", "x.tfevents.profile-empty"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "tfevents-folder").mkdir()
    assert [file.name for file in event_files(tmp_path)] == [
        "events.out.tfevents.10.host",
        "events.out.tfevents.20.host",
    ]


def test_folders_are_found_at_any_depth_and_links_are_not_followed(tmp_path: Path) -> None:
    for folder in ("b/deep/er", "a"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / NAME).write_bytes(b"")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert log_folders(tmp_path) == [tmp_path / "a", tmp_path / "b/deep/er"]
    with pytest.raises(EventFileError, match="there is no folder"):
        log_folders(tmp_path / "gone")
