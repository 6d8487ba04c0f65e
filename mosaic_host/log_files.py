"""A run's log files: rotated while its worker writes to them, followed by watchers, quoted when a run fails.

The worker writes straight into ``stdout.log`` and ``stderr.log`` (appending), so logs survive the daemon's death. The
daemon rotates by copying a grown file to ``<name>.1`` and cutting the original; appending writers go on at its
beginning. A log that grows faster than it is rotated, or on a full disk, loses its older part, and a line says so.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, TypeAlias

from mosaic_host.telling import HostEvent, Tell, to_plain_log
from mosaic_protocol.full_disk import is_disk_full
from mosaic_protocol.regular_files import open_regular

SOURCES = ("stdout", "stderr")
KEPT_ROTATIONS = 3
_CHUNK = 64 * 1024
_CHUNKS_AT_ONCE = 16
_LEFT_OUT = re.compile(rb"\[mosaic: (\d{1,18}) bytes of this log were left out here[^\n]*\n")
_OUTRUN = "it grew faster than it is rotated"
_LINE_END = re.compile(rb"\n|\r(?!\n)")

_switching = threading.Lock()
"""Held while a log changes places with its rotations, and while a follower looks where it is: nothing is read twice."""


def rotate_run_logs(directory: Path, limit: int, tell: Tell = to_plain_log) -> None:
    """Rotate both logs of a run. One that cannot be rotated does not keep the other; its error is raised after."""
    problems: list[OSError] = []
    for source in SOURCES:
        try:
            rotate_if_grown(directory / f"{source}.log", limit, tell)
        except OSError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def rotate_if_grown(path: Path, limit: int, tell: Tell = to_plain_log) -> bool:
    """Rotate one file when it is larger than ``limit`` bytes; True when it was.

    On a full disk older rotations are given up for the copy, one at a time; a log that grows and grows without one is
    cut, because a run that prints without end would else hold the disk for ever.
    """
    if _size(path) <= limit:
        return False
    try:
        try:
            _rotate(path, limit)
        except OSError as error:
            if not is_disk_full(error) or not _drop_oldest(path, tell):
                raise
            _rotate(path, limit)
    except OSError as error:
        if not is_disk_full(error) or _size(path) <= (KEPT_ROTATIONS + 1) * limit:
            raise
        _cut(path, tell)
    return True


def _rotate(path: Path, limit: int) -> None:
    """Nothing is cut unless a copy of its end is kept."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        with path.open("r+b") as source, draft.open("wb") as sink:
            room = _copy_end(source, sink, limit)
            with _switching:
                _copy_the_rest(source, sink, room)
                sink.flush()
                _make_room(path)
                draft.replace(_rotation(path, 1))
                os.ftruncate(source.fileno(), 0)
    finally:
        draft.unlink(missing_ok=True)


def _copy_end(source: IO[bytes], sink: IO[bytes], limit: int) -> int:
    """Copy the newest part of a log: all of one that is rotated in time, the last ``limit`` bytes of one that outran
    the rotation. Returns how many bytes more may follow, of what is written meanwhile."""
    limit = max(limit, _CHUNK)
    size = os.fstat(source.fileno()).st_size
    if size > 2 * limit:
        left_out = source.seek(size - limit)
        sink.write(_left_out_line(left_out, _OUTRUN))
    return 2 * limit - _copy(source, sink, 2 * limit)


def _copy_the_rest(source: IO[bytes], sink: IO[bytes], room: int) -> None:
    """What is written between the last look and the cut is lost: the writer does not know of the rotation."""
    while (missed := os.fstat(source.fileno()).st_size - source.tell()) and room > 0:
        room -= _copy(source, sink, min(room, missed))
    if missed:
        sink.write(_left_out_line(missed, _OUTRUN))


