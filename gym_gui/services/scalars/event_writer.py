"""TensorBoard event files, written without TensorBoard: a client that exports a curve should not import TensorFlow's or
torch's writers for it.

An event file is a sequence of records, each with its length and two checksums (CRC-32C, masked); a record is an
``Event`` of TensorBoard's protocol buffers: wall time, step, and a summary of one scalar.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import BinaryIO

from gym_gui.services.scalars.crc32c import crc32c, masked

_LENGTH, _CHECKSUM, _SCALAR = struct.Struct("<Q"), struct.Struct("<I"), struct.Struct("<f")
_WALL_TIME = struct.Struct("<Bd")
_VERSION = b"brain.Event:2"
_WRITTEN_AT_ONCE = 10_000


class EventFile:
    """Appends events to an open file. ``wall_time`` is when the file begins."""

    def __init__(self, file: BinaryIO, wall_time: float) -> None:
        self._file = file
        file.write(_record(_WALL_TIME.pack(0x09, wall_time) + _field(3, _VERSION)))

    def add_scalars(self, tag: str, points: Iterable[tuple[int, float, float]]) -> int:
        """Points of one curve, each (step, value, wall time); how many they were."""
        name = _field(1, tag.encode())
        count, waiting = 0, []
        for step, value, wall_time in points:
            summary = _field(1, name + b"\x15" + _scalar(value))
            waiting.append(_record(_WALL_TIME.pack(0x09, wall_time) + b"\x10" + _varint(step) + _field(5, summary)))
            count += 1
            if len(waiting) == _WRITTEN_AT_ONCE:
                self._file.write(b"".join(waiting))
                waiting.clear()
        self._file.write(b"".join(waiting))
        return count


def _scalar(value: float) -> bytes:
    """Scalars have 32 bits there; what is larger becomes infinite, as TensorBoard's own writers do."""
    try:
        return _SCALAR.pack(value)
    except OverflowError:
        return _SCALAR.pack(float("inf") if value > 0 else float("-inf"))


def _record(data: bytes) -> bytes:
    length = _LENGTH.pack(len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    return _CHECKSUM.pack(masked(crc32c(data)))


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF  # negative steps as two's complement
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
