"""The reader of W&B files against files written here by hand: every framing, every kind of damage."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic_protocol import wandb_files
from mosaic_protocol.tests.made_wandb_files import BLOCK, HEADER, field, history, identity, item, log, stats
from mosaic_protocol.wandb_files import WandbFileError, WandbFileReader, find_runs, read_run
from mosaic_protocol.wandb_records import Media


def written(tmp_path: Path, content: bytes) -> Path:
    file = tmp_path / "run-x.wandb"
    file.write_bytes(content)
    return file


def sample() -> list[bytes]:
    run = field(1, "x") + field(3, "walks") + field(4, field(1, item("seed", 3)) + field(1, item("_wandb", {})))
    return [
        field(1, 7) + field(17, run + field(8, "a name")),
        history(a=1.5, global_step=10),
        field(3, field(1, item("a", 1.5)) + field(1, item("b", 2))),
        history(a=2.5, text="y" * 100_000),
        field(3, field(1, item("a", 2.5)) + field(2, item("b", None))),
        field(5, field(1, item("late", [1]))),
        field(18, field(1, 3)),
    ]


def test_everything_is_read_across_blocks(tmp_path: Path) -> None:
    run = read_run(written(tmp_path, log(sample())))
    assert (run.run_id, run.project, run.name, run.exit_code, run.complete) == ("x", "walks", "a name", 3, True)
    assert run.config == {"seed": 3, "late": [1]}
    assert run.summary == {"a": 2.5}
    assert run.history == [{"a": 1.5, "global_step": 10}, {"a": 2.5, "text": "y" * 100_000}]


@pytest.mark.parametrize("size", range(BLOCK - 40, BLOCK + 10))
def test_a_record_may_end_anywhere_in_a_block(tmp_path: Path, size: int) -> None:
    records = [history(text="y" * size), history(a=1)]
    run = read_run(written(tmp_path, log(records)))
    assert run.complete and [len(row) for row in run.history] == [1, 1]


@pytest.mark.parametrize(("code", "read"), [(0, 0), (255, 255), (2**64 - 9, -9)])
def test_exit_codes_are_read_with_their_sign(tmp_path: Path, code: int, read: int) -> None:
    assert read_run(written(tmp_path, log([field(18, field(1, code) if code else b"")]))).exit_code == read


def test_a_growing_file_gives_what_is_whole(tmp_path: Path) -> None:
    content = log([history(a=1), history(a=2)])
    run = read_run(written(tmp_path, content[:-3]))
    assert run.history == [{"a": 1}] and not run.complete and run.exit_code is None
    assert read_run(written(tmp_path, HEADER)).history == []


def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WandbFileError, match="is not a W&B run"):
        read_run(written(tmp_path, b"no such thing"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_damaged_file_never_fails_worse_than_incomplete(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    content = bytearray(log(sample()[:3]))
    for place, mask in flips:
        content[len(HEADER) + place % (len(content) - len(HEADER))] ^= mask
    read_run(written(tmp_path_factory.mktemp("damage"), bytes(content)))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_records_of_nonsense_never_fail_worse_than_incomplete(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes]
) -> None:
    read_run(written(tmp_path_factory.mktemp("nonsense"), log(records)))


def test_the_runs_of_a_directory_are_listed_oldest_first(tmp_path: Path) -> None:
    for name in ("run-20260102_000000-x", "offline-run-20260101_000000-x", "latest-run"):
        (tmp_path / "wandb" / name).mkdir(parents=True)
        (tmp_path / "wandb" / name / "run-x.wandb").write_bytes(HEADER)
    assert [file.parent.name for file in find_runs(tmp_path)] == [
        "offline-run-20260101_000000-x",
        "run-20260102_000000-x",
    ]


def test_a_link_in_place_of_a_folder_or_a_file_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run-x.wandb").write_bytes(HEADER)
    folder = tmp_path / "run" / "wandb"
    (folder / "run-1-x").mkdir(parents=True)
    (folder / "offline-run-2-x").symlink_to(outside)
    (folder / "run-1-x" / "run-x.wandb").symlink_to(outside / "run-x.wandb")
    assert find_runs(tmp_path / "run") == []
    with pytest.raises(OSError, match="link"):
        read_run(folder / "run-1-x" / "run-x.wandb")


def test_system_metrics_media_and_files_are_read(tmp_path: Path) -> None:
    video = {"_type": "video-file", "path": "media/videos/a.mp4", "size": 10}
    pictures = {"_type": "images/separated", "filenames": ["a.png", 3, "b.png"]}
    records = [
        history(film=video, shots=pictures, number=1, global_step=7),
        stats(1_700_000_000, cpu=50.5),
        field(6, field(1, field(1, "output.log")) + field(1, field(1, "config.yaml"))),
    ]
    run = read_run(written(tmp_path, log(records)))
    assert run.media == [
        Media("film", "video-file", 7, ("media/videos/a.mp4",)),
        Media("shots", "images/separated", 7, ("a.png", "b.png")),
    ]
    assert run.system == [{"cpu": 50.5, "_timestamp": 1_700_000_000}]
    assert run.files == ["output.log", "config.yaml"]
    assert run.complete


def test_values_that_have_fields_of_their_own_are_read_like_json(tmp_path: Path) -> None:
    number = field(2, "a") + bytes([6 << 3 | 1]) + struct.pack("<d", 2.5)
    values = [number, field(2, "b") + field(5, 5), field(2, "c") + field(7, "text"), field(2, "d") + field(4, 1)]
    run = read_run(written(tmp_path, log([field(2, b"".join(field(1, one) for one in values))])))
    assert run.history == [{"a": 2.5, "b": -3, "c": "text", "d": True}]


def test_a_reader_keeps_its_place_and_gives_each_row_once_wherever_the_file_was_cut(tmp_path: Path) -> None:
    content = log([identity(), history(a=1), history(a=2, text="y" * 40_000), history(a=3), field(18, b"")])
    file = written(tmp_path, b"")
    reader, found = WandbFileReader(file), []
    for end in [*range(120), 20_000, BLOCK, BLOCK + 3, BLOCK + 8, len(content) - 1, len(content)]:
        file.write_bytes(content[:end])
        found += [row.values["a"] for rows in reader.read() for row in rows]
        assert reader.run.damaged == 0
        assert end < len(content) or reader.run.complete
    assert found == [1, 2, 3] and reader.run.exit_code == 0 and reader.run.name == "a name"


def test_a_damaged_place_costs_its_block_and_what_comes_after_is_read(tmp_path: Path) -> None:
    content = bytearray(log([history(a=1, text="y" * 30_000), history(a=2, text="y" * 60_000), history(a=3)]))
    content[100] ^= 1
    run = read_run(written(tmp_path, bytes(content)))
    assert [row["a"] for row in run.history] == [3]
    assert run.damaged and not run.complete


def test_lengths_are_not_believed(tmp_path: Path) -> None:
    for head in (struct.pack("<IHB", 0, 65535, 1), struct.pack("<IHB", 0, 10, 9), bytes(7)):
        run = read_run(written(tmp_path, HEADER + head + bytes(2 * BLOCK)))
        assert run.damaged and run.history == []
    inside = field(2, b"\x0a\xff\xff\xff\xff\x7f")  # an item that claims 34 GB
    run = read_run(written(tmp_path, log([inside, history(a=1)])))
    assert run.damaged == 1 and run.history == [{"a": 1}]


def test_a_record_that_is_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb_files, "MOST_RECORD", 50_000)
    run = read_run(written(tmp_path, log([history(text="y" * 200_000), history(a=1)])))
    assert run.left_out == 1 and run.history == [{"a": 1}] and not run.complete


def test_pipes_and_huge_files_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run-p.wandb")
    with pytest.raises(OSError, match="pipe"):
        read_run(tmp_path / "run-p.wandb")
    file = written(tmp_path, HEADER)
    os.truncate(file, wandb_files.MOST_BYTES + 1)
    with pytest.raises(OSError, match="larger than"):
        read_run(file)


def test_a_file_that_was_written_again_is_not_read_on(tmp_path: Path) -> None:
    file = written(tmp_path, log([history(a=1)]))
    reader = WandbFileReader(file)
    assert len(list(reader.read())) == 1
    file.write_bytes(HEADER)
    with pytest.raises(WandbFileError, match="shorter than it was"):
        list(reader.read())


def test_a_step_too_large_for_a_number_and_text_for_one_are_no_numbers(tmp_path: Path) -> None:
    rows = [history(_step=step, a={"_type": "x"}) for step in (10**400, "y")]
    run = read_run(written(tmp_path, log(rows)))
    assert [one.step for one in run.media] == [None, None]
