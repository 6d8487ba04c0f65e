"""One event of an event file: its scalars, and what else it holds.

Scalars come in two styles: ``simple_value`` (PyTorch, tensorboardX, CleanRL) and a tensor whose plugin is "scalars"
(TensorFlow 2, ``add_scalar(new_style=True)``), which names its plugin perhaps only the first time.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field

from mosaic_protocol import protobuf_wire as wire
from mosaic_protocol.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, WireError

SCALAR, HISTOGRAM, IMAGE, TEXT, HPARAMS, OTHER = "scalar", "histogram", "image", "text", "hparams", "other"
_PLUGINS = {
    "scalars": SCALAR,
    "histograms": HISTOGRAM,
    "images": IMAGE,
    "text": TEXT,
    "hparams": HPARAMS,
}
LONGEST_TAG = 1000
MOST_BUCKETS = 10_000
"""Writers make some hundred buckets at most; one that says more is no histogram that anybody could look at."""
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE, _IMAGE, _HISTOGRAM, _TENSOR, _METADATA = 1, 2, 4, 5, 8, 9
_PLUGIN_DATA, _PLUGIN_NAME, _PLUGIN_CONTENT = 1, 1, 2
_DTYPE, _SHAPE, _CONTENT, _FLOATS, _DOUBLES, _INTS, _STRINGS, _INT64S = 1, 2, 4, 5, 6, 7, 8, 10
_CONTENT_FORMS = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 6: "<b", 9: "<q", 17: "<H", 19: "<e", 22: "<I", 23: "<Q"}
_BFLOAT16 = 14


@dataclass(frozen=True)
class Value:
    """One value of an event. ``number`` is that of a scalar; ``begin`` and ``end`` are where the value lies in the
    record."""

    kind: str
    tag: str
    begin: int
    end: int
    number: float = math.nan
    number_at: int = -1
    """Where the number of a scalar lies in the record, as ``number_form``; -1 where it has no one place."""
    number_form: str = ""


@dataclass
class Event:
    """A record as far as it was read."""

    wall_time: float = 0.0
    step: int = 0
    step_at: tuple[int, int] | None = None
    values: list[Value] = field(default_factory=list)


def read_event(record: bytes, plugins: MutableMapping[str, str]) -> Event:
    """Read one record. ``plugins`` keeps which plugin a tag belongs to. Raises :class:`WireError` for no event."""
    event = Event()
    for part in wire.fields(record):
        if part.number == _WALL_TIME:
            _require(part, FIXED64)
            event.wall_time = wire.double(record, part)
        elif part.number == _STEP:
            _require(part, VARINT)
            event.step, event.step_at = wire.signed(part.varint), (part.begin, part.end)
        elif part.number == _SUMMARY:
            _require(part, BYTES)
            event.values += [
                _value(record, one, plugins)
                for one in wire.fields(record, part.begin, part.end)
                if one.number == _VALUE and one.kind == BYTES
            ]
    return event


def _require(part: wire.Field, kind: int) -> None:
    if part.kind != kind:
        raise WireError(f"field {part.number} is not what an event has there")


def _value(record: bytes, whole: wire.Field, plugins: MutableMapping[str, str]) -> Value:
    parts = {part.number: part for part in wire.fields(record, whole.begin, whole.end)}
    tag = wire.text(record, parts[_TAG]) if _TAG in parts else ""
    if len(tag) > LONGEST_TAG:
        raise WireError(f"a tag has {len(tag):,} characters")
    kind, begin, end = OTHER, whole.begin, whole.end
    if _METADATA in parts:
        kind = plugins[tag] = _PLUGINS.get(plugin_of(record, parts[_METADATA])[0], OTHER)
    elif tag in plugins:
        kind = plugins[tag]
    simple = parts.get(_SIMPLE)
    if simple is not None and simple.kind == FIXED32:
        return Value(SCALAR, tag, begin, end, wire.single(record, simple), simple.begin, "<f4")
    if _HISTOGRAM in parts:
        return Value(HISTOGRAM, tag, begin, end)
    if _IMAGE in parts:
        return Value(IMAGE, tag, begin, end)
    if kind == SCALAR and _TENSOR in parts:
        return Value(SCALAR, tag, begin, end, *_number(record, parts[_TENSOR]))
    return Value(kind if kind != SCALAR else OTHER, tag, begin, end)


def plugin_of(record: bytes, metadata: wire.Field) -> tuple[str, bytes]:
    """The name of the plugin that a value is for, and what it keeps there."""
    for part in wire.fields(record, metadata.begin, metadata.end):
        if part.number == _PLUGIN_DATA and part.kind == BYTES:
            found = {one.number: one for one in wire.fields(record, part.begin, part.end) if one.kind == BYTES}
            name = wire.text(record, found[_PLUGIN_NAME]) if _PLUGIN_NAME in found else ""
            content = found.get(_PLUGIN_CONTENT)
            return name, record[content.begin : content.end] if content else b""
    return "", b""


def _number(record: bytes, tensor: wire.Field) -> tuple[float, int, str]:
    """The one number of a tensor, and where it lies."""
    parts = {part.number: part for part in wire.fields(record, tensor.begin, tensor.end)}
    dtype = parts[_DTYPE].varint if _DTYPE in parts else 0
    for number, form, size in ((_FLOATS, "<f4", 4), (_DOUBLES, "<f8", 8)):
        if number in parts and parts[number].end - parts[number].begin == size:
            read = wire.single if size == 4 else wire.double
            return read(record, parts[number]), parts[number].begin, form
    for number in (_INTS, _INT64S):
        if number in parts:
            part = parts[number]
            value = part.varint if part.kind == VARINT else wire.varint(record, part.begin, part.end)[0]
            return float(wire.signed(value)), -1, ""
    if _CONTENT in parts:
        return _content_number(record[parts[_CONTENT].begin : parts[_CONTENT].end], dtype), -1, ""
    return 0.0, -1, ""  # zero is what a message leaves out


def _content_number(content: bytes, dtype: int) -> float:
    if dtype == _BFLOAT16 and len(content) == 2:
        return float(struct.unpack("<f", b"\0\0" + content)[0])
    form = _CONTENT_FORMS.get(dtype)
    if form is None or len(content) != struct.calcsize(form):
        raise WireError("a scalar is not one number")
    return float(struct.unpack(form, content)[0])


# ---- what is not a scalar, decoded when somebody asks ------------------------------------------------------------


def texts(record: bytes, value: Value) -> list[str]:
    """The texts of a text value."""
    return [content.decode(errors="replace") for content in _strings(record, value)]


def images(record: bytes, value: Value) -> list[bytes]:
    """The pictures of an image value, encoded as they are (mostly PNG)."""
    parts = {part.number: part for part in wire.fields(record, value.begin, value.end)}
    if _IMAGE in parts:
        inside = wire.fields(record, parts[_IMAGE].begin, parts[_IMAGE].end)
        held = {part.number: part for part in inside if part.kind == BYTES}
        return [record[held[4].begin : held[4].end]] if 4 in held else []
    return list(_strings(record, value))[2:]  # width and height stand before them


def histogram(record: bytes, value: Value) -> list[tuple[float, float, float]]:
    """(left, right, count) of each bucket. Raises :class:`WireError` for more than :data:`MOST_BUCKETS`."""
    parts = {part.number: part for part in wire.fields(record, value.begin, value.end) if part.kind == BYTES}
    if _HISTOGRAM in parts:
        return _bounded_histogram(record, parts[_HISTOGRAM])
    return _tensor_histogram(record, parts[_TENSOR]) if _TENSOR in parts else []


def _bounded_histogram(record: bytes, message: wire.Field) -> list[tuple[float, float, float]]:
    """The older style: right ends and counts, and the least and greatest value, because the outermost ends are often
    the largest number that there is."""
    held = {part.number: part for part in wire.fields(record, message.begin, message.end)}
    rights, counts = (_doubles(record, held[number]) if number in held else [] for number in (6, 7))
    least, most = (_end(record, held.get(number)) for number in (1, 2))
    buckets = zip([least, *rights], rights, counts, strict=False)
    if least >= most:  # one value alone, or a writer that does not say
        return list(buckets)
    return [(max(left, least), min(right, most), count) for left, right, count in buckets]


def _end(record: bytes, part: wire.Field | None) -> float:
    """Zero is what a message leaves out."""
    return wire.double(record, part) if part is not None and part.kind == FIXED64 else 0.0


def _tensor_histogram(record: bytes, tensor: wire.Field) -> list[tuple[float, float, float]]:
    """The newer style: a table of three columns."""
    held = {part.number: part for part in wire.fields(record, tensor.begin, tensor.end)}
    _require_few(_claimed_rows(record, held.get(_SHAPE)))
    single = _DTYPE in held and held[_DTYPE].varint == 1
    found = next((held[number] for number in (_CONTENT, _DOUBLES, _FLOATS) if number in held), None)
    if found is None:
        return []
    numbers = _doubles(record, found, 3, single=found.number == _FLOATS or (found.number == _CONTENT and single))
    return [(numbers[at], numbers[at + 1], numbers[at + 2]) for at in range(0, len(numbers) - 2, 3)]


def _claimed_rows(record: bytes, shape: wire.Field | None) -> int:
    """The first size of a tensor's shape. Nothing is made by it; an absurd one says that the rest is no better."""
    if shape is None or shape.kind != BYTES:
        return 0
    for dimension in wire.fields(record, shape.begin, shape.end):
        if dimension.number == 2 and dimension.kind == BYTES:
            sizes = wire.fields(record, dimension.begin, dimension.end)
            return next((part.varint for part in sizes if part.number == 1 and part.kind == VARINT), 0)
    return 0


