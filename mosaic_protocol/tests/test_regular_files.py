"""Only regular files of bounded size are read; everything else is refused at once, in words."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic_protocol.regular_files import open_regular, read_regular

MOST = 1000


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * MOST)
    assert read_regular(file, MOST) == b"x" * MOST
    with open_regular(file) as stream:
        assert stream.read(3) == b"xxx"


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _large(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(10**13)


def _socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(file))


REFUSED: list[tuple[Callable[[Path], None], str]] = [
    (_pipe, "it is a named pipe, not a regular file"),
    (_link_to_zeros, "it is a link, not a regular file"),
    (_large, "it is larger than 1000 bytes"),
    (_socket, "it is a socket, not a regular file"),
    (Path.mkdir, "it is a folder, not a regular file"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[make.__name__ for make, _ in REFUSED])
def test_whatever_else_has_the_name_is_refused_at_once(
    make: Callable[[Path], None], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path has a small limit
    make(Path("file"))
    with pytest.raises(OSError) as error:  # noqa: PT011 - the words are what matters
        read_regular(Path("file"), MOST)
    assert error.value.strerror == words
    assert error.value.filename == "file"


def test_a_file_that_a_person_named_may_be_a_link_but_not_to_a_device(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "link", MOST, follow=True) == b"content"
    _link_to_zeros(tmp_path / "zeros")
    with pytest.raises(OSError, match="it is a device, not a regular file"):
        read_regular(tmp_path / "zeros", MOST, follow=True)


def test_a_file_that_grows_beyond_its_bound_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """Files of /proc say that they are empty, as one that grows did when it was looked at."""
    with pytest.raises(OSError, match="it is larger than 10 bytes"):
        read_regular(Path("/proc/self/status"), 10)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "absent", MOST)
