"""Pictures in shared memory: whole or not at all, and nothing is left of a session that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mosaic_protocol.live import frames
from mosaic_protocol.live.frames import FrameReader, FramesError, FramesGoneError, FrameWriter, newest_of, remove_stale

WIDTH, HEIGHT = 160, 120
SIZE = WIDTH * HEIGHT * 3

_WRITER = """
import sys
from pathlib import Path
from mosaic_protocol.live.frames import FrameWriter
width, height = 160, 120
writer = FrameWriter(width * height * 3, Path(sys.argv[1]))
print(writer.path, flush=True)
number = 0
while True:
    number += 1
    writer.put(width, height, bytes([number % 251]) * (width * height * 3))
"""


@pytest.fixture
def endless_writer(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_the_newest_picture_wins(tmp_path: Path) -> None:
    with closing(FrameWriter(12, tmp_path)) as writer, closing(FrameReader(writer.path)) as reader:
        assert reader.latest() is None
        for number in range(1, 8):
            assert writer.put(2, 2, bytes([number]) * 12) == number
        found = reader.latest()
        assert found == (7, 2, 2, bytes([7]) * 12)
        assert reader.latest(after=7) is None
        writer.put(1, 1, b"abc")
        assert reader.latest(after=7) == (8, 1, 1, b"abc")


def test_no_picture_is_torn_while_it_is_read(endless_writer: tuple[subprocess.Popen[str], Path]) -> None:
    _, path = endless_writer
    seen, last = 0, 0
    with closing(FrameReader(path)) as reader:
        while seen < 300:
            frame = reader.latest(last)
            if frame is None:
                continue
            assert frame.number > last
            assert frame.pixels == frame.pixels[:1] * SIZE, "pixels of two pictures"
            assert frame.pixels[0] == frame.number % 251
            seen, last = seen + 1, frame.number


def test_a_killed_session_leaves_pictures_only_until_the_next_one(
    endless_writer: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, path = endless_writer
    with closing(FrameWriter(12, tmp_path)) as alive:
        assert path.exists(), "its session lives"
        with closing(FrameReader(path)) as reader:
            while reader.latest() is None:  # it says where its file is before it has drawn anything
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            assert reader.latest() is not None, "the picture before the one that it died in is whole"
            with closing(FrameWriter(12, tmp_path)):
                assert not path.exists()
        assert alive.path.exists()
    assert not list(tmp_path.iterdir())


def test_a_reader_that_dies_disturbs_nobody(tmp_path: Path) -> None:
    reading = "import sys, time; from pathlib import Path; from mosaic_protocol.live.frames import FrameReader\n"
    reading += "reader = FrameReader(Path(sys.argv[1])); reader.latest(); print('reads', flush=True); time.sleep(60)"
    with closing(FrameWriter(12, tmp_path)) as writer:
        writer.put(2, 2, bytes(12))
        process = subprocess.Popen([sys.executable, "-c", reading, str(writer.path)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"reads\n"
        process.kill()
        process.wait(10)
        process.stdout.close()
        assert writer.put(2, 2, bytes(12)) == 2
        assert writer.path.exists()
        assert remove_stale(tmp_path) == 0


def test_what_no_session_wrote_is_refused(tmp_path: Path) -> None:
    short, foreign, link, pipe = (tmp_path / name for name in ("short", "foreign", "link", "pipe"))
    short.write_bytes(b"x")
    foreign.write_bytes(bytes(4096))
    with closing(FrameWriter(12, tmp_path)) as writer:
        link.symlink_to(writer.path)
        os.mkfifo(pipe)
        for path in (short, foreign, link, pipe, tmp_path / "none", tmp_path):
            with pytest.raises(FramesError):
                FrameReader(path)


def test_a_picture_that_has_no_room_is_refused_and_the_last_one_stays(tmp_path: Path) -> None:
    with closing(FrameWriter(12, tmp_path)) as writer, closing(FrameReader(writer.path)) as reader:
        writer.put(2, 2, bytes(12))
        for width, height, pixels in ((3, 2, bytes(18)), (2, 2, bytes(11))):
            with pytest.raises(FramesError, match="has no room"):
                writer.put(width, height, pixels)
        found = reader.latest()
        assert found is not None and found.number == 1
    with pytest.raises(FramesError, match="too large"):
        FrameWriter(frames.MOST_FRAME_BYTES + 1, tmp_path)


def test_a_picture_is_read_without_a_map_where_sessions_put_them_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "folder", lambda: tmp_path / "memory")
    (tmp_path / "memory").mkdir()
    with closing(FrameWriter(24)) as writer, closing(FrameWriter(24, tmp_path)) as aside:
        assert newest_of(writer.path, 0, 100) is None, "nothing is drawn yet"
        for shade in range(6):
            writer.put(2, 2, bytes([shade]) * 12)
        assert newest_of(writer.path, 5, 100) == (6, 2, 2, bytes([5]) * 12)
        assert newest_of(writer.path, 6, 100) is None
        with pytest.raises(FramesError, match="too large to be sent"):
            newest_of(writer.path, 0, 11)
        aside.put(2, 2, bytes(12))
        link = writer.path.with_name(writer.path.name[:-4] + "ffff")
        link.symlink_to(aside.path)
        other = writer.path.with_name("mosaic-frames-0-notes")
        other.write_bytes(writer.path.read_bytes())
        for path in (aside.path, link, other, tmp_path / "memory" / "x" / ".." / writer.path.name):
            with pytest.raises(FramesError, match="cannot be read"):
                newest_of(path, 0, 100)
        os.truncate(writer.path, 80)
        with pytest.raises(FramesError, match="no file of pictures"):
            newest_of(writer.path, 0, 100)
    with pytest.raises(FramesGoneError):
        newest_of(writer.path, 0, 100)
