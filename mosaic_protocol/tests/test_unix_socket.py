"""Sockets by path: a listener is found, however deep or oddly named the folder is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mosaic_protocol.unix_socket import LONGEST_PATH, dialled, listener


def test_a_short_plain_path_is_dialled_as_it_is() -> None:
    path = Path("/tmp/" + "x" * (LONGEST_PATH - 5))
    assert dialled(path) == str(path)


@pytest.mark.parametrize("folder", ["d" * 120, "per%20cent", "a b", "hash#", "question?", "\u00e9"])
def test_any_other_path_is_dialled_through_its_folder(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "s"
    path.parent.mkdir()
    name = dialled(path)
    assert len(name) <= LONGEST_PATH and name.isascii() and name != str(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert path.is_socket()
        assert listener(path) == os.getpid()


def test_a_folder_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / ("d" * 120) / "s"
    path.parent.mkdir()
    first = dialled(path)
    assert dialled(path) == first
    path.parent.rename(tmp_path / "old")
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(dialled(path))
    assert path.is_socket() and not (tmp_path / "old" / "s").exists()


def test_a_descriptor_that_a_fork_closed_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / ("d" * 120) / "s"
    path.parent.mkdir()
    os.close(int(dialled(path).split("/")[4]))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(dialled(path))
    assert path.is_socket()


def test_nobody_listens_where_nothing_or_something_else_is(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert listener(path) is None
    path.write_text("a file")
    assert listener(path) is None
    path.unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket() and listener(path) is None
    assert listener(tmp_path / ("d" * 120) / "s") is None


def test_a_listener_whose_queue_is_full_is_one_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s"
    waiting = []
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        for _ in range(3):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            client.connect_ex(str(path))
            waiting.append(client)
        assert listener(path) == 0
    for client in waiting:
        client.close()