def _copy(source: IO[bytes], sink: IO[bytes], most: int) -> int:
    """Copy until nothing new comes or there is enough; how many bytes that were."""
    copied = 0
    while copied < most and (data := source.read(min(_CHUNK, most - copied))):
        sink.write(data)
        copied += len(data)
    return copied


def _make_room(path: Path) -> None:
    for number in range(KEPT_ROTATIONS - 1, 0, -1):
        older = _rotation(path, number)
        if older.exists():
            older.replace(_rotation(path, number + 1))


def _drop_oldest(path: Path, tell: Tell) -> bool:
    """Give the oldest rotation up; False when there is none."""
    kept = _rotations(path)
    if not kept:
        return False
    kept[-1].unlink()
    _tell_loss(tell, kept[-1], "given up, because the disk is full")
    return True


def _cut(path: Path, tell: Tell) -> None:
    """Empty a log without keeping anything of it."""
    with _switching, path.open("ab", buffering=0) as file:
        left_out = os.fstat(file.fileno()).st_size
        os.ftruncate(file.fileno(), 0)
        with suppress(OSError):
            file.write(_left_out_line(left_out, "there was no disk space to keep them"))
    _tell_loss(tell, path, f"cut: {left_out} bytes of it are gone, because the disk is full")


def _left_out_line(count: int, why: str) -> bytes:
    return f"[mosaic: {count} bytes of this log were left out here, because {why}]\n".encode()


def _tell_loss(tell: Tell, path: Path, what: str) -> None:
    tell(HostEvent.LOG_SHORTENED, {"path": str(path), "reason": f"log {what}"})