def _require_few(buckets: int) -> None:
    if buckets > MOST_BUCKETS:
        raise WireError(f"a histogram has {buckets:,} buckets, and at most {MOST_BUCKETS:,} are read")


def hparams(record: bytes, value: Value) -> dict[str, object]:
    """The settings that the hparams plugin keeps at the beginning of a session; {} for its other values."""
    parts = {part.number: part for part in wire.fields(record, value.begin, value.end)}
    if _METADATA not in parts:
        return {}
    content = plugin_of(record, parts[_METADATA])[1]
    found: dict[str, object] = {}
    for start_info in _within(content, 3):
        for entry in _within(start_info, 1):
            halves = {part.number: part for part in wire.fields(entry) if part.kind == BYTES}
            if 1 in halves and 2 in halves:
                found[wire.text(entry, halves[1])] = _setting(entry[halves[2].begin : halves[2].end])
    return found


def _setting(message: bytes) -> object:
    for part in wire.fields(message):
        if part.number == 2 and part.kind == FIXED64:
            number = wire.double(message, part)
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
        if part.number == 3 and part.kind == BYTES:
            return wire.text(message, part)
        if part.number == 4 and part.kind == VARINT:
            return bool(part.varint)
    return None


def _within(message: bytes, number: int) -> Iterator[bytes]:
    for part in wire.fields(message):
        if part.number == number and part.kind == BYTES:
            yield message[part.begin : part.end]


def _strings(record: bytes, value: Value) -> Iterator[bytes]:
    for part in wire.fields(record, value.begin, value.end):
        if part.number == _TENSOR and part.kind == BYTES:
            for one in wire.fields(record, part.begin, part.end):
                if one.number == _STRINGS and one.kind == BYTES:
                    yield record[one.begin : one.end]


def _doubles(record: bytes, part: wire.Field, columns: int = 1, *, single: bool = False) -> list[float]:
    """The numbers of a packed field, of a table with so many columns."""
    if part.kind != BYTES:
        raise WireError("a histogram is not a list of numbers")
    width, form = (4, "f") if single else (8, "d")
    count = (part.end - part.begin) // width
    _require_few(count // columns)
    return list(struct.unpack_from(f"<{count}{form}", record, part.begin))
