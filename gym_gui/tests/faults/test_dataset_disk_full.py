"""A dataset that a full disk cannot take: one sentence, and nothing is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD
from mosaic_protocol.paths import MosaicPaths
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
