"""Reading a database in one thread while another closes the connection."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.storage.read_connection import ReadConnection

HANG_SECONDS = 60.0
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + told(0) + 1 FROM n) SELECT count(*) FROM n"


def test_a_query_that_goes_on_is_broken_off_when_the_connection_is_closed(tmp_path: Path) -> None:
    """A daemon that ends does not wait for reads whose readers are gone, and must not crash below them."""
    path = tmp_path / "some.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    reads, ended = threading.Event(), list[Exception]()

    def told(value: int) -> int:
        reads.set()
        return value

    reader = ReadConnection(path, told=told)

    def read() -> None:
        try:
            reader.rows(ENDLESS)
        except TrainerError as error:
            ended.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert reads.wait(HANG_SECONDS)
    reader.close()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive() and len(ended) == 1
