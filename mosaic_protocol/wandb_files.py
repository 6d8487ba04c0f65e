"""The files ``run-<id>.wandb`` in which W&B records a run: found, and read without wandb while they grow.

A file is a header (``:W&B``, 0xBEE1, version 0) and then LevelDB's log framing: blocks of 32 KiB with chunks of
checksum, length, kind and data; chunks join into records (:mod:`mosaic_protocol.wandb_records`). Imports nothing but
the standard library, so that any process may use it.

A reader keeps its place. A record that is only half there is left for the next time; where a checksum is wrong the rest
of the block is skipped and counted, because the next block begins at a known place. Memory is bounded by :data:`CHUNK`
and the longest record, whatever a file claims.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mosaic_protocol.regular_files import open_regular
from mosaic_protocol.wandb_records import Row, TrackedRun, take_record

MOST_BYTES = 2 << 30
"""A larger file is refused: at twenty bytes a number that would be a hundred million."""
CHUNK = 1 << 20
MOST_RECORD = 16 << 20
"""A longer record is left out: no row, config or summary is that long."""
_MOST_FOLDERS = 1000
_HEADER = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_CHUNK_HEAD = struct.Struct("<IHB")  # checksum, length, kind
_BLOCK_BYTES = 32768
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class WandbFileError(ValueError):
    """A file is no W&B run, or another one than before; the message is a sentence."""


def find_runs(run_dir: Path) -> list[Path]:
    """The W&B files below ``wandb/`` of a run's directory, oldest first. Links are not followed: a script may have put
    anything there."""
    found = [
        Path(entry.path)
        for folder in _folders(run_dir / "wandb")
        for entry in _listed(folder)
        if entry.name.startswith("run-") and entry.name.endswith(".wandb") and entry.is_file(follow_symlinks=False)
    ]
    return sorted(found, key=lambda file: (file.parent.name.rpartition("run-")[2], file.name))


def _folders(parent: Path) -> list[Path]:
    return [
        Path(entry.path)
        for entry in _listed(parent)
        if entry.name.startswith(("run-", "offline-run-")) and entry.is_dir(follow_symlinks=False)
    ]


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return []
        with os.scandir(folder) as entries:
            return list(islice(entries, _MOST_FOLDERS))
    except OSError:
        return []


def read_run(file: Path) -> TrackedRun:
    """A whole file with all its rows, for one that is known to be small. Raises what :class:`WandbFileReader` does."""
    reader = WandbFileReader(file)
    for rows in reader.read():
        for row in rows:
            (reader.run.history if row.kind == "history" else reader.run.system).append(row.values)
    return reader.run


class WandbFileReader:
    """One file. Not thread-safe. :attr:`run` is what was read so far, without the rows: they are handed out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = TrackedRun()
        self._offset = 0
        self._seen = 0
        self._parts: list[bytes] = []
        self._size = 0
        """Of the parts together."""

    def read(self) -> Iterator[list[Row]]:
        """The rows that came since the last time, in lists of bounded length.

        Raises OSError (no regular file, or larger than :data:`MOST_BYTES`), and WandbFileError for something else than
        a W&B run.
        """
        with open_regular(self.path, most=MOST_BYTES) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size < self._seen:
                raise WandbFileError(f"{self.path} is shorter than it was: it was written again")
            self._seen = size
            if self._offset == 0 and not self._takes_header(stream):
                return
            while data := self._block_of(stream):
                rows, taken = self._rows(data)
                if rows:
                    yield rows
                if not taken:
                    break
                self._offset += taken
            self.run.is_cut = bool(self._parts) or self._offset < size

    def _takes_header(self, stream: BinaryIO) -> bool:
        begin = stream.read(len(_HEADER))
        if not _HEADER.startswith(begin):
            raise WandbFileError(f"{self.path} is not a W&B run: it does not begin with {_HEADER[:4].decode()!r}")
        self.run.is_cut = len(begin) < len(_HEADER)
        self._offset = 0 if self.run.is_cut else len(_HEADER)
        return not self.run.is_cut

    def _block_of(self, stream: BinaryIO) -> bytes:
        stream.seek(self._offset)
        return stream.read(CHUNK)

    def _rows(self, data: bytes) -> tuple[list[Row], int]:
        """The rows of the whole records in the data, and how many bytes were used up."""
        rows: list[Row] = []
        place = 0
        while place < len(data):
            room = _BLOCK_BYTES - (self._offset + place) % _BLOCK_BYTES
            if room < _CHUNK_HEAD.size:
                place += room  # what fills a block
                continue
            if place + _CHUNK_HEAD.size > len(data):
                break
            checksum, length, kind = _CHUNK_HEAD.unpack_from(data, place)
            end = place + _CHUNK_HEAD.size + length
            fits = _WHOLE <= kind <= _LAST and length <= room - _CHUNK_HEAD.size
            if fits and end > len(data):
                break  # it is half written
            content = data[place + _CHUNK_HEAD.size : end]
            if not fits or zlib.crc32(content, zlib.crc32(bytes((kind,)))) != checksum:
                self._skip_record()
                place += room
                continue
            rows += self._joined(kind, content)
            place = end
        return rows, place

    def _joined(self, kind: int, content: bytes) -> list[Row]:
        """The rows of a record that is whole with this chunk."""
        if (kind in (_WHOLE, _FIRST)) == bool(self._parts):
            self._skip_record()  # the end of one is missing, or the beginning
            if kind in (_MIDDLE, _LAST):
                return []
        self._size += len(content)
        if self._size <= MOST_RECORD:
            self._parts.append(content)
        if kind in (_FIRST, _MIDDLE):
            return []
        record, is_too_long = b"".join(self._parts), self._size > MOST_RECORD
        self._parts, self._size = [], 0
        if is_too_long:
            self.run.left_out += 1
            return []
        return self._taken(record)

    def _taken(self, record: bytes) -> list[Row]:
        rows: list[Row] = []
        try:
            rows.extend(take_record(self.run, record))
        except (ValueError, TypeError, RecursionError, struct.error):
            # The checksums vouch for accidents only: a file made by hand may hold anything in any field.
            self.run.damaged += 1
        return rows

    def _skip_record(self) -> None:
        self.run.damaged += 1
        self._parts, self._size = [], 0
