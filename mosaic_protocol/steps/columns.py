"""What the steps of a chunk consist of: columns of fixed width, and a heap for everything else.

A value is taken apart into *leaves*: a dictionary by its keys, a tuple by its positions. A leaf of numbers becomes a
column; a leaf of any other kind (text, a sequence whose length changes, an object) goes onto the heap with its step.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]
"""Where a leaf belongs: the name of the field, then keys and positions."""

PLAIN, GROUPED = 1, 2
"""Versions of a schema: since the second the heap may hold many episodes in one entry."""
SCHEMA_VERSION = GROUPED
"""The newest that can be read."""
_KINDS = "b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8"
_FORMATS = dict(zip(_KINDS.split(), "?bBhHiIqQefd", strict=True))
_ALIGNMENT = 64


class Column(msgspec.Struct, frozen=True, array_like=True):
    """The same leaf of every step. ``dtype`` is NumPy's short name without its byte order, which is little."""

    path: Path
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Bytes a step."""
        return int(self.dtype[1:]) * math.prod(self.shape)

    @property
    def unpacked_size(self) -> int:
        """What a step costs a reader, who makes a list for each axis, also where one of these has no numbers."""
        return int(self.dtype[1:]) * math.prod(max(size, 1) for size in self.shape)

    def unpack(self, raw: bytes, rows: int) -> list[Any]:
        """The values of all steps as plain numbers and lists."""
        flat = struct.unpack(f"<{len(raw) // int(self.dtype[1:])}{_FORMATS[self.dtype]}", raw)
        return _folded(flat, (rows, *self.shape))


class StepSchema(msgspec.Struct, frozen=True):
    """The columns of a chunk, in the order in which its body holds them."""

    columns: tuple[Column, ...]
    v: int = PLAIN
    """No newer than its chunks need: whoever has an older MOSAIC can then read them."""

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)


def has_column(dtype: str) -> bool:
    """Whether numbers of this kind can stand in a column."""
    return dtype in _FORMATS


def aligned(size: int) -> int:
    """The next place at which a column may begin."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def slices(schema: StepSchema, rows: int) -> Iterator[tuple[Column, slice]]:
    """Each column, and where a body of so many rows holds it."""
    start = 0
    for column in schema.columns:
        yield column, slice(start, start + column.width * rows)
        start += column.width * rows


def join(leaves: Sequence[tuple[Path, Any]]) -> Any:
    """Put a value together again from its leaves: the inverse of taking it apart."""
    if len(leaves) == 1 and not leaves[0][0]:
        return leaves[0][1]
    grouped: dict[str | int, list[tuple[Path, Any]]] = {}
    for path, value in leaves:
        grouped.setdefault(path[0], []).append((path[1:], value))
    if all(isinstance(key, int) for key in grouped):
        return tuple(join(grouped[key]) for key in sorted(grouped))
    return {key: join(inner) for key, inner in grouped.items()}


def _folded(flat: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return list(flat)
    inner = math.prod(shape[1:])
    return [_folded(flat[start * inner : (start + 1) * inner], shape[1:]) for start in range(shape[0])]
