"""A run's logs: rotated under their writer, followed across rotations, quoted when a run fails."""

from __future__ import annotations

import errno
import os
import re
import threading
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest

from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from mosaic_host import log_files
from mosaic_host.log_files import (
    KEPT_ROTATIONS,
    LogFollower,
    rotate_if_grown,
    rotate_run_logs,
    stderr_summary,
    tail_text,
)

LIMIT = 128 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stdout.log"


@pytest.fixture
def writer(path: Path) -> Iterator[IO[bytes]]:
    """A worker that keeps its log open for appending and knows nothing of rotations."""
    with path.open("ab", buffering=0) as file:
        yield file


def read(follower: LogFollower) -> bytes:
    return b"".join(follower.new_data())


# ---- rotating ------------------------------------------------------------------------------------


def test_a_small_or_missing_file_is_left_alone(path: Path) -> None:
    assert not rotate_if_grown(path, 10)
    path.write_bytes(b"x" * 10)
    assert not rotate_if_grown(path, 10)
    assert path.read_bytes() == b"x" * 10


def test_a_writer_goes_on_at_the_beginning_of_the_rotated_file(path: Path, writer: IO[bytes]) -> None:
    writer.write(b"before\n")
    assert rotate_if_grown(path, 3)
    writer.write(b"after\n")
    assert path.read_bytes() == b"after\n"
    assert path.with_name("stdout.log.1").read_bytes() == b"before\n"


def test_only_so_many_rotations_are_kept_oldest_last(path: Path, writer: IO[bytes]) -> None:
    for number in range(KEPT_ROTATIONS + 2):
        writer.write(f"part {number}\n".encode())
        rotate_if_grown(path, 1)
    kept = sorted(path.parent.glob("stdout.log.*"))
    assert [file.name for file in kept] == ["stdout.log.1", "stdout.log.2", "stdout.log.3"]
    assert [file.read_text() for file in kept] == ["part 4\n", "part 3\n", "part 2\n"]


