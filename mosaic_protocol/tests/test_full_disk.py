"""A line that the disk has no room for is dropped; the process that printed it goes on."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic_protocol import full_disk

CHECKOUT = Path(full_disk.__file__).parents[1]
CHATTY = """
import sys
from mosaic_protocol.full_disk import print_past_a_full_disk
print_past_a_full_disk()
for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
    print("a line", file=stream, flush=True)
    print("x" * 100_000, file=stream)
    print("left in the buffer at the end", end="", file=stream)
"""


def run(code: str, stdout: Path, stderr: Path, **environment: str) -> int:
    with stdout.open("ab") as out, stderr.open("ab") as err:
        env = {**os.environ, "PYTHONPATH": str(CHECKOUT), **environment}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=env, stdout=out, stderr=err, timeout=60, check=False).returncode


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_printing_to_a_full_disk_neither_raises_nor_changes_the_exit_status(environment: dict[str, str]) -> None:
    full = Path("/dev/full")
    assert run(CHATTY, full, full, **environment) == 0


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_what_fits_is_written_in_order(tmp_path: Path, environment: dict[str, str]) -> None:
    code = CHATTY.replace("a line", "größer")
    out, err = tmp_path / "out", tmp_path / "err"
    assert run(code, out, err, PYTHONIOENCODING="utf-8", **environment) == 0
    once = "größer\n" + "x" * 100_000 + "\nleft in the buffer at the end"
    assert out.read_text(encoding="utf-8") == err.read_text(encoding="utf-8") == once * 2


def test_lines_printed_after_space_returned_are_written(tmp_path: Path) -> None:
    code = """
import os, sys
from mosaic_protocol.full_disk import print_past_a_full_disk
print_past_a_full_disk()
room = os.dup(1)
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
print("dropped", flush=True)
os.dup2(room, 1)
print("written")
"""
    out, err = tmp_path / "out", tmp_path / "err"
    assert run(code, out, err) == 0, err.read_text()
    assert out.read_text() == "written\n"


def test_other_errors_are_raised(tmp_path: Path) -> None:
    code = """
import os, sys
from mosaic_protocol.full_disk import print_past_a_full_disk
print_past_a_full_disk()
os.dup2(os.open("/dev/null", os.O_RDONLY), 1)
try:
    print("into a file that is only for reading", flush=True)
except OSError as error:
    os._exit(error.errno)
"""
    assert run(code, tmp_path / "out", tmp_path / "err") == errno.EBADF


def test_streams_that_are_not_the_process_s_own_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    full_disk.print_past_a_full_disk()
    assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == before
    print("captured as ever")
    assert capsys.readouterr().out == "captured as ever\n"


def test_a_second_call_changes_nothing(tmp_path: Path) -> None:
    code = """
import sys
from mosaic_protocol.full_disk import print_past_a_full_disk
print_past_a_full_disk()
first = sys.stdout, sys.stderr
print_past_a_full_disk()
assert first == (sys.stdout, sys.stderr)
"""
    assert run(code, tmp_path / "out", tmp_path / "err") == 0, (tmp_path / "err").read_text()


def test_a_script_without_a_supervisor_ends_although_it_cannot_say_so() -> None:
    full = Path("/dev/full")
    assert run("from mosaic_worker.training.supervisor_link import _end_process as end; end()", full, full) == 71


class Stubborn:
    """Fails so many times with an error before it works."""

    def __init__(self, times: int, number: int) -> None:
        self.left, self.number = times, number

    def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))
        return "done"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.ESTALE])
def test_what_passes_is_waited_for_and_said_once(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert full_disk.until_it_works(Stubborn(2, number), "write the words") == "done"
    assert capsys.readouterr().err == f"mosaic: waiting to write the words: {os.strerror(number)}\n"


def test_what_does_not_pass_is_raised_at_once() -> None:
    with pytest.raises(IsADirectoryError):
        full_disk.until_it_works(Stubborn(1, errno.EISDIR), "write")


def test_waiting_ends_when_it_is_given_up() -> None:
    with pytest.raises(OSError, match="No space left"):
        full_disk.until_it_works(Stubborn(10**6, errno.ENOSPC), "write", give_up=lambda: True)


def test_neither_a_disk_with_space_nor_a_folder_that_is_gone_counts_as_full(tmp_path: Path) -> None:
    assert not full_disk.is_full(tmp_path)
    assert not full_disk.is_full(tmp_path / "gone")


def test_asking_for_space_leaves_nothing_behind(tmp_path: Path) -> None:
    full_disk.require_space(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_system_that_counts_no_blocks_is_not_taken_for_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncounted = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: uncounted)
    assert not full_disk.is_full(tmp_path)


def test_root_finds_out_by_trying_because_some_blocks_are_kept_from_root_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearly = os.statvfs_result((4096, 4096, 10_000, 80, 0, 100, 100, 100, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: nearly)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not full_disk.is_full(tmp_path), "the reserved blocks are root's to use"

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert full_disk.is_full(tmp_path)
    assert list(tmp_path.iterdir()) == []
