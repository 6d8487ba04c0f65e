"""A dataset that a full disk cannot take: one sentence, and nothing is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.errors import UsageError
from mosaic_worker.offline.rows_file import table_in_file
from mosaic_worker.tests.replay.recorded import record


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", megabytes=1)
    yield disk
    disk.unmount()


@on_a_small_disk
def test_a_dataset_that_finds_no_space_ends_in_a_sentence_and_leaves_nothing(disk: SmallDisk, tmp_path: Path) -> None:
    recording = record(tmp_path / "recording", "CartPole-v1", seeds=tuple(range(300)))
    home = disk.mount() / "home"
    # In a process of its own: HDF5 crashes with the process that it could not write for.
    command = CommandLine(home).process("datasets", "from-run", str(recording.folder), "poles")
    _, told = command.communicate(timeout=HANG_GUARD)
    place = MosaicPaths(home).dataset("poles")
    assert told.decode() == f"mosaic: {place} cannot be written: No space left on device\n"
    assert command.returncode == 2 and list(place.parent.iterdir()) == []


@on_a_small_disk
def test_rows_that_neither_memory_nor_the_disk_has_room_for_are_refused_and_leave_nothing(disk: SmallDisk) -> None:
    folder = disk.mount()
    with pytest.raises(UsageError, match="has no room for a file of them: No space left on device"):
        table_in_file(10**6, 1, folder)
    table = table_in_file(10**5, 2, folder)
    table[99_999] = 1
    assert table.shape == (10**5, 2) and table.sum() == 2
    assert list(folder.iterdir()) == []