def test_a_rotation_that_fails_loses_nothing(path: Path, writer: IO[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (b"first\n", b"second\n"):
        writer.write(part)
        rotate_if_grown(path, 1)
    writer.write(b"third\n")
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}

    def broken(source: IO[bytes], sink: IO[bytes], most: int) -> int:
        sink.write(source.read(2))
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(log_files, "_copy", broken)
        for _ in range(KEPT_ROTATIONS):
            with pytest.raises(OSError, match="Input/output"):
                rotate_if_grown(path, 1)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_both_logs_of_a_run_are_rotated(tmp_path: Path) -> None:
    for name in ("stdout.log", "stderr.log", "other.log"):
        (tmp_path / name).write_bytes(b"x" * 20)
    rotate_run_logs(tmp_path, 10)
    assert sorted(file.name for file in tmp_path.glob("*.1")) == ["stderr.log.1", "stdout.log.1"]


def test_a_log_that_cannot_be_rotated_does_not_keep_the_other(tmp_path: Path) -> None:
    for name in ("stdout.log", "stderr.log"):
        (tmp_path / name).write_bytes(b"x" * 20)
    (tmp_path / "stdout.log.draft").mkdir()
    with pytest.raises(OSError, match="draft"):
        rotate_run_logs(tmp_path, 10)
    assert (tmp_path / "stdout.log").stat().st_size == 20
    assert (tmp_path / "stderr.log.1").stat().st_size == 20


def test_a_log_that_outran_its_rotation_keeps_its_newest_part_and_says_what_it_lacks(path: Path) -> None:
    path.write_bytes(b"a" * 10 * LIMIT + b"z" * LIMIT)
    assert rotate_if_grown(path, LIMIT)
    notice, newest = path.with_name("stdout.log.1").read_bytes().split(b"\n", 1)
    assert str(10 * LIMIT).encode() in notice and b"left out" in notice
    assert newest == b"z" * LIMIT
    assert path.read_bytes() == b""


def test_a_writer_faster_than_the_copy_does_not_make_it_grow(
    path: Path, writer: IO[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(b"a" * (LIMIT + 1))
    read_and_write = log_files._copy

    def outrun(source: IO[bytes], sink: IO[bytes], most: int) -> int:
        writer.write(b"b" * 3 * LIMIT)
        return read_and_write(source, sink, most)

    monkeypatch.setattr(log_files, "_copy", outrun)
    assert rotate_if_grown(path, LIMIT)
    rotated = path.with_name("stdout.log.1").read_bytes()
    assert len(rotated) < 2 * LIMIT + 200
    assert f"{2 * LIMIT + 1} bytes of this log were left out".encode() in rotated
    assert path.read_bytes() == b""


# ---- a full disk ---------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", megabytes=4)
    yield disk
    disk.unmount()


@on_a_small_disk
def test_on_a_full_disk_the_oldest_rotation_makes_room_for_the_newest(disk: SmallDisk) -> None:
    path = disk.mount() / "stdout.log"
    for number in range(1, KEPT_ROTATIONS + 1):
        path.with_name(f"stdout.log.{number}").write_bytes(str(number).encode() * 2 * LIMIT)
    path.write_bytes(b"0" * 2 * LIMIT)
    disk.fill()
    assert rotate_if_grown(path, LIMIT)
    kept = [path.with_name(f"stdout.log.{number}").read_bytes()[-1:] for number in range(1, KEPT_ROTATIONS + 1)]
    assert kept == [b"0", b"1", b"2"]


@on_a_small_disk
def test_on_a_full_disk_a_log_that_is_much_too_large_is_cut_and_says_so(
    disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    path = disk.mount() / "stdout.log"
    size = (KEPT_ROTATIONS + 1) * LIMIT + 1
    with path.open("ab", buffering=0) as worker:
        worker.write(b"x" * size)
        disk.fill()
        follower = LogFollower(path)
        assert len(read(follower)) == size
        assert rotate_if_grown(path, LIMIT)
        worker.write(b"goes on\n")
    notice, rest = path.read_bytes().split(b"\n", 1)
    assert f"{size} bytes of this log were left out".encode() in notice
    assert rest == b"goes on\n"
    assert read(follower) == notice + b"\ngoes on\n"
    assert any("disk is full" in record.getMessage() for record in caplog.records)


@on_a_small_disk
def test_on_a_full_disk_a_log_that_is_not_much_too_large_waits_for_space(disk: SmallDisk) -> None:
    path = disk.mount() / "stdout.log"
    path.write_bytes(b"x" * 2 * LIMIT)
    disk.fill()
    with pytest.raises(OSError, match="No space"):
        rotate_if_grown(path, LIMIT)
    assert path.stat().st_size == 2 * LIMIT
    assert [file.name for file in path.parent.glob("stdout*")] == ["stdout.log"]
    disk.free()
    assert rotate_if_grown(path, LIMIT)
    assert path.with_name("stdout.log.1").stat().st_size == 2 * LIMIT


# ---- following -----------------------------------------------------------------------------------


def test_a_follower_sees_what_is_there_and_what_comes(path: Path, writer: IO[bytes]) -> None:
    writer.write(b"one\n")
    follower = LogFollower(path)
    follower.start_at_tail(0)
    assert read(follower) == b"one\n"
    assert read(follower) == b""
    writer.write(b"two\n")
    assert read(follower) == b"two\n"


def test_a_follower_may_begin_before_the_log_exists(path: Path) -> None:
    follower = LogFollower(path)
    follower.start_at_tail(5)
    assert read(follower) == b""
    path.write_bytes(b"here\n")
    assert read(follower) == b"here\n"


@pytest.mark.parametrize(("lines", "seen"), [(1, b"c"), (2, b"b\nc"), (9, b"a\nb\nc")])
def test_a_follower_can_begin_with_the_last_lines(path: Path, lines: int, seen: bytes) -> None:
    path.write_bytes(b"a\nb\nc")
    follower = LogFollower(path)
    follower.start_at_tail(lines)
    assert read(follower) == seen


def test_a_follower_begins_with_all_that_is_kept(path: Path, writer: IO[bytes]) -> None:
    for number in range(3):
        writer.write(f"part {number}\n".encode())
        rotate_if_grown(path, 1)
    writer.write(b"part 3\n")
    follower = LogFollower(path)
    follower.start_at_tail(0)
    assert read(follower) == b"part 0\npart 1\npart 2\npart 3\n"


def test_a_rotation_under_a_follower_costs_it_nothing(path: Path, writer: IO[bytes]) -> None:
    follower = LogFollower(path)
    writer.write(b"seen, ")
    seen = read(follower)
    writer.write(b"not yet seen, ")
    rotate_if_grown(path, 1)
    writer.write(b"new")
    assert seen + read(follower) == b"seen, not yet seen, new"


def test_a_follower_goes_on_in_what_a_log_that_outran_its_rotation_kept(path: Path, writer: IO[bytes]) -> None:
    follower = LogFollower(path)
    writer.write(b"a" * 10 * LIMIT)
    assert len(read(follower)) == 10 * LIMIT
    writer.write(b"b" * 100)
    rotate_if_grown(path, LIMIT)
    writer.write(b"c" * 20 * LIMIT)
    assert read(follower) == b"b" * 100 + b"c" * 20 * LIMIT


def test_a_follower_that_lags_behind_such_a_rotation_gets_what_was_kept_and_hears_of_the_rest(
    path: Path, writer: IO[bytes]
) -> None:
    follower = LogFollower(path)
    writer.write(b"a")
    assert read(follower) == b"a"
    writer.write(b"a" * 5 * LIMIT + b"b" * LIMIT)
    rotate_if_grown(path, LIMIT)
    notice, rest = read(follower).split(b"\n")
    assert b"left out" in notice
    assert rest == b"b" * LIMIT
    assert read(follower) == b""


def test_a_rotation_is_noticed_also_when_the_file_has_grown_beyond_its_old_size(path: Path, writer: IO[bytes]) -> None:
    follower = LogFollower(path)
    writer.write(b"one, ")
    seen = read(follower)
    rotate_if_grown(path, 1)
    writer.write(b"two and more, ")
    rotate_if_grown(path, 1)
    writer.write(b"three and more than that")
    assert seen + read(follower) == b"one, two and more, three and more than that"


def test_a_follower_that_waits_through_many_rotations_gets_what_is_kept_and_nothing_twice(
    path: Path, writer: IO[bytes]
) -> None:
    follower = LogFollower(path)
    follower.start_at_tail(0)
    parts = [f"part {number:03}\n".encode() for number in range(40)]
    seen = b""
    for number, part in enumerate(parts):
        writer.write(part)
        rotate_if_grown(path, 1)
        if number % 10 == 0:
            seen += read(follower)
    seen += read(follower)
    lines = [line for line in seen.splitlines(keepends=True) if line in parts]
    assert len(set(lines)) == len(lines)
    assert lines == sorted(lines)
    assert lines[-2:] == parts[-2:]


def test_a_follower_never_reads_twice_what_is_rotated_under_it(path: Path, writer: IO[bytes]) -> None:
    """A writer, a rotator and a follower at once: numbers rise."""
    done = threading.Event()

    def rotate() -> None:
        while not done.is_set():
            rotate_if_grown(path, 4000)

    rotator = threading.Thread(target=rotate)
    rotator.start()
    follower, seen = LogFollower(path), b""
    try:
        for number in range(20_000):
            writer.write(b"%06d\n" % number)
            if number % 50 == 0:
                seen += read(follower)
    finally:
        done.set()
        rotator.join()
    seen += read(follower)
    numbers = [int(line) for line in seen.splitlines() if re.fullmatch(rb"\d{6}", line)]
    assert all(earlier < later for earlier, later in pairwise(numbers))
    assert len(numbers) > 15_000, "a line written in the instant of a rotation may be missing, and no more"


def test_what_a_worker_prints_cannot_mislead_a_follower(path: Path, writer: IO[bytes]) -> None:
    follower = LogFollower(path)
    writer.write(b"[mosaic: " + b"9" * 5000 + b" bytes of this log were left out here]\n")
    seen = read(follower)
    rotate_if_grown(path, 1)
    writer.write(b"next\n")
    assert (seen + read(follower)).endswith(b"here]\nnext\n")


def test_large_logs_come_in_chunks(path: Path) -> None:
    content = bytes(range(256)) * 1024
    path.write_bytes(content)
    chunks = list(LogFollower(path).new_data())
    assert len(chunks) > 1
    assert b"".join(chunks) == content


def test_a_large_rotated_log_comes_in_chunks_too_and_not_all_at_once(path: Path) -> None:
    content = bytes(range(256)) * 4096 * 4
    path.with_name("stdout.log.1").write_bytes(content)
    follower = LogFollower(path)
    follower.start_at_tail(0)
    batches = list(iter(follower.read_new, []))
    assert len(batches) > 1
    assert max(len(chunk) for batch in batches for chunk in batch) <= 64 * 1024
    assert b"".join(chunk for batch in batches for chunk in batch) == content


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("closed", [True, False])
def test_the_last_lines_are_found_backwards_across_blocks(path: Path, end: bytes, closed: bool) -> None:
    lines = [b"%d" % number * (number % 7) + end for number in range(60_000)]
    content = b"".join(lines) if closed else b"".join(lines) + b"open"
    path.write_bytes(content)
    for wanted in (1, 2, 1000, 30_000, 59_999, 60_000, 60_001, 10**9):
        follower = LogFollower(path)
        follower.start_at_tail(wanted)
        assert read(follower) == b"".join(content.splitlines(keepends=True)[-wanted:])


def test_the_last_lines_of_a_huge_log_cost_little(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
    tracemalloc.start()
    try:
        follower = LogFollower(path)
        follower.start_at_tail(2)
        assert read(follower) == b"last but one\nlast\n"
        assert tracemalloc.get_traced_memory()[1] < 2 * 1024**2
    finally:
        tracemalloc.stop()


def test_the_last_lines_are_looked_for_in_rotations_too(path: Path, writer: IO[bytes]) -> None:
    written = [b"%d\n" % number for number in range(40)]
    for line in written[:30]:
        writer.write(line)
        rotate_if_grown(path, 25)  # every tenth line or so
    kept = sum(rotation.stat().st_size for rotation in path.parent.iterdir())
    assert len(list(path.parent.iterdir())) == KEPT_ROTATIONS + 1
    for wanted in (1, 2, 5, 11, 15, 23):
        follower = LogFollower(path)
        follower.start_at_tail(wanted)
        assert read(follower) == b"".join(written[30 - wanted : 30])
    follower = LogFollower(path)
    follower.start_at_tail(10**6)
    assert len(read(follower)) == kept
    for line in written[30:]:
        writer.write(line)
    assert read(follower) == b"".join(written[30:])


# ---- quoting -------------------------------------------------------------------------------------


def test_the_summary_of_a_traceback_is_its_error(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("Traceback (most recent call last):\n  File x\nValueError: too hot\n\n  \n")
    assert stderr_summary(tmp_path) == "ValueError: too hot"


def test_the_summary_is_short_and_takes_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_bytes(b"\xff\xfe" + b"x" * 10_000)
    assert 0 < len(stderr_summary(tmp_path)) <= 300


def test_the_summary_is_found_where_it_was_rotated_to(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_text("x" * 1000 + "\nValueError: too hot\n")
    assert rotate_if_grown(log, 100)
    assert stderr_summary(tmp_path) == "ValueError: too hot"


def test_no_log_has_no_summary(tmp_path: Path) -> None:
    assert stderr_summary(tmp_path) == ""
    (tmp_path / "stderr.log").touch()
    assert stderr_summary(tmp_path) == ""


def test_the_tail_of_a_file_is_its_end(path: Path) -> None:
    path.write_text("a" * 100 + "end")
    assert tail_text(path, 5) == "aaend"


def test_a_reader_who_does_not_follow_gets_what_was_there(tmp_path: Path) -> None:
    """A run may print faster than its log is read."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"x" * 3_000_000)
    follower = LogFollower(path)
    follower.start_at_tail(0)
    follower.stop_at_end()
    received = 0
    while chunks := follower.read_new():
        received += sum(map(len, chunks))
        with path.open("ab") as file:
            file.write(b"y" * 3_000_000)
        assert received <= 3_000_000, "it goes on and on"
    assert received == 3_000_000
