"""Pictures of a session in a file that the session and its watchers map: the latest wins, nobody waits.

Four slots are written in turn. Each has the number of its picture before and after the pixels, so a reader notices when
a picture was replaced while it copied. Numbers are stored with one store of eight bytes (an aligned word of a
``memoryview``), which no reader sees half of.

The writer holds a lock on its file while it lives. A file without a lock is what a killed session left: the next
session removes it. Space is reserved before the file is mapped, because a page that a full ``/dev/shm`` cannot give
would end the process with SIGBUS.

So would a page of a file that its session cut short. A screen takes that risk, for speed; :func:`newest_of` maps
nothing, for a process that must outlive every session.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
import sys
import tempfile
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SLOTS = 4
MOST_FRAME_BYTES = 64 * 1024 * 1024
_PREFIX = "mosaic-frames-"
_UNIQUE = re.compile(r"[0-9a-f]{32}")
_MAGIC = int.from_bytes(b"MOSFRAM1", "little")
_HEAD_BYTES = _SLOT_HEAD_BYTES = 64
_WORD = 8
_MAGIC_AT, _SLOTS_AT, _BYTES_AT, _LATEST_AT = range(4)
_BEFORE, _AFTER, _WIDTH, _HEIGHT = range(4)
_TRIES = 4


class FramesError(OSError):
    """A file of pictures cannot be made or read; ``str()`` is one sentence."""


class FramesGoneError(FramesError):
    """The file is not there any more: its session ended, or shows larger pictures in another one."""


class Frame(NamedTuple):
    """One picture: rows of pixels from the top, three bytes (red, green, blue) each."""

    number: int
    width: int
    height: int
    pixels: bytes


def folder() -> Path:
    """Memory where there is such a file system, else the disk."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def is_place_of_pictures(path: Path) -> bool:
    """Whether sessions of this user put their pictures into files of such a name, and in that folder."""
    mine = f"{_PREFIX}{os.getuid()}-"
    unique = path.name.removeprefix(mine)
    return path.parent == folder() and path.name.startswith(mine) and _UNIQUE.fullmatch(unique) is not None


