"""Event files read as they grow: every scalar at full resolution, everything else listed and decoded on demand.

A reader keeps its place. A record that is only half there is left for the next time; a damaged one is counted and
skipped; where not even its length can be trusted the file ends for the reader, because nothing says where the next one
begins. Memory is bounded by :data:`CHUNK` and the longest record, whatever a file claims.

Most records of a file differ in wall time, step and value alone. Those are decoded side by side with numpy: a Python
loop over their fields would be ten times slower. Anything else goes through :mod:`gym_gui.services.scalars.events`.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gym_gui.services.scalars import events as ev
from gym_gui.services.scalars.crc32c import checksums
from mosaic_protocol.protobuf_wire import WireError
from mosaic_protocol.regular_files import open_regular

CHUNK = 1 << 20
MOST_RECORD = 64 << 20
"""A longer record is skipped without being read: no image or text of a run is that long."""
MOST_LISTED = 100_000
"""So many things that are not scalars are listed of one file; more are only counted."""
_HEADER, _FOOTER = 12, 4
_LENGTH = struct.Struct("<Q")
_MOST_SHAPES = 40
"""So many forms of records of one length are decoded side by side; the rest of them one by one."""
_MARK = "tfevents"
_FAR = 2**62

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class EventFileError(Exception):
    """A file or folder cannot be read as events; the message is a sentence."""


class Listed(NamedTuple):
    """Something that is no scalar; :meth:`EventFileReader.record_of` has its content."""

    kind: str
    tag: str
    step: int
    wall_time: float
    offset: int
    length: int


@dataclass(frozen=True)
class Points:
    """Scalars in columns, in the order of the file. ``tag`` points into ``tags`` of the reader."""

    tag: NDArray[np.int32]
    steps: Ints
    values: Floats
    wall_times: Floats

    def __len__(self) -> int:
        return len(self.tag)


@dataclass(frozen=True)
class Part:
    """What a look at a file brought."""

    points: Points
    listed: list[Listed] = field(default_factory=list)


class EventFileReader:
    """One file. Not thread-safe. ``follow`` is for a file that a person named: it may be a link."""

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self.path, self._follow = path, follow
        self.tags: list[str] = []
        """The names of scalars; :attr:`Points.tag` points in here."""
        self.offset = 0
        """Everything before it was read."""
        self.damaged = 0
        """How many records were skipped: a wrong checksum, no event, or longer than :data:`MOST_RECORD`."""
        self.ended = ""
        """Why nothing more is read of this file; empty while it may grow."""
        self.is_half_written = False
        """Whether the last look ended before a record that is not whole yet."""
        self.unlisted = 0
        self._listed = 0
        self._numbers: dict[str, int] = {}
        self._plugins: dict[str, str] = {}
        self._deferred: list[tuple[bytes, int, int]] = []

    def read(self) -> Iterator[Part]:
        """What came since the last time, in parts of bounded size. Raises :class:`EventFileError`."""
        if self.ended:
            return
        with self._opened() as stream:
            if os.fstat(stream.fileno()).st_size < self.offset:
                raise EventFileError(
                    f"{self.path} is shorter than it was: it was written again, so read it as a new one"
                )
            while (part := self._next_part(stream)) is not None:
                yield part
                if self._is_ended():
                    return

    def read_all(self) -> Part:
        """The same in one piece."""
        parts = list(self.read())
        empty = Points(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0), np.empty(0))
        columns = list(zip(*(_columns(part.points) for part in parts or [Part(empty)]), strict=True))
        points = Points(*(np.concatenate(column) for column in columns))
        return Part(points, [one for part in parts for one in part.listed])

    def record_of(self, listed: Listed) -> tuple[bytes, ev.Value]:
        """The record that something listed lies in, and the value: for ``texts``, ``images`` and ``histogram``. Raises
        :class:`EventFileError` when the file was changed since."""
        with self._opened() as stream:
            stream.seek(listed.offset)
            data = stream.read(listed.length + _FOOTER)
        record = data[: listed.length]
        try:
            if not _is_sound(data, listed.length):
                raise WireError("another checksum")
            values = ev.read_event(record, dict(self._plugins)).values
            return record, next(one for one in values if (one.kind, one.tag) == (listed.kind, listed.tag))
        except (WireError, StopIteration):
            raise EventFileError(f"{self.path} has changed: {listed.tag!r} is not there any more") from None

    def troubles(self) -> Iterator[str]:
        """A sentence for each thing that is wrong with the file, as far as it was read."""
        if self.damaged:
            records = "1 record is" if self.damaged == 1 else f"{self.damaged:,} records are"
            yield f"{records} damaged in {self.path} and left out"
        if self.ended:
            yield f"{self.path} is not read to its end: {self.ended}"

    def _is_ended(self) -> bool:
        return bool(self.ended)

    def _opened(self) -> BinaryIO:
        try:
            return open_regular(self.path, follow=self._follow)
        except FileNotFoundError:
            raise EventFileError(f"there is no file {self.path}") from None
        except OSError as error:
            raise EventFileError(f"{self.path} cannot be read: {error.strerror or error}") from None

    # ---- records -------------------------------------------------------------------------------------------------

    def _next_part(self, stream: BinaryIO) -> Part | None:
        """None when there is nothing more for now."""
        size = CHUNK
        while True:
            stream.seek(self.offset)
            try:
                data = stream.read(size)
            except OSError as error:
                raise EventFileError(f"{self.path} cannot be read: {error.strerror or error}") from None
            self.is_half_written = bool(data)
            if len(data) < _HEADER:
                return None
            records = self._records(data)
            if len(records[0]) or self.ended:
                return self._decoded(data, *records)
            needed = _HEADER + _LENGTH.unpack_from(data)[0] + _FOOTER
            if needed > MOST_RECORD:
                return self._skipped(stream, needed)
            if needed <= size or len(data) < size:
                return None  # it is half written
            size = needed

    def _records(self, data: bytes) -> tuple[Ints, Ints]:
        """Where the whole records of the data begin, without their headers, and how long they are. A header that is
        wrong ends them, and the file."""
        begins, place, end = [], 0, len(data)
        unpack = _LENGTH.unpack_from
        while place + _HEADER <= end:
            begins.append(place)
            place += unpack(data, place)[0] + _HEADER + _FOOTER
        # Of a record that is not whole yet the header may be: a wrong one is known at once.
        raw = np.frombuffer(data, np.uint8)
        headers = np.array(begins, np.int64)
        told = _unsigned(raw, headers + 8)
        sound = checksums(raw, headers, np.full(len(headers), 8, np.int64)) == told
        if not sound.all():
            first = int(np.argmin(sound))
            self._end_at(self.offset + begins[first])
            headers, place = headers[:first], begins[first]
        lengths = np.diff(headers, append=min(place, _FAR)) - _HEADER - _FOOTER
        if len(headers) and place > end:
            headers, lengths = headers[:-1], lengths[:-1]
        return headers + _HEADER, lengths

    def _end_at(self, place: int) -> None:
        if place == 0:
            self.ended = "it is not an event file of TensorBoard"
        else:
            self.ended = f"it is damaged at byte {place:,}, and what comes after it cannot be found"

    def _skipped(self, stream: BinaryIO, needed: int) -> Part | None:
        """Go past a record that is too long to be read, once the file has all of it."""
        if os.fstat(stream.fileno()).st_size < self.offset + needed:
            self.ended = (
                f"a record at byte {self.offset:,} claims {needed:,} bytes, more than the {MOST_RECORD >> 20} MiB that"
                " are read of one and more than the file has"
            )
            return None
        self.damaged += 1
        self.offset += needed
        return Part(_points([]))

    # ---- their content -------------------------------------------------------------------------------------------

    def _decoded(self, data: bytes, starts: Ints, lengths: Ints) -> Part:
        raw = np.frombuffer(data, np.uint8)
        first = self.offset
        sound = checksums(raw, starts, lengths) == _unsigned(raw, starts + lengths)
        self.damaged += int(np.count_nonzero(~sound))
        if first == 0 and len(starts) and sound[0] and not self._begins_as_event(data, int(starts[0]), int(lengths[0])):
            self._end_at(0)
            return Part(_points([]))
        columns: list[tuple[Ints, NDArray[np.int32], Ints, Floats, Floats]] = []
        listed: list[tuple[int, Listed]] = []
        order = np.flatnonzero(sound)
        for length in np.unique(lengths[order])[::-1]:  # those that name their plugin are longer: they come first
            same = order[lengths[order] == length]
            rows = np.lib.stride_tricks.sliding_window_view(raw, int(length))[starts[same]] if length else None
            if rows is not None:
                self._decode_rows(rows, same, starts[same] + first, columns, listed)
        deferred, self._deferred = self._deferred, []
        for record, number, offset in deferred:
            self._decode_one(record, number, offset, columns, listed, is_last_look=True)
        if len(starts):
            self.offset = first + int(starts[-1] + lengths[-1]) + _FOOTER
        return Part(_points(columns), [one for _, one in sorted(listed, key=lambda pair: pair[0])])

    def _begins_as_event(self, data: bytes, start: int, length: int) -> bool:
        """Other formats frame their records alike; theirs are no events."""
        try:
            ev.read_event(data[start : start + length], {})
        except WireError:
            return False
        return True

    def _decode_rows(
        self,
        rows: NDArray[np.uint8],
        numbers: Ints,
        offsets: Ints,
        columns: list[tuple[Ints, NDArray[np.int32], Ints, Floats, Floats]],
        listed: list[tuple[int, Listed]],
    ) -> None:
        """Records of one length. The first is read field by field; all that differ from it in numbers alone are decoded
        with it, and so on with the rest. ``numbers`` say where they stand among all."""
        for _ in range(_MOST_SHAPES):
            if not len(rows):
                return
            found = self._alike(rows, columns, numbers) if len(rows) > 1 else None
            if found is None:
                self._decode_one(rows[0].tobytes(), int(numbers[0]), int(offsets[0]), columns, listed)
                rest = np.arange(len(rows)) > 0
            else:
                rest = ~found
            rows, numbers, offsets = rows[rest], numbers[rest], offsets[rest]
        for row, number, offset in zip(rows, numbers, offsets, strict=True):
            self._decode_one(row.tobytes(), int(number), int(offset), columns, listed)

    def _alike(
        self,
        rows: NDArray[np.uint8],
        columns: list[tuple[Ints, NDArray[np.int32], Ints, Floats, Floats]],
        numbers: Ints,
    ) -> NDArray[np.bool_] | None:
        """Decode the records that differ from the first in wall time, step and value alone; which they are. None when
        the first has no such form."""
        try:
            event = ev.read_event(rows[0].tobytes(), self._plugins)
        except WireError:
            return None
        if len(event.values) != 1 or rows[0][0] != 0x09 or event.values[0].number_at < 0:
            return None
        value = event.values[0]
        width = 4 if value.number_form == "<f4" else 8
        begin, end = event.step_at or (9, 9)
        fixed = np.ones(rows.shape[1], bool)
        for one, other in ((1, 9), (begin, end), (value.number_at, value.number_at + width)):
            fixed[one:other] = False
        alike: NDArray[np.bool_] = (rows[:, fixed] == rows[0][fixed]).all(axis=1)
        if end > begin:  # as many bytes for the step, no more and no fewer
            steps = rows[:, begin:end]
            alike &= (steps[:, :-1] >= 0x80).all(axis=1) & (steps[:, -1] < 0x80)
        chosen = rows[alike]
        columns.append(
            (
                numbers[alike],
                np.full(len(chosen), self._number_of(value.tag), np.int32),
                _varints(chosen[:, begin:end]),
                _numbers(chosen, value.number_at, width),
                _numbers(chosen, 1, 8),
            )
        )
        return alike

    def _decode_one(
        self,
        record: bytes,
        number: int,
        offset: int,
        columns: list[tuple[Ints, NDArray[np.int32], Ints, Floats, Floats]],
        listed: list[tuple[int, Listed]],
        *,
        is_last_look: bool = False,
    ) -> None:
        try:
            event = ev.read_event(record, self._plugins)
        except WireError:
            self.damaged += 1
            return
        if not is_last_look and any(one.kind == ev.OTHER and one.tag not in self._plugins for one in event.values):
            self._deferred.append((record, number, offset))  # what its tag is may be said by a record of another length
            return
        for value in event.values:
            if value.kind == ev.SCALAR:
                columns.append(
                    (
                        np.array([number], np.int64),
                        np.array([self._number_of(value.tag)], np.int32),
                        np.array([event.step], np.int64),
                        np.array([value.number]),
                        np.array([event.wall_time]),
                    )
                )
            elif self._listed < MOST_LISTED:
                self._listed += 1
                listed.append((number, Listed(value.kind, value.tag, event.step, event.wall_time, offset, len(record))))
            else:
                self.unlisted += 1

    def _number_of(self, tag: str) -> int:
        number = self._numbers.get(tag)
        if number is None:
            number = self._numbers[tag] = len(self.tags)
            self.tags.append(tag)
        return number


def _is_sound(data: bytes, length: int) -> bool:
    """Whether a record that is followed by its checksum is all there."""
    if len(data) < length + _FOOTER:
        return False
    raw = np.frombuffer(data, np.uint8)
    start, size = np.zeros(1, np.int64), np.full(1, length, np.int64)
    return bool((checksums(raw, start, size) == _unsigned(raw, size)).all())


def _columns(points: Points) -> tuple[NDArray[np.int32], Ints, Floats, Floats]:
    return points.tag, points.steps, points.values, points.wall_times


def _points(columns: list[tuple[Ints, NDArray[np.int32], Ints, Floats, Floats]]) -> Points:
    if not columns:
        return Points(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0), np.empty(0))
    numbers, tag, steps, values, wall_times = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(numbers, kind="stable")
    return Points(tag[order], steps[order], values[order], wall_times[order])


def _unsigned(raw: NDArray[np.uint8], places: Ints) -> NDArray[np.uint32]:
    return np.ascontiguousarray(raw[places[:, None] + np.arange(4)]).view("<u4")[:, 0]


def _numbers(rows: NDArray[np.uint8], begin: int, width: int) -> Floats:
    raw = np.ascontiguousarray(rows[:, begin : begin + width])
    return raw.view("<f4" if width == 4 else "<f8")[:, 0].astype(np.float64)


def _varints(rows: NDArray[np.uint8]) -> Ints:
    found = np.zeros(len(rows), np.uint64)
    for place in range(rows.shape[1]):
        found |= (rows[:, place].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * place)
    return found.astype(np.int64)


# ---- folders -----------------------------------------------------------------------------------------------------


def event_files(folder: Path, most: int = 10_000) -> list[Path]:
    """The event files of one folder in the order in which they were begun, as their names tell. Links, pipes and what
    else has such a name are among them, because they are refused with a sentence when they are read. Raises
    :class:`EventFileError`."""
    try:
        with os.scandir(folder) as entries:
            found = []
            for entry in entries:
                if _MARK in entry.name and not entry.name.endswith(".profile-empty") and not _is_folder(entry):
                    found.append(Path(entry.path))
                if len(found) > most:
                    raise EventFileError(f"{folder} holds more than {most:,} event files, too many for one run")
            return sorted(found)
    except FileNotFoundError:
        raise EventFileError(f"there is no folder {folder}") from None
    except OSError as error:
        raise EventFileError(f"{folder} cannot be read: {error.strerror or error}") from None


def log_folders(root: Path, most: int = 100_000) -> list[Path]:
    """Every folder at and below one that holds event files, by name. Links are not followed: they may lead in circles.
    Raises :class:`EventFileError` for one that cannot be listed, and for a tree with more than ``most`` entries."""
    found, waiting, looked = [], [root], 0
    while waiting:
        folder = waiting.pop()
        if event_files(folder):
            found.append(folder)
        try:
            with os.scandir(folder) as entries:
                below = []
                for entry in entries:
                    looked += 1
                    if _is_folder(entry):
                        below.append(Path(entry.path))
                    if looked > most:
                        raise EventFileError(f"{root} holds more than {most:,} files: name a folder further below")
        except OSError as error:
            raise EventFileError(f"{folder} cannot be read: {error.strerror or error}") from None
        waiting += sorted(below, reverse=True)
    return sorted(found)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False
