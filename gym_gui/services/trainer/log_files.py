"""A run's log files: rotated while its worker writes to them, followed by watchers, quoted when a run fails.

The worker writes straight into ``stdout.log`` and ``stderr.log`` (appending), so logs survive the daemon's death. The
daemon rotates by copying a grown file to ``<name>.1`` and cutting the original; appending writers go on at its
beginning.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = ("stdout", "stderr")
KEPT_ROTATIONS = 3
_CHUNK = 64 * 1024


def rotate_if_grown(path: Path, limit: int) -> bool:
    """Rotate one file when it is larger than ``limit`` bytes; True when it was."""
    try:
        if path.stat().st_size <= limit:
            return False
    except FileNotFoundError:
        return False
    draft = path.with_name(f"{path.name}.draft")
    try:
        _move_content(path, draft)
        _make_room(path)
        draft.replace(_rotation(path, 1))
    finally:
        draft.unlink(missing_ok=True)
    return True


def _move_content(path: Path, target: Path) -> None:
    """Copy until nothing new came, then cut: what is written in that instant is the price of rotating for a writer
    that does not know of it. Nothing is cut unless the copy is whole."""
    with path.open("r+b") as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)
        while tail := source.read(_CHUNK):
            sink.write(tail)
        sink.flush()
        os.ftruncate(source.fileno(), 0)


def _make_room(path: Path) -> None:
    for number in range(KEPT_ROTATIONS - 1, 0, -1):
        older = _rotation(path, number)
        if older.exists():
            older.replace(_rotation(path, number + 1))


def rotate_run_logs(directory: Path, limit: int) -> None:
    for source in SOURCES:
        rotate_if_grown(directory / f"{source}.log", limit)


def _rotation(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


@dataclass
class LogFollower:
    """Reads one log file from a starting point and goes on where it grew, also across a rotation."""

    path: Path
    offset: int = 0
    _past: list[Path] = field(default_factory=list)

    def start_at_tail(self, lines: int) -> None:
        """Begin with the last lines of what the current file holds; 0 begins with everything that is kept."""
        if lines == 0:
            rotations = (_rotation(self.path, number) for number in range(KEPT_ROTATIONS, 0, -1))
            self._past = [path for path in rotations if path.exists()]
            return
        content = _read_from(self.path, 0)
        wanted = content.splitlines(keepends=True)[-lines:]
        self.offset = len(content) - sum(map(len, wanted))

    def read_new(self) -> list[bytes]:
        """What came since the last call."""
        return list(self.new_data())

    def new_data(self) -> Iterator[bytes]:
        """What came since the last call, in chunks."""
        while self._past:
            yield _read_from(self._past.pop(0), 0)
        if _size(self.path) < self.offset:
            yield _read_from(_rotation(self.path, 1), self.offset)
            self.offset = 0
        while data := _read_from(self.path, self.offset, _CHUNK):
            self.offset += len(data)
            yield data


def stderr_summary(directory: Path) -> str:
    """The line of stderr that says most: the last one, which for a Python traceback is the error itself."""
    lines = [line for line in tail_text(directory / "stderr.log").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def tail_text(path: Path, size: int = 4096) -> str:
    """The end of a text file, "" when there is none."""
    return _read_from(path, max(0, _size(path) - size)).decode(errors="replace")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_from(path: Path, offset: int, size: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError:
        return b""
