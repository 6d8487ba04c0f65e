"""The reader of W&B files against files written here by hand: every framing, every kind of damage."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic_worker.tracking.reader import TrackingFileError, find_runs, read_run

BLOCK = 32768
HEADER = b":W&B\xe1\xbe\x00"


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def item(key: str, value: Any, *, nested: bool = False) -> bytes:
    return field(2 if nested else 1, key) + field(16, json.dumps(value))


def history(**values: Any) -> bytes:
    return field(2, b"".join(field(1, item(key, value, nested=True)) for key, value in values.items()))


def log(records: list[bytes]) -> bytes:
    """Records in LevelDB's framing, as the format's description has it."""
    content = bytearray(HEADER)
    for record in records:
        rest, first = record, True
        while True:
            room = BLOCK - len(content) % BLOCK
            if room < 7:
                content += bytes(room)
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not rest]
            checksum = zlib.crc32(bytes([kind]) + part)
            content += struct.pack("<IHB", checksum, len(part), kind) + part
            first = False
            if not rest:
                break
    return bytes(content)


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
    with pytest.raises(TrackingFileError, match="is not a W&B run"):
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
