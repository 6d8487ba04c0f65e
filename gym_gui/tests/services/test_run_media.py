"""Histograms, pictures and texts of event files: read as they are, bounded, and a sentence for what is hostile."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gym_gui.services.scalars.event_reader import MOST_RECORD
from gym_gui.services.scalars.histograms import heat, histogram_of
from gym_gui.services.scalars.media import Contents, MediaError, RunMedia, evenly
from gym_gui.services.scalars.pictures import MOST_BYTES, Picture, PictureError, picture_of
from gym_gui.tests.support.made_logs import NAME, event, framed, simple, tensor, written
from gym_gui.tests.support.made_media import (
    chunk,
    image,
    jpeg,
    new_histogram,
    normal,
    old_histogram,
    png,
    text,
)

BIGGEST = 1.7976931348623157e308


def looked(folder: Path, *parts: bytes) -> tuple[RunMedia, Contents]:
    written(folder, *parts)
    media = RunMedia(folder)
    return media, media.look()


# ---- what there is -----------------------------------------------------------------------------------------------


def test_both_styles_of_histograms_are_read_with_their_true_ends(tmp_path: Path) -> None:
    media, found = looked(
        tmp_path,
        old_histogram("w", 1, [-BIGGEST, 0.0, BIGGEST], [0.0, 1.0, 3.0], least=-1.0, most=2.0),
        new_histogram("w2", 5, (0.0, 1.0, 2.0), (1.0, 1.0, 0.0), (1.0, 3.0, 6.0)),
        event(6, 6.0, tensor("w3", "histograms", dtype=1, tensor_content=struct.pack("<3f", 0, 2, 4))),
        event(7, 7.0, tensor("w4", "histograms", dtype=2, double_val=[0.0, 1.0, 9.0])),
        event(8, 8.0, tensor("w5", "histograms", dtype=2)),
    )
    one = {tag: media.histogram(entries[0]) for tag, entries in found.of("histogram").items()}
    assert (one["w"].ends, one["w"].total) == ((-1.0, 2.0), 4.0)
    assert (one["w2"].ends, one["w2"].total, one["w2"].step) == ((0.0, 3.0), 8.0, 5)
    assert (one["w3"].ends, one["w3"].total) == ((0.0, 2.0), 4.0)
    assert one["w4"].total == 9.0
    assert one["w5"].ends is None
    assert found.notes == ()


def test_histograms_of_steps_lie_on_one_row_of_edges() -> None:
    early = histogram_of([(0.0, 1.0, 10.0)], 1, 0.0)
    late = histogram_of([(3.0, 4.0, 1.0), (4.0, 4.0, 1.0)], 2, 0.0)
    found = heat([early, late], rows=4)
    assert found.edges.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert found.shares[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert found.shares[:, 1].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert heat([], rows=4).shares.shape == (4, 0)
    assert heat([histogram_of([(7.0, 7.0, 3.0)], 1, 0.0)], rows=4).shares.sum() == pytest.approx(1.0)


def test_numbers_that_no_histogram_has_are_left_out() -> None:
    nan, inf = float("nan"), float("inf")
    buckets = [(nan, 1.0, 1.0), (0.0, inf, 1.0), (0.0, 1.0, -5.0), (0.0, 1.0, nan), (2.0, 1.0, 4.0)]
    assert histogram_of(buckets, 1, 0.0).ends == (1.0, 2.0)
    wild = [histogram_of([(-BIGGEST, BIGGEST, BIGGEST), (0.0, 0.0, BIGGEST)], step, 0.0) for step in range(3)]
    assert np.isfinite(heat(wild).shares).all()


def test_what_is_listed_comes_in_the_order_of_its_steps_and_grows_with_the_file(tmp_path: Path) -> None:
    media, first = looked(tmp_path, normal("w", 20, 0.0), normal("w", 10, 0.0), text("t", 0, "hello"))
    assert [one.step for one in first.of("histogram")["w"]] == [10, 20]
    with (tmp_path / NAME).open("ab") as file:
        file.write(normal("w", 30, 1.0) + event(31, 1.0, simple("x", 1.0)) + image("i", 5, png(2, 2)))
    later = media.look()
    assert [one.step for one in later.of("histogram")["w"]] == [10, 20, 30]
    assert media.text(later.of("text")["t/text_summary"][0]) == "hello"
    (picture,) = media.pictures(later.of("image")["i"][0])
    assert (picture.kind, picture.width, picture.height) == ("png", 2, 2)


def test_a_long_run_is_shown_by_some_of_its_steps_with_the_first_and_the_last(tmp_path: Path) -> None:
    media, found = looked(tmp_path, *(new_histogram("w", step, (0.0, 1.0, 1.0)) for step in range(500)))
    entries = found.of("histogram")["w"]
    assert [entries.index(one) for one in evenly(entries, 3)] == [0, 250, 499]
    histograms, problems = media.histograms(entries, most=50)
    assert (len(histograms), histograms[0].step, histograms[-1].step, problems) == (50, 0, 499, [])


def test_several_pictures_of_one_step_are_all_there(tmp_path: Path) -> None:
    data = [b"9", b"9", png(3, 2), png(1, 1)]
    media, found = looked(tmp_path, event(4, 4.0, tensor("i", "images", dtype=7, string_val=data)))
    assert [(one.width, one.height) for one in media.pictures(found.of("image")["i"][0])] == [(3, 2), (1, 1)]


def test_a_run_without_event_files_has_nothing_and_no_complaint(tmp_path: Path) -> None:
    assert RunMedia(tmp_path / "nowhere").look() == Contents()
    assert RunMedia(tmp_path).look() == Contents()


def test_text_is_plain_whatever_it_holds(tmp_path: Path) -> None:
    media, found = looked(
        tmp_path, text("t", 1, "a\tb\n\x1b]52;c;aGk=\x07\u202eevil\r!"), text("long", 2, "x" * 300_000)
    )
    assert media.text(found.of("text")["t/text_summary"][0]) == "a\tb\n\\u001b]52;c;aGk=\\u0007\\u202eevil\\u000d!"
    assert media.text(found.of("text")["long/text_summary"][0]).endswith("xx\n… 100,000 letters more")


def test_a_jpeg_is_measured_by_its_own_words() -> None:
    assert picture_of(jpeg(640, 480)) == Picture("jpeg", 640, 480, jpeg(640, 480))


def test_a_png_keeps_its_pixels_and_nothing_else() -> None:
    bomb = chunk(b"zTXt", b"Comment\0\0" + b"x" * 1000)
    assert picture_of(png(4, 4, None, bomb)).data == png(4, 4)


# ---- hostile -----------------------------------------------------------------------------------------------------


def claiming_buckets() -> bytes:
    value = tensor("w", "histograms", dtype=2, tensor_content=struct.pack("<3d", 0, 1, 1))
    for size in (10**9, 3):
        value.tensor.tensor_shape.dim.add(size=size)
    return event(1, 1.0, value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (claiming_buckets, "1,000,000,000 buckets"),
        (lambda: new_histogram("w", 1, *[(0.0, 1.0, 1.0)] * 10_001), "10,001 buckets"),
        (lambda: old_histogram("w", 1, [1.0] * 20_000, [1.0] * 20_000, 0.0, 1.0), "20,000 buckets"),
    ],
)
def test_a_histogram_of_too_many_buckets_is_one_sentence_and_others_are_read(
    tmp_path: Path, make: Callable[[], bytes], sentence: str
) -> None:
    media, found = looked(tmp_path, make(), new_histogram("w", 2, (0.0, 1.0, 5.0)))
    histograms, problems = media.histograms(found.of("histogram")["w"])
    assert [one.step for one in histograms] == [2]
    assert len(problems) == 1 and problems[0].startswith("w at step 1 cannot be read") and sentence in problems[0]


def test_a_field_that_claims_more_than_its_record_has_is_one_sentence(tmp_path: Path) -> None:
    """The list of buckets says that it has eight billion bytes."""
    buckets = b"\x32" + b"\x80\xa8\xd6\xb9\x1d" + b"\0" * 16
    histogram = b"\x2a" + bytes([len(buckets)]) + buckets
    value = b"\x0a\x01w" + histogram
    summary = b"\x0a" + bytes([len(value)]) + value
    record = b"\x09" + struct.pack("<d", 1.0) + b"\x10\x01" + b"\x2a" + bytes([len(summary)]) + summary
    media, found = looked(tmp_path, framed(record), new_histogram("w", 2, (0.0, 1.0, 5.0)))
    histograms, problems = media.histograms(found.of("histogram")["w"])
    assert [one.step for one in histograms] == [2]
    assert problems == ["w at step 1 cannot be read: a field is longer than its message."]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (png(1, 1).replace(struct.pack(">II", 1, 1), struct.pack(">II", 10**6, 10**6)), "a checksum is wrong"),
        (
            png(1, 1)[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 10**6, 10**6, 8, 2, 0, 0, 0)) + png(1, 1)[33:],
            "claims 1,000,000 x 1,000,000 pixels",
        ),
        (png(100, 100, b"\0" * 50_000_000), "holds more than its size says"),
        (png(100, 100, b"\0" * 100), "cut off"),
        (png(40, 40)[:-30], "cut off"),
        (png(40, 40)[:20], "cut off"),
        (png(0, 7), "0 x 7 pixels"),
        (jpeg(60_000, 60_000), "claims 60,000 x 60,000 pixels"),
        (jpeg(600, 600, scans=100), "more than 64 passes"),
        (b"\xff\xd8\xff\xd9", "does not say its size"),
        (b"\xff\xd8\xff\xc0\x00", "cut off"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "neither PNG nor JPEG"),
        (b"", "neither PNG nor JPEG"),
        (b"GIF89a\xff\xff\xff\xff", "claims 65,535 x 65,535 pixels"),
        (png(2, 2) + b"x" * MOST_BYTES, "at most 16 MiB"),
    ],
)
def test_a_hostile_picture_is_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(PictureError) as refused:
        picture_of(data)
    assert sentence in str(refused.value) and str(refused.value).isprintable()


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """Of a quarter of a gigabyte of zeros no more is unpacked than the picture has pixels."""
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    data = png(64, 64)[:33] + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    media, found = looked(tmp_path, image("bomb", 1, data, 64, 64), image("good", 2, png(2, 2)))
    tracemalloc.start()
    try:
        with pytest.raises(MediaError, match="bomb at step 1: The picture holds more than its size says"):
            media.pictures(found.of("image")["bomb"][0])
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert len(media.pictures(found.of("image")["good"][0])) == 1


def test_a_wrong_checksum_costs_its_record_alone(tmp_path: Path) -> None:
    broken = bytearray(new_histogram("w", 1, (0.0, 1.0, 1.0)))
    broken[40] ^= 1
    _, found = looked(tmp_path, bytes(broken), new_histogram("w", 2, (0.0, 1.0, 1.0)))
    assert [one.step for one in found.of("histogram")["w"]] == [2]
    assert found.notes == (f"1 record is damaged in {tmp_path / NAME} and left out",)


def test_a_file_that_is_cut_off_has_what_came_before(tmp_path: Path) -> None:
    media, found = looked(tmp_path, new_histogram("w", 1, (0.0, 1.0, 1.0)), image("i", 2, png(9, 9))[:-20])
    assert list(found.of("histogram")) == ["w"] and found.of("image") == {} and found.notes == ()
    assert media.histogram(found.of("histogram")["w"][0]).total == 1.0


def test_a_file_that_changed_since_it_was_listed_is_not_believed(tmp_path: Path) -> None:
    media, found = looked(tmp_path, image("i", 1, png(9, 9)), image("i", 2, png(9, 9)))
    file = tmp_path / NAME
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    with pytest.raises(MediaError, match="has changed"):
        media.pictures(found.of("image")["i"][1])
    assert len(media.pictures(found.of("image")["i"][0])) == 1
    file.write_bytes(content[:200])
    assert "shorter than it was" in media.look().notes[0]
    with pytest.raises(MediaError, match="written again"):
        media.pictures(found.of("image")["i"][0])
    assert media.look().notes == ()


def test_a_record_that_is_too_long_and_a_pipe_are_sentences(tmp_path: Path) -> None:
    written(tmp_path, new_histogram("w", 1, (0.0, 1.0, 1.0)))
    os.mkfifo(tmp_path / f"{NAME}.pipe")
    with (tmp_path / f"{NAME}.long").open("wb") as file:
        file.write(_header(MOST_RECORD))
        file.truncate(2 * MOST_RECORD)
    found = RunMedia(tmp_path).look()
    assert list(found.of("histogram")) == ["w"]
    assert any("named pipe" in note for note in found.notes) and len(found.notes) == 3


def _header(length: int) -> bytes:
    from gym_gui.services.scalars.crc32c import crc32c, masked

    told = struct.pack("<Q", length)
    return told + struct.pack("<I", masked(crc32c(told)))
