"""Commands that make datasets, killed in the middle or without space: a whole dataset or none, and the next command
clears away what was left, or goes on with it."""

from __future__ import annotations

import http.server
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cleanrl_worker.tests.policy_tools import new_checkpoint
from gym_gui.services.datasets import DatasetRegistry
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.faults.test_killed_commands import killed
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD
from gym_gui.tests.support.made_checkpoints import RUN_B, write_run
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.tests.offline import made_sets

ROWS = 150_000


class AtOnce(random.Random):
    def random(self) -> float:
        return 0.0


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


def names(paths: MosaicPaths) -> list[str]:
    return [entry.name for entry in DatasetRegistry(paths).list()]


def large(seed: int = 0) -> dict[str, Any]:
    found = made_sets.columns(ROWS, width=20, last=500, seed=seed)
    return found | {"next_observations": np.roll(found["observations"], -1, axis=0)}


def whole(name: str, paths: MosaicPaths, steps: int) -> None:
    entry = DatasetRegistry(paths).find(name)
    assert not entry.integrity() and entry.manifest.steps == steps
    left = [path.name for path in paths.datasets.iterdir() if path.name.startswith(f".{name}.")]
    assert left == [], "what was begun is cleared away"


def test_an_import_that_is_killed_leaves_nothing_and_can_be_made(paths: MosaicPaths, tmp_path: Path) -> None:
    file = tmp_path / "given.hdf5"
    made_sets.write_flat(file, large())
    mosaic = CommandLine(paths.root)
    words = ("datasets", "import", str(file), "it")
    killed(mosaic, lambda: list(paths.datasets.glob(".it.*/data.hdf5")), AtOnce(), *words)
    assert names(paths) == []
    assert mosaic(*words).code == 0
    whole("it", paths, ROWS)


def test_a_merge_that_is_killed_leaves_the_two_and_can_be_made(paths: MosaicPaths) -> None:
    more = {"observation_space": made_sets.box(20)}
    for seed, name in enumerate(("one", "two")):
        made_sets.flat_set(paths, name, large(seed), **more)
    mosaic = CommandLine(paths.root)
    words = ("datasets", "merge", "one", "two", "--into", "it")
    killed(mosaic, lambda: list(paths.datasets.glob(".it.*/data.hdf5")), AtOnce(), *words)
    assert names(paths) == ["one", "two"]
    assert mosaic(*words).code == 0
    whole("it", paths, 2 * ROWS)


def test_a_collection_that_is_killed_leaves_nothing_and_no_process(paths: MosaicPaths) -> None:
    write_run(paths, RUN_B, "actor")
    new_checkpoint(paths.run(RUN_B).checkpoints, "dqn")
    mosaic = CommandLine(paths.root)
    words = ("datasets", "collect", "it", "--from", "actor", "--mix", "random:1", "--steps")
    killed(mosaic, lambda: list(paths.datasets.glob(".it.*/parts/*/*")), AtOnce(), *words, "50000000")
    assert names(paths) == []
    assert mosaic(*words, "50").code == 0
    assert DatasetRegistry(paths).find("it").manifest.actors.keys() == {"random"}
    assert [path.name for path in paths.datasets.iterdir()] == ["it"]


@pytest.fixture
def halting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str | None], threading.Event]]:
    """A server that stops in the middle of its first answer, and what was asked of it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    file = tmp_path / "given.hdf5"
    made_sets.write_flat(file, made_sets.columns(20_000, last=500))
    content, asked, go_on = file.read_bytes(), list[str | None](), threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Range"))
            first = int((asked[-1] or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            self.send_response(206 if first else 200)
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - first))
            self.send_header("ETag", '"same"')
            self.end_headers()
            self.wfile.write(content[first : len(content) // 2] if not first else content[first:])
            self.wfile.flush()
            if not first:
                go_on.wait(HANG_GUARD)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/given.hdf5", asked, go_on
    go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_that_is_killed_goes_on_where_it_was(
    halting: tuple[str, list[str | None], threading.Event], paths: MosaicPaths
) -> None:
    url, asked, go_on = halting
    mosaic = CommandLine(paths.root, {"no_proxy": "127.0.0.1"})

    def some_arrived() -> bool:
        return any(part.stat().st_size > 100_000 for part in paths.datasets.glob(".downloads/*.part"))

    killed(mosaic, some_arrived, AtOnce(), "datasets", "download", url, "it")
    go_on.set()
    assert names(paths) == []
    assert mosaic("datasets", "download", url, "it").code == 0
    assert asked[0] is None and int(str(asked[-1]).removeprefix("bytes=").rstrip("-")) > 100_000
    whole("it", paths, 20_000)


@on_a_small_disk
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", megabytes=9)
    try:
        home = disk.mount() / "home"
        paths, mosaic = MosaicPaths(home), CommandLine(home)
        file = tmp_path / "given.hdf5"
        made_sets.write_flat(file, made_sets.columns(20_000, last=500))
        answer = mosaic("datasets", "import", str(file), "it")
        assert answer.code == 2 and "given.hdf5 unpacks to 520.0 kB, and 0 B of the disk of" in answer.err, answer
        for name in ("one", "two"):
            made_sets.flat_set(paths, name, made_sets.columns(70_000, last=500))
        # In a process of its own: HDF5 crashes with the process that it could not write for.
        command = mosaic.process("datasets", "merge", "one", "two", "--into", "it")
        _, told = command.communicate(timeout=HANG_GUARD)
        assert told.decode() == f"mosaic: {paths.dataset('it')} cannot be written: No space left on device\n"
        assert command.returncode == 2 and sorted(path.name for path in paths.datasets.iterdir()) == ["one", "two"]
    finally:
        disk.unmount()
