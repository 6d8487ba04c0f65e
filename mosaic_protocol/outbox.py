"""The worker's durable journal: what is appended survives the death of the worker and of the daemon.

A journal is a *stream* of records with sequence numbers 1, 2, 3, …, kept in segment files ``<stream>-<first sequence
number>.jsonl`` of one directory. Each stream has exactly one writing process; any process may read. A run may have
several streams (the supervisor's and the script's), so no lock is shared between processes.

Guarantees: a record is either wholly in the journal or absent; sequence numbers have no gaps and never repeat; a torn
last line left by a crash is cut off when the writer opens the stream again, and is not shown to readers. Records are
handed to the operating system at once, so they survive ``kill -9``; they are not fsynced one by one, so a power cut
may take the last moments.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO

from mosaic_protocol import events
from mosaic_protocol.full_disk import may_pass
from mosaic_protocol.regular_files import IrregularFileError, open_regular

SEGMENT_BYTES = 8 * 1024 * 1024
MAX_HELD_RECORDS = 100_000
MESSAGE_BYTES = 4 * 1024 * 1024
"""A message is full when it holds so many bytes; its last record may go beyond."""
MAX_RECORD_BYTES = 4 * 1024 * 1024
MOST_MESSAGE_BYTES = MESSAGE_BYTES + MAX_RECORD_BYTES + 2 * 1024 * 1024  # for what surrounds the records
"""Longer messages are turned away before they are read: reading holds the daemon's event loop up."""
WAITS = "what it journals waits for disk space"
"""How a worker says that records are held."""
_BLOCK_BYTES = 128 * 1024
_FULL_DISK_RETRY_SECONDS = 0.2

_STREAM = re.compile(r"[a-z][a-z0-9_]{0,30}")
_SEGMENT = re.compile(r"([a-z][a-z0-9_]{0,30})-(\d{12})\.jsonl")


class OutboxError(Exception):
    """The journal cannot take or give records; the message says why and what to do."""


def streams(directory: Path) -> list[str]:
    """The names of the streams that exist in an outbox directory, sorted."""
    found = (_SEGMENT.fullmatch(entry.name) for entry in _entries(directory))
    return sorted({match[1] for match in found if match})


def oldest_seq(directory: Path, stream: str) -> int:
    """The number of the oldest record that a stream still holds, or would hold next."""
    segments = _segments(directory, stream)
    return segments[0][0] if segments else 1


