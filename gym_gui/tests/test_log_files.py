"""A run's logs: rotated under their writer, followed across rotations, quoted when a run fails."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from gym_gui.services.trainer.log_files import (
    KEPT_ROTATIONS,
    LogFollower,
    rotate_if_grown,
    rotate_run_logs,
    stderr_summary,
    tail_text,
)


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

    def no_space(source: IO[bytes], sink: IO[bytes]) -> None:
        sink.write(source.read(2))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", no_space)
        for _ in range(KEPT_ROTATIONS):
            with pytest.raises(OSError, match="No space"):
                rotate_if_grown(path, 1)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_both_logs_of_a_run_are_rotated(tmp_path: Path) -> None:
    for name in ("stdout.log", "stderr.log", "other.log"):
        (tmp_path / name).write_bytes(b"x" * 20)
    rotate_run_logs(tmp_path, 10)
    assert sorted(file.name for file in tmp_path.glob("*.1")) == ["stderr.log.1", "stdout.log.1"]


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


def test_large_logs_come_in_chunks(path: Path) -> None:
    content = bytes(range(256)) * 1024
    path.write_bytes(content)
    chunks = list(LogFollower(path).new_data())
    assert len(chunks) > 1
    assert b"".join(chunks) == content


# ---- quoting -------------------------------------------------------------------------------------


def test_the_summary_of_a_traceback_is_its_error(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("Traceback (most recent call last):\n  File x\nValueError: too hot\n\n  \n")
    assert stderr_summary(tmp_path) == "ValueError: too hot"


def test_the_summary_is_short_and_bears_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_bytes(b"\xff\xfe" + b"x" * 10_000)
    assert 0 < len(stderr_summary(tmp_path)) <= 300


def test_no_log_has_no_summary(tmp_path: Path) -> None:
    assert stderr_summary(tmp_path) == ""
    (tmp_path / "stderr.log").touch()
    assert stderr_summary(tmp_path) == ""


def test_the_tail_of_a_file_is_its_end(path: Path) -> None:
    path.write_text("a" * 100 + "end")
    assert tail_text(path, 5) == "aaend"