def _rotation(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _rotations(path: Path) -> list[Path]:
    """What is kept of a log beside it, newest first."""
    numbered = (_rotation(path, number) for number in range(1, KEPT_ROTATIONS + 1))
    return [rotation for rotation in numbered if rotation.exists()]


Identity: TypeAlias = tuple[int, int]
"""Identifies a rotated file, whatever its number."""


@dataclass(frozen=True)
class LogPlace:
    """Up to where a log was read, across rotations."""

    path: Path
    offset: int
    newest: Identity | None
    unread: tuple[tuple[Identity, int], ...]
    until: int = sys.maxsize
    """Where to stop in the file itself."""


@dataclass
class _Unread:
    """What is still to be read of a rotated file."""

    file: Identity
    position: int = 0


class LogFollower:
    """Reads one log file from a starting point and goes on where it grew, also across rotations: what they left out is
    missing here as well, and nothing comes twice. Needs little memory whatever the file's size. For a thread, and for
    one at a time."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self._past: deque[_Unread] = deque()
        self._until = sys.maxsize
        self._newest = _identity(_rotation(path, 1))
        """The newest rotation that is known: those before it were made since."""

    def start_at_tail(self, lines: int) -> None:
        """Begin with the last lines of what is kept; 0 begins with everything."""
        with _switching:
            rotated, size = _identities(self.path), _size(self.path)
            self._newest = rotated[0] if rotated else None
        if lines == 0:
            self._past.extend(_Unread(file) for file in reversed(rotated))
            return
        current = partial(_read_from, self.path)
        self.offset, missing = _start_of_last_lines(current, size, lines)
        for file in rotated:  # a log that was just rotated, as at the end of a loud run, holds few of them itself
            if missing <= 0:
                return
            start, missing = self._start_in_rotated(file, missing)
            self._past.appendleft(_Unread(file, start))

    def _start_in_rotated(self, file: Identity, lines: int) -> tuple[int, int]:
        place = _place_of(self.path, file)

        def read(start: int, size: int) -> bytes:
            return _read_rotated(self.path, _Unread(file, start), size)

        return _start_of_last_lines(read, _size(place) if place else 0, lines)

    @property
    def place(self) -> LogPlace:
        """Where it is. Followers at the same place of a log read the same next."""
        unread = tuple((one.file, one.position) for one in self._past)
        return LogPlace(self.path, self.offset, self._newest, unread, self._until)

    @classmethod
    def at(cls, place: LogPlace) -> LogFollower:
        follower = cls(place.path)
        follower.offset, follower._newest, follower._until = place.offset, place.newest, place.until
        follower._past.extend(_Unread(file, position) for file, position in place.unread)
        return follower

    def stop_at_end(self) -> None:
        """Read what is there and no more: a run may print faster than somebody reads who does not want to follow."""
        self._until = _size(self.path)

    def read_new(self) -> list[bytes]:
        """Some of what came since the last call; empty when nothing did."""
        return list(islice(self.new_data(), _CHUNKS_AT_ONCE))

    def new_data(self) -> Iterator[bytes]:
        """What came since the last call, in chunks."""
        while data := self._next_chunk():
            yield data

    def _next_chunk(self) -> bytes:
        with _switching:
            self._notice_rotations()
            while self._past:
                if data := _read_rotated(self.path, self._past[0]):
                    return data
                self._past.popleft()
            data = _read_from(self.path, self.offset, min(_CHUNK, max(0, self._until - self.offset)))
            self.offset += len(data)
            return data

    def _notice_rotations(self) -> None:
        """What was still to be read of the file now lies in the oldest of the rotations made since."""
        fresh = list(takewhile(lambda file: file != self._newest, _identities(self.path)))
        if fresh:
            self._past.append(_Unread(fresh[-1], _place_in_copy(self.path, fresh[-1], self.offset)))
            self._past.extend(_Unread(file) for file in reversed(fresh[:-1]))
            self._newest = fresh[0]
        if fresh or _size(self.path) < self.offset:  # the latter: it was cut, and nothing of it is kept
            self.offset = 0


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _identities(path: Path) -> list[Identity]:
    """The rotations of a log, newest first."""
    return [found for rotation in _rotations(path) if (found := _identity(rotation)) is not None]


def _place_of(path: Path, file: Identity) -> Path | None:
    """Where a rotated file is now; None when it is not kept any more."""
    return next((rotation for rotation in _rotations(path) if _identity(rotation) == file), None)


def _read_rotated(path: Path, unread: _Unread, size: int = _CHUNK) -> bytes:
    """The next piece of a rotated file; nothing at its end, or when it is not kept any more."""
    place = _place_of(path, unread.file)
    data = _read_from(place, unread.position, size) if place is not None else b""
    unread.position += len(data)
    return data


def _place_in_copy(path: Path, file: Identity, offset: int) -> int:
    """Where the log's byte ``offset`` is in its copy, which may lack the beginning and then says so."""
    notice = _LEFT_OUT.match(_read_rotated(path, _Unread(file)))
    if notice is None:
        return offset
    beyond = offset - int(notice[1])
    return notice.end() + beyond if beyond > 0 else 0


def _start_of_last_lines(read: Callable[[int, int], bytes], size: int, lines: int) -> tuple[int, int]:
    """Where the last lines of the first ``size`` bytes begin, looked for backwards, and how many are not there."""
    after = b""
    for start in range((size - 1) // _CHUNK * _CHUNK, -1, -_CHUNK):
        block = read(start, min(_CHUNK, size - start))
        found = [match.end() for match in _LINE_END.finditer(block + after) if match.start() < len(block)]
        begins = [start + end for end in found if start + end < size]
        if len(begins) >= lines:
            return begins[-lines], 0
        lines, after = lines - len(begins), block[:1]
    return 0, lines - 1 if size > 0 else lines


def stderr_summary(directory: Path) -> str:
    """The line of stderr that says most: the last one, which for a Python traceback is the error itself. It may have
    been rotated away already."""
    log = directory / "stderr.log"
    for path in (log, _rotation(log, 1)):
        lines = [line for line in tail_text(path).splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:300]
    return ""


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
        with open_regular(path) as file:
            file.seek(offset)
            return file.read(size)
    except OSError:
        return b""