class FrameWriter:
    """The session's side. Belongs to one thread, and to the process that made it: a game may fork, and what its child
    does on the way out is not the session's end."""

    def __init__(self, frame_bytes: int, place: Path | None = None) -> None:
        """Room for pictures of at most so many bytes. Removes what killed sessions left. Raises FramesError."""
        place = place or folder()
        if not 0 < frame_bytes <= MOST_FRAME_BYTES:
            raise FramesError(f"a picture of {frame_bytes:,} bytes is too large: at most {MOST_FRAME_BYTES:,}")
        remove_stale(place)
        self.frame_bytes = frame_bytes
        self._stride = _SLOT_HEAD_BYTES + -(-frame_bytes // _SLOT_HEAD_BYTES) * _SLOT_HEAD_BYTES
        self.path, self._descriptor = _new_file(place, _HEAD_BYTES + SLOTS * self._stride)
        self._map = mmap.mmap(self._descriptor, 0)
        self._memory = memoryview(self._map)
        self._words = self._memory.cast("Q")
        self._words[_SLOTS_AT], self._words[_BYTES_AT] = SLOTS, self._stride
        self._words[_MAGIC_AT] = _MAGIC
        self._number, self._owner = 0, os.getpid()

    def put(self, width: int, height: int, pixels: bytes | memoryview) -> int:
        """Show a picture; its number. Raises FramesError for one that has no room, and in a fork of the session."""
        if os.getpid() != self._owner:
            raise FramesError("these are the pictures of another process")
        view = memoryview(pixels).cast("B")
        if len(view) != width * height * 3 or len(view) > self.frame_bytes:
            raise FramesError(f"a picture of {width}x{height} has no room in {self.frame_bytes:,} bytes")
        self._number += 1
        at = _HEAD_BYTES + (self._number % SLOTS) * self._stride
        head, words = at // _WORD, self._words
        words[head + _BEFORE] = self._number
        words[head + _WIDTH], words[head + _HEIGHT] = width, height
        self._memory[at + _SLOT_HEAD_BYTES : at + _SLOT_HEAD_BYTES + len(view)] = view
        words[head + _AFTER] = self._number
        words[_LATEST_AT] = self._number
        return self._number

    def close(self) -> None:
        """Remove the file; readers keep what they have mapped. May be called more than once."""
        if self._descriptor < 0:
            return
        if os.getpid() == self._owner:
            with suppress(OSError):
                self.path.unlink()
        self._words.release()
        self._memory.release()
        self._map.close()
        os.close(self._descriptor)
        self._descriptor = -1


class _Reader(ABC):
    """Finds the newest picture in what a session wrote. Nothing in there is believed: sizes are compared with the room
    that there is, and a picture that is replaced while it is copied is left alone."""

    _room: int
    """Bytes of the file, as far as they may be read."""

    @abstractmethod
    def _word(self, at: int) -> int:
        """A word of eight bytes, by its number."""

    @abstractmethod
    def _part(self, at: int, size: int) -> bytes:
        """Bytes from a place on. Less than ``size`` where the file ends."""

    @property
    def _stride(self) -> int:
        return self._word(_BYTES_AT)

    def _require_pictures(self) -> None:
        stride = self._stride
        has_room = self._room >= _HEAD_BYTES + SLOTS * stride and stride > _SLOT_HEAD_BYTES
        if self._word(_MAGIC_AT) != _MAGIC or self._word(_SLOTS_AT) != SLOTS or not has_room:
            raise FramesError("this is no file of pictures, or one of another version of MOSAIC")

    def _latest(self, after: int, stride: int) -> Frame | None:
        for _ in range(_TRIES):
            number = self._word(_LATEST_AT)
            if number <= after:
                return None
            at = _HEAD_BYTES + (number % SLOTS) * stride
            head = at // _WORD
            if self._word(head + _AFTER) != number:
                continue
            width, height = self._word(head + _WIDTH), self._word(head + _HEIGHT)
            size = width * height * 3
            if size > stride - _SLOT_HEAD_BYTES:
                continue
            pixels = self._part(at + _SLOT_HEAD_BYTES, size)
            if self._word(head + _BEFORE) == number and len(pixels) == size:
                return Frame(number, width, height, pixels)
        return None  # the writer was faster each time: there is a next look


class FrameReader(_Reader):
    """A watcher's side. Belongs to one thread; the writer does not notice it."""

    def __init__(self, path: Path) -> None:
        """Raises FramesError for a file that no session of this user wrote."""
        self.path = path
        descriptor = _opened(path)
        try:
            self._room = _size_of(descriptor)
            self._map = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self._memory = memoryview(self._map)
        self._words = self._memory.cast("Q")
        self._room = min(self._room, len(self._memory))
        try:
            self._require_pictures()
        except FramesError:
            self.close()
            raise
        self._slot_bytes = self._stride

    def latest(self, after: int = 0) -> Frame | None:
        """The newest whole picture with a number above ``after``; None when there is none."""
        return self._latest(after, self._slot_bytes)

    def close(self) -> None:
        self._words.release()
        self._memory.release()
        self._map.close()

    def _word(self, at: int) -> int:
        return self._words[at]

    def _part(self, at: int, size: int) -> bytes:
        return bytes(self._memory[at : at + size])


def newest_of(path: Path, after: int, most_bytes: int) -> Frame | None:
    """The newest whole picture of a file with a number above ``after``; None when there is none.

    Maps nothing, and leaves nothing open. Raises FramesError for a file that is not where sessions of this user put
    their pictures, or that none of them wrote, and for a picture of more than ``most_bytes``.
    """
    if not is_place_of_pictures(path):
        raise FramesError("the pictures cannot be read: they are not where sessions put them")
    descriptor = _opened(path)
    try:
        return _UnmappedReader(descriptor).latest(after, most_bytes)
    finally:
        os.close(descriptor)


class _UnmappedReader(_Reader):
    """Reads as from any file. A word may be seen half written here; it is then not the number that is looked for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._room = descriptor, _size_of(descriptor)
        self._most = MOST_FRAME_BYTES

    def latest(self, after: int, most_bytes: int) -> Frame | None:
        self._require_pictures()
        self._most = most_bytes
        return self._latest(after, self._stride_within_room())

    def _stride_within_room(self) -> int:
        return min(self._stride, (self._room - _HEAD_BYTES) // SLOTS)  # it may have changed since it was looked at

    def _word(self, at: int) -> int:
        return int.from_bytes(os.pread(self._descriptor, _WORD, at * _WORD), sys.byteorder)

    def _part(self, at: int, size: int) -> bytes:
        if size > self._most:
            raise FramesError(f"a picture of {size:,} bytes is too large to be sent: at most {self._most:,}")
        return os.pread(self._descriptor, size, at)


def remove_stale(place: Path) -> int:
    """Remove the files of this user whose session is gone; how many there were."""
    removed = 0
    for path in place.glob(f"{_PREFIX}{os.getuid()}-*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while the session lives
                path.unlink()
                removed += 1
            finally:
                os.close(descriptor)
    return removed


def _new_file(place: Path, size: int) -> tuple[Path, int]:
    while True:
        path = place / f"{_PREFIX}{os.getuid()}-{uuid.uuid4().hex}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise FramesError(f"no file for pictures can be made in {place}: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not os.fstat(descriptor).st_nlink:
                os.close(descriptor)  # another session took it for a stale one before it was locked
                continue
            os.posix_fallocate(descriptor, 0, size)
            return path, descriptor
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)
            raise FramesError(f"{size:,} bytes for pictures are not free in {place}: {error.strerror}") from None


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise FramesGoneError(f"the pictures cannot be read: {error.strerror}") from None
    except (OSError, ValueError) as error:  # ValueError: no file has such a name
        raise FramesError(f"the pictures cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _size_of(descriptor: int) -> int:
    """Raises FramesError for a file that no session of this user wrote."""
    found = os.fstat(descriptor)
    most = _HEAD_BYTES + SLOTS * (MOST_FRAME_BYTES + 2 * _SLOT_HEAD_BYTES)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or not _HEAD_BYTES <= found.st_size <= most:
        raise FramesError("the pictures cannot be read: this is no file that a session of this user wrote")
    return found.st_size
