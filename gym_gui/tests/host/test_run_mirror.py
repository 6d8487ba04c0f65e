"""Files of a run come home bit by bit, a checkpoint whole or not at all; no name that a host gives leads elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.services.trainer.execution.hosts.mirror import RunMirror
from gym_gui.tests.support.run_records import new_run_id
from mosaic_host.hosted import HostedAgent
from mosaic_host.hosting import PIECE_BYTES, RUN, FileState
from mosaic_host.warm_pool import WarmPool
from mosaic_protocol.paths import MosaicPaths


class There(HostedAgent):
    """An agent in this process, with a data root of its own; remembers what was read of which file."""

    def __init__(self, root: Path) -> None:
        super().__init__(MosaicPaths(root), WarmPool(root / "fork.log", enabled=False))
        self.read: list[tuple[str, int]] = []
        self.before_piece: Callable[[str], None] = lambda _: None
        self.named: list[FileState] = []
        """Files that it names besides."""

    async def files(self, run_id: str) -> list[FileState]:
        return [*await super().files(run_id), *self.named]

    async def read_piece(self, run_id: str, area: str, name: str, offset: int, most: int) -> bytes:
        self.before_piece(name)
        self.read.append((name, offset))
        return await super().read_piece(run_id, area, name, offset, most)


class Run:
    """The same run on both sides."""

    def __init__(self, root: Path) -> None:
        self.run_id = new_run_id()
        self.host = There(root / "there")
        self.paths = MosaicPaths(root / "here")
        self.there = MosaicPaths(root / "there").run(self.run_id).directory
        self.logs_there = MosaicPaths(root / "there").run_logs(self.run_id)
        self.here = self.paths.run(self.run_id).directory
        self.mirror = RunMirror(self.paths, self.run_id)

    def write(self, name: str, content: bytes, *, append: bool = False) -> None:
        file = self.there / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab" if append else "wb") as stream:
            stream.write(content)

    def names(self) -> set[str]:
        return {file.relative_to(self.here).as_posix() for file in self.here.rglob("*") if file.is_file()}


@pytest.fixture
async def run(tmp_path: Path) -> Run:
    made = Run(tmp_path)
    await made.host.make_run(made.run_id)
    made.write("claims/attempt-1", b"{}")
    made.here.mkdir(parents=True)
    return made


async def test_what_grew_is_read_from_where_the_last_look_ended(run: Run) -> None:
    run.write("tensorboard/events.out.tfevents.1", b"a" * 100)
    await run.mirror.follow(run.host)
    run.write("tensorboard/events.out.tfevents.1", b"b" * 50, append=True)
    run.host.read.clear()
    await run.mirror.follow(run.host)
    assert run.host.read[0] == ("tensorboard/events.out.tfevents.1", 100)
    assert (run.here / "tensorboard/events.out.tfevents.1").read_bytes() == b"a" * 100 + b"b" * 50
    run.host.read.clear()
    await run.mirror.follow(run.host)
    assert run.host.read == [], "what did not change is not read"


async def test_a_file_that_was_written_anew_is_read_anew(run: Run) -> None:
    run.write("results.json", b"[1, 2, 3]")
    await run.mirror.follow(run.host)
    run.write("results.json", b"[4, 5, 6, 7]")
    await run.mirror.follow(run.host)
    assert (run.here / "results.json").read_bytes() == b"[4, 5, 6, 7]"


async def test_a_log_that_was_cut_is_cut_here_and_stays_the_same_file(run: Run) -> None:
    log, here = run.logs_there / "stdout.log", run.paths.run_logs(run.run_id) / "stdout.log"
    log.write_bytes(b"one\ntwo\n")
    await run.mirror.follow(run.host)
    inode = here.stat().st_ino
    log.write_bytes(b"3\n")
    await run.mirror.follow(run.host)
    assert (here.read_bytes(), here.stat().st_ino) == (b"3\n", inode)


async def test_a_checkpoint_appears_whole_and_goes_when_the_worker_gave_it_up(run: Run) -> None:
    run.write("checkpoints/step-1/model.safetensors", os.urandom(PIECE_BYTES + 17))
    run.write("checkpoints/step-1/checkpoint.json", b"{}")
    run.write("checkpoints/.step-2.draft/checkpoint.json", b"{")
    seen: list[bool] = []
    run.host.before_piece = lambda _: seen.append((run.here / "checkpoints/step-1").exists())
    await run.mirror.follow(run.host)
    assert seen and not any(seen)
    assert run.names() == {"checkpoints/step-1/model.safetensors", "checkpoints/step-1/checkpoint.json"}
    (run.there / "checkpoints/step-1").rename(run.there / "checkpoints/.gone")
    await run.mirror.follow(run.host)
    assert run.names() == set()


async def test_an_empty_folder_in_the_place_of_the_run_takes_no_checkpoint_away(run: Run) -> None:
    run.write("checkpoints/step-1/checkpoint.json", b"{}")
    await run.mirror.follow(run.host)
    run.there.rename(run.there.with_name("away"))
    run.there.mkdir()
    await run.mirror.follow(run.host)
    assert run.names() == {"checkpoints/step-1/checkpoint.json"}


async def test_what_differs_at_the_end_is_read_again_and_the_journal_comes_along(run: Run) -> None:
    run.write("tensorboard/events.out.tfevents.1", b"a" * 100)
    await run.mirror.follow(run.host)
    (run.here / "tensorboard/events.out.tfevents.1").write_bytes(b"x" * 100)
    run.write("outbox/worker-000000000001.jsonl", b"{}\n")
    await run.mirror.complete(run.host)
    assert (run.here / "tensorboard/events.out.tfevents.1").read_bytes() == b"a" * 100
    assert (run.here / "outbox/worker-000000000001.jsonl").read_bytes() == b"{}\n"
    assert not (run.here / "claims").exists()


async def test_links_pipes_and_hidden_files_stay_where_they_are(run: Run) -> None:
    (run.there / "secret").symlink_to("/etc/hostname")
    os.mkfifo(run.there / "pipe")
    run.write(".draft", b"x")
    await run.mirror.complete(run.host)
    assert run.names() == set()


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "checkpoints/../../x", "checkpoints/s/../../../x", ""])
async def test_a_name_that_leads_elsewhere_is_refused(run: Run, name: str) -> None:
    run.host.named.append(FileState(RUN, name, 1, 1, 1))
    with pytest.raises(OSError, match="none of the run's"):
        await run.mirror.follow(run.host)


async def test_nothing_is_written_through_a_link_here(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run.here / "videos").symlink_to(tmp_path / "elsewhere")
    run.write("videos/clip.mp4", b"x")
    with pytest.raises(OSError, match="is a link"):
        await run.mirror.follow(run.host)
    assert list((tmp_path / "elsewhere").iterdir()) == []