class OutboxWriter:
    """The one writer of a stream. Thread-safe within its process.

    While the disk is full, records are held in memory in order and written as soon as there is space again;
    :class:`OutboxError` is raised only when more than :data:`MAX_HELD_RECORDS` are held.
    """

    def __init__(self, directory: Path, stream: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory, self.stream = directory, _checked_stream(stream)
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._held: deque[tuple[int, bytes]] = deque()
        self._owner = os.getpid()
        self._torn = False
        directory.mkdir(exist_ok=True)  # not what is above it: a run's folder that is away comes back
        self._file, self._size, self._last_seq = self._open_tail()

    @property
    def last_seq(self) -> int:
        """The sequence number of the newest record, 0 when there is none."""
        return self._last_seq

    @property
    def held(self) -> int:
        """How many records wait in memory because the disk would not take them."""
        return len(self._held)

    def append(self, record: events.Record) -> int:
        """Give the record its sequence number and time, write it, return the number. Raises :class:`OutboxError`."""
        if os.getpid() != self._owner:
            raise OutboxError(
                f"process {os.getpid()} is a fork of {self._owner}, whose journal this is: write it there"
            )
        if isinstance(record, events.TrainingStep):
            raise OutboxError("a step is no record of a journal: mosaic_worker.recording.step_recorder records steps")
        with self._lock:
            if len(self._held) >= MAX_HELD_RECORDS:
                raise OutboxError(f"{len(self._held)} records wait for space in {self.directory}: free some disk space")
            record.seq = self._last_seq + 1
            record.t = time.time()
            record.v = events.RECORD_VERSION
            line = events.encode(record)
            if len(line) > MAX_RECORD_BYTES:
                raise OutboxError(f"a record of {len(line):,} bytes is too long: at most {MAX_RECORD_BYTES:,} travel")
            self._held.append((record.seq, line + b"\n"))
            self._last_seq = record.seq
            self._write_held()
            return record.seq

    def flush(self) -> bool:
        """Try again to write what is held; True when nothing is left in memory."""
        with self._lock:
            self._write_held()
            return not self._held

    def wait_for_space(self, give_up: Callable[[], bool]) -> bool:
        """Keep trying to write what is held, because it dies with this process; False when ``give_up`` ended that."""
        while not self.flush():
            if give_up():
                return False
            time.sleep(_FULL_DISK_RETRY_SECONDS)
        return True

    def close(self) -> None:
        """Write what can be written and release the file. Appending afterwards is an error."""
        with self._lock:
            self._write_held()
            self._file.close()

    def _write_held(self) -> None:
        while self._held:
            seq, line = self._held[0]
            if not self._write_line(seq, line):
                return
            self._held.popleft()

    def _write_line(self, seq: int, line: bytes) -> bool:
        """Write one whole line or nothing; False when the disk is full, or the folder takes no file for a while."""
        try:
            self._mend()
            if self._size >= self._segment_bytes:
                fresh = _segment_path(self.directory, self.stream, seq).open("ab", buffering=0)
                self._file.close()
                self._file, self._size = fresh, 0
            self._torn = True  # until the whole line is there
            written = self._file.write(line)
        except OSError as error:
            if error.errno != errno.EFBIG and not may_pass(error):
                raise
            written = 0
        if written == len(line):
            self._size += written
            self._torn = False
            return True
        with suppress(OSError):  # a disk that takes no line may not take this either: then before the next one
            self._mend()
        return False

    def _mend(self) -> None:
        """Cut a torn line off: it would swallow the next one."""
        if self._torn:
            os.ftruncate(self._file.fileno(), self._size)
            self._torn = False

    def _open_tail(self) -> tuple[IO[bytes], int, int]:
        segments = _segments(self.directory, self.stream)
        if not segments:
            return _segment_path(self.directory, self.stream, 1).open("ab", buffering=0), 0, 0
        first_seq, path = segments[-1]
        whole, lines = _measure_whole_lines(path)
        file = path.open("ab", buffering=0)
        os.ftruncate(file.fileno(), whole)
        return file, whole, first_seq + lines - 1


@dataclass(frozen=True)
class OutboxPlace:
    """Up to where a stream was read: in which segment (by the number of its first record), bytes and lines of it."""

    segment: int
    offset: int
    next_seq: int


class OutboxReader:
    """Reads a stream in order from after a sequence number. Not thread-safe; any number of readers may exist.

    With ``salvage``, for a journal whose writer is gone and whose lines may be damaged: it begins with the segment that
    holds the number, reads every segment to its end whatever it counts in there, and never more than one at a time.
    The numbers that the records carry then say which of them are wanted.
    """

    def __init__(self, directory: Path, stream: str, *, after_seq: int = 0, salvage: bool = False) -> None:
        self.directory, self.stream = directory, stream
        self._next_seq = after_seq + 1
        self._salvage = salvage
        self._file: IO[bytes] | None = None
        self._file_first = 0
        self._file_seq = 0
        self._offset = 0
        self._lines: deque[bytes] = deque()

    @property
    def next_seq(self) -> int:
        """The sequence number of the record that :meth:`read` returns next."""
        return self._next_seq

    def read(self, max_records: int = 1000, max_bytes: int = sys.maxsize) -> list[bytes]:
        """Whole lines without newline, the first being :attr:`next_seq`; [] when there are none. Ends with the line
        that reaches ``max_records`` or ``max_bytes``."""
        lines: list[bytes] = []
        size = 0
        while len(lines) < max_records and size < max_bytes:
            if self._file is None and not self._open_segment():
                break
            line = self._next_line()
            if line is not None:
                lines.append(line)
                size += len(line)
            elif (lines and self._salvage) or not self._advance_segment():
                break
        return lines

    @property
    def place(self) -> OutboxPlace | None:
        """Where another reader can go on; None before anything was read."""
        if self._file is None:
            return None
        ahead = sum(len(line) + 1 for line in self._lines)
        return OutboxPlace(self._file_first, self._offset - ahead, self._next_seq)

    @classmethod
    def at(cls, directory: Path, stream: str, place: OutboxPlace, *, salvage: bool = False) -> OutboxReader:
        """A reader that goes on where another one was."""
        reader = cls(directory, stream, after_seq=place.next_seq - 1, salvage=salvage)
        reader._file = open_regular(_segment_path(directory, _checked_stream(stream), place.segment))
        reader._file_first, reader._file_seq, reader._offset = place.segment, place.next_seq, place.offset
        return reader

    def rewind(self, after_seq: int) -> None:
        """Go on from after another sequence number."""
        self.close()
        self._next_seq = after_seq + 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._offset = 0
        self._lines.clear()

    def _open_segment(self) -> bool:
        """Open the segment that holds the next record, positioned on it."""
        candidates = [item for item in _segments(self.directory, self.stream) if item[0] <= self._next_seq]
        if not candidates:
            return False
        self._file_first, path = candidates[-1]
        self._file, self._file_seq = open_regular(path), self._file_first
        if self._salvage:
            self._next_seq = self._file_first
        while self._file_seq < self._next_seq:
            if self._read_whole_line() is None:
                self.close()
                return False
        return True

    def _next_line(self) -> bytes | None:
        line = self._read_whole_line()
        if line is not None:
            self._next_seq += 1
        return line

    def _read_whole_line(self) -> bytes | None:
        if not self._lines:
            self._fetch_lines()
        if not self._lines:
            return None
        self._file_seq += 1
        return self._lines.popleft()

    def _fetch_lines(self) -> None:
        """Take the whole lines of the next block and forget what follows them: a torn line may yet be replaced."""
        assert self._file is not None
        size = _BLOCK_BYTES
        block = os.pread(self._file.fileno(), size, self._offset)
        while b"\n" not in block and len(block) == size:
            if size > MAX_RECORD_BYTES:
                segment = _segment_path(self.directory, self.stream, self._file_first)
                raise IrregularFileError(errno.EFBIG, f"it holds a line of more than {size} bytes", str(segment))
            size *= 2
            block = os.pread(self._file.fileno(), size, self._offset)
        whole = block.rfind(b"\n") + 1
        self._offset += whole
        self._lines.extend(block[:whole].split(b"\n")[:-1])

    def _advance_segment(self) -> bool:
        """Move to the following segment if the writer has begun one that starts with the next record."""
        later = [first for first, _ in _segments(self.directory, self.stream) if first > self._file_first]
        if self._salvage and later:
            self._next_seq = later[0]
        following = self._next_seq in later
        if following:
            self.close()
        return following


def discard_through(directory: Path, stream: str, seq: int) -> int:
    """Delete the segments whose records are all numbered ``seq`` or lower; return how many. The last one always stays,
    because it says where the numbering goes on."""
    segments = _segments(directory, stream)
    done = [path for (_, path), (next_first, _) in pairwise(segments) if next_first <= seq + 1]
    for path in done:
        path.unlink(missing_ok=True)
    return len(done)


def _measure_whole_lines(path: Path) -> tuple[int, int]:
    """Bytes and number of the whole lines at the beginning of a file."""
    size = lines = 0
    with open_regular(path) as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            size += len(line)
            lines += 1
    return size, lines


def _checked_stream(stream: str) -> str:
    if not _STREAM.fullmatch(stream):
        raise ValueError(f"{stream!r} is not a stream name (lower-case letters, digits, '_')")
    return stream


def _segment_path(directory: Path, stream: str, first_seq: int) -> Path:
    return directory / f"{stream}-{first_seq:012d}.jsonl"


def _segments(directory: Path, stream: str) -> list[tuple[int, Path]]:
    """(first sequence number, path) of a stream's segments, oldest first."""
    matches = ((entry, _SEGMENT.fullmatch(entry.name)) for entry in _entries(directory))
    return sorted((int(match[2]), entry) for entry, match in matches if match and match[1] == stream)


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []
