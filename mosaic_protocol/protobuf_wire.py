"""The wire format of protocol buffers, as much as event files and W&B's files need of it.

By hand, because the classes for it come with TensorBoard and wandb, which are no dependencies of the command line, and
because what a stranger wrote is read here: nothing is believed, nothing is allocated by a length that a file claims.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10


class WireError(ValueError):
    """The bytes are no message."""


class Field(NamedTuple):
    """One field of a message; ``begin`` and ``end`` are where its content lies."""

    number: int
    kind: int
    begin: int
    end: int
    varint: int = 0


def fields(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of a message in their order. Raises :class:`WireError`."""
    end = len(data) if end is None else end
    while begin < end:
        key, begin = varint(data, begin, end)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, after = varint(data, begin, end)
            yield Field(number, kind, begin, after, value)
        elif kind == BYTES:
            length, begin = varint(data, begin, end)
            after = begin + length
            if after > end:
                raise WireError("a field is longer than its message")
            yield Field(number, kind, begin, after)
        elif kind in _FIXED:
            after = begin + _FIXED[kind]
            if after > end:
                raise WireError("a number is cut off")
            yield Field(number, kind, begin, after)
        else:
            raise WireError(f"there is no field of kind {kind}")
        begin = after


def varint(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    if begin < end and data[begin] < 0x80:  # most are of one byte
        return data[begin], begin + 1
    value = shift = 0
    for place in range(begin, min(end, begin + _LONGEST_VARINT)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place + 1
        shift += 7
    raise WireError("a number is cut off")


def signed(value: int) -> int:
    """Steps are written as two's complement of 64 bits."""
    return value - 2**64 if value >= 2**63 else value


def text(data: bytes, field: Field) -> str:
    """What is not UTF-8 is shown as such, not refused: a tag is a name for people."""
    return data[field.begin : field.end].decode(errors="replace")


def double(data: bytes, field: Field) -> float:
    return float(struct.unpack_from("<d", data, field.begin)[0])


def single(data: bytes, field: Field) -> float:
    return float(struct.unpack_from("<f", data, field.begin)[0])
