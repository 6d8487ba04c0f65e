"""The heap of a chunk: what only some of its steps have, each entry with the step that it belongs to.

Entries are MessagePack, which keeps NaN, infinities and bytes. Arrays keep their type and shape, and come back as
arrays where NumPy is installed and as nested lists elsewhere.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from mosaic_protocol.steps.columns import Column, has_column

T = TypeVar("T")
_LENGTH = struct.Struct("<I")
_LENGTH_BYTES = _LENGTH.size
_NO_LENGTH = bytes(_LENGTH_BYTES)
_ARRAY = 1
_MOST_PLACES = 256 * 1024 * 1024
_MOST_TEXT = 10_000
_DEEPEST = 30


class HeapEntry(msgspec.Struct, array_like=True):
    """``row`` counts from the first step of the chunk."""

    row: int
    key: str
    value: Any = None


class RawEntry(msgspec.Struct, array_like=True):
    """An entry whose value stays as it was encoded: for those who move it, or look for one kind among many."""

    row: int
    key: str
    value: msgspec.Raw


class ArrayValue(msgspec.Struct, array_like=True, frozen=True):
    """An array as it is written."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def unpack(self) -> Any:
        """An array where NumPy is there; nested lists of numbers otherwise, or the value itself where they fail. Raises
        ValueError for one whose lists no memory would hold, although it may be without a single number."""
        if math.prod(max(size, 1) for size in self.shape) > _MOST_PLACES:
            raise ValueError(f"an array of the impossible shape {self.shape[:5]}")
        try:
            import numpy as np
        except ImportError:
            kind = self.dtype.lstrip("<|=")
            if not has_column(kind):
                return self
            values = Column((), kind, self.shape).unpack(self.data, 1)
            return values[0]
        try:
            return np.frombuffer(self.data, np.dtype(self.dtype)).reshape(self.shape)
        except TypeError as error:
            raise ValueError(f"an array of an unknown type: {error}") from error


def packed(row: int, key: str, value: Any) -> bytes:
    """One entry, ready to be appended. What nothing can write in a value becomes text, in its place."""
    try:
        body = _encoder.encode(HeapEntry(row, key, value))
    except (ValueError, TypeError, OverflowError, RecursionError):  # numbers beyond 64 bits, broken text, cycles
        body = _encoder.encode(HeapEntry(row, key, _in_words(value)))
    return _framed(body)


def packed_raw(entry: RawEntry) -> bytes:
    """One entry, ready to be appended, with the value that it was read with."""
    return _framed(_encoder.encode(entry))


def append_packed(heap: bytearray, entry: tuple[int, str, Any]) -> None:
    """Append an entry (row, key, value) as :func:`packed` would make it, without a copy."""
    at = len(heap)
    heap += _NO_LENGTH
    begin = at + _LENGTH_BYTES
    try:
        _encoder.encode_into(entry, heap, begin)
        _LENGTH.pack_into(heap, at, len(heap) - begin)
    except (ValueError, TypeError, OverflowError, RecursionError):
        heap[at:] = packed(*entry)


def entries(heap: bytes) -> Iterator[HeapEntry]:
    """The entries in order. Raises :class:`ValueError` for what is no heap."""
    return (entry for _, entry in _entries_with_ends(heap))


def of_first_rows(heap: bytes, rows: int) -> bytes:
    """The part of a heap that belongs to the first rows, for one that was left in the middle of a step."""
    kept = 0
    with suppress(ValueError):
        for end, entry in _entries_with_ends(heap):
            if entry.row >= rows:
                break
            kept = end
    return heap[:kept]


def raw_entries(heap: bytes) -> Iterator[RawEntry]:
    """The entries in order, no value of them decoded. Raises :class:`ValueError` for what is no heap."""
    return (_decoded(_raw_decoder, raw) for _, raw in _raw_with_ends(heap))


def raw_entries_with(heap: bytes, *marks: bytes) -> Iterator[RawEntry]:
    """Those in which one of these marks occurs anywhere, for who looks for a few among many: the others are not even
    decoded. Raises :class:`ValueError` for what is no heap."""
    for _, raw in _raw_with_ends(heap):
        if any(mark in raw for mark in marks):
            yield _decoded(_raw_decoder, raw)


def _entries_with_ends(heap: bytes) -> Iterator[tuple[int, HeapEntry]]:
    return ((end, _decoded(_decoder, raw)) for end, raw in _raw_with_ends(heap))


def _decoded(decoder: msgspec.msgpack.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, struct.error, OverflowError) as error:
        raise ValueError(f"an entry in the heap of a chunk cannot be read: {error}") from error


def _raw_with_ends(heap: bytes) -> Iterator[tuple[int, bytes]]:
    """Each entry as it is encoded, with the place after it. A loop without a call of its own: every chunk that is
    sealed goes through it, and one of short episodes has hundreds of entries."""
    start, size, length_at = 0, len(heap), _LENGTH.unpack_from
    while start < size:
        begin = start + _LENGTH_BYTES
        start = begin + length_at(heap, start)[0] if begin <= size else begin
        if start > size:
            raise ValueError("the heap of a chunk ends in the middle of an entry")
        yield start, heap[begin:start]


def _framed(entry: bytes) -> bytes:
    """An encoded entry as the heap holds it."""
    return _LENGTH.pack(len(entry)) + entry


def _in_words(value: Any, depth: int = 0) -> Any:
    """The same value with text for the parts that cannot be written."""
    if depth < _DEEPEST and isinstance(value, dict):
        return {_in_words(key, depth + 1): _in_words(inner, depth + 1) for key, inner in value.items()}
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return [_in_words(inner, depth + 1) for inner in value]
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    try:
        _encoder.encode(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return ascii(value)[:_MOST_TEXT]
    return value


def _from_foreign(value: Any) -> Any:
    """Arrays and numbers of array libraries by what they offer: no library is imported for that."""
    if hasattr(value, "dtype") and hasattr(value, "tobytes") and not getattr(value.dtype, "hasobject", True):
        if not value.shape and hasattr(value, "item") and has_column(value.dtype.str.lstrip("<|=>")):
            return value.item()
        array = ArrayValue(value.dtype.str, tuple(value.shape), value.tobytes())
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(array))
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def _from_extension(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError(f"an unknown kind of value: {code}")
    return msgspec.msgpack.decode(data, type=ArrayValue).unpack()


_encoder = msgspec.msgpack.Encoder(enc_hook=_from_foreign)
_decoder = msgspec.msgpack.Decoder(HeapEntry, ext_hook=_from_extension)
_raw_decoder = msgspec.msgpack.Decoder(RawEntry)
