"""Reads the ``run-<id>.wandb`` file of a tracked run, finished, broken off or still growing, without wandb.

The file is a header (``:W&B``, 0xBEE1, version 0) and then LevelDB's log framing: blocks of 32 KiB with chunks of
checksum, length, kind and data; chunks join into records. A record is a protobuf message of which only the fields named
below are looked at. Imports nothing but the standard library, so that any process may use it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEADER = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_CHUNK = struct.Struct("<IHB")  # checksum, length, kind
_BLOCK_BYTES = 32768
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

# Field numbers of the messages, by message.
_RECORD_HISTORY, _RECORD_SUMMARY, _RECORD_CONFIG, _RECORD_RUN, _RECORD_EXIT = 2, 3, 5, 17, 18
_RUN_ID, _RUN_ENTITY, _RUN_PROJECT, _RUN_CONFIG, _RUN_NAME = 1, 2, 3, 4, 8
_UPDATE, _REMOVE = 1, 2
_ITEM_KEY, _ITEM_NESTED_KEY, _ITEM_JSON = 1, 2, 16
_EXIT_CODE = 1


class TrackingFileError(ValueError):
    """A file that is not a W&B run."""


@dataclass
class TrackedRun:
    """What the file of a run holds. ``history`` rows keep W&B's own ``_step``, ``_runtime`` and ``_timestamp``."""

    run_id: str = ""
    project: str = ""
    entity: str = ""
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    """None while the run goes on, or when it was broken off."""
    complete: bool = True
    """False when the file ends, or is damaged, in the middle of a record: what came before was read."""


def find_runs(run_dir: Path) -> list[Path]:
    """The W&B files below the directory of a run, oldest first."""
    return sorted(run_dir.glob("wandb/*run-*/run-*.wandb"), key=lambda file: file.parent.name.rpartition("run-")[2])


def read_run(file: Path) -> TrackedRun:
    """Read a whole file. Raises OSError, and TrackingFileError for something else than a W&B run."""
    content = file.read_bytes()
    if content[: len(_HEADER)] != _HEADER:
        raise TrackingFileError(f"{file} is not a W&B run: it does not begin with {_HEADER[:4].decode()!r}")
    run = TrackedRun()
    try:
        for record in _records(content):
            _take(run, record)
    except (_BrokenOff, ValueError, TypeError, AttributeError, RecursionError):
        # The checksums vouch for accidents only: a file made by hand may hold anything in any field.
        run.complete = False
    return run


class _BrokenOff(Exception):
    """The content ends or is damaged here."""


def _records(content: bytes) -> Iterator[bytes]:
    parts: list[bytes] = []
    for kind, data in _chunks(content):
        if kind in (_WHOLE, _FIRST):
            parts.clear()
        parts.append(data)
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)
            parts.clear()
    if parts:
        raise _BrokenOff


def _chunks(content: bytes) -> Iterator[tuple[int, bytes]]:
    position = len(_HEADER)
    while position < len(content):
        room = _BLOCK_BYTES - position % _BLOCK_BYTES
        if room < _CHUNK.size:
            position += room
            continue
        if position + _CHUNK.size > len(content):
            raise _BrokenOff
        checksum, length, kind = _CHUNK.unpack_from(content, position)
        data = content[position + _CHUNK.size : position + _CHUNK.size + length]
        if len(data) < length or zlib.crc32(data, zlib.crc32(bytes((kind,)))) != checksum:
            raise _BrokenOff
        yield kind, data
        position += _CHUNK.size + length


def _take(run: TrackedRun, record: bytes) -> None:
    for number, value in _fields(record):
        if number == _RECORD_HISTORY:
            run.history.append(_items(value))
        elif number == _RECORD_SUMMARY:
            _update(run.summary, value)
        elif number == _RECORD_CONFIG:
            _update(run.config, value)
        elif number == _RECORD_RUN:
            _take_run(run, value)
        elif number == _RECORD_EXIT:
            run.exit_code = next((_signed(code) for field, code in _fields(value) if field == _EXIT_CODE), 0)


def _take_run(run: TrackedRun, message: bytes) -> None:
    texts = {_RUN_ID: "run_id", _RUN_ENTITY: "entity", _RUN_PROJECT: "project", _RUN_NAME: "name"}
    for number, value in _fields(message):
        if number in texts:
            setattr(run, texts[number], value.decode())
        elif number == _RUN_CONFIG:
            _update(run.config, value)
    run.config.pop("_wandb", None)


def _update(target: dict[str, Any], message: bytes) -> None:
    target.update(_items(message))
    for number, item in _fields(message):
        if number == _REMOVE:
            target.pop(_item(item)[0], None)


def _items(message: bytes) -> dict[str, Any]:
    """The items of a history row, or the updates of a config or summary; both are field 1."""
    return dict(_item(item) for number, item in _fields(message) if number == _UPDATE)


def _item(message: bytes) -> tuple[str, Any]:
    """(key, value); a nested key is joined with dots."""
    keys: list[str] = []
    value: Any = None
    for number, content in _fields(message):
        if number in (_ITEM_KEY, _ITEM_NESTED_KEY):
            keys.append(content.decode())
        elif number == _ITEM_JSON:
            value = json.loads(content)
    return ".".join(keys), value


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of a protobuf message's fields: bytes where it has a length, else an integer."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        wire = key & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield key >> 3, value
            continue
        if wire == 2:
            length, position = _varint(message, position)
        else:
            length = {1: 8, 5: 4}.get(wire, len(message) + 1)
        if position + length > len(message):
            raise _BrokenOff
        yield key >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise _BrokenOff
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _signed(value: int) -> int:
    """An int32 as protobuf writes it: negative ones as 64 bits in two's complement."""
    return value - (1 << 64) if value >> 63 else value
