"""What the records of a W&B file say: who the run is, its settings, rows, summary, system metrics, media and exit.

A record is a protobuf message of which only the fields named below are looked at. What a script logged is a stranger's
text: names are bounded in number, nothing is believed, and a record that makes no sense raises and is skipped by
:class:`mosaic_protocol.wandb_files.WandbFileReader`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mosaic_protocol import protobuf_wire as wire

MOST_NAMES = 10_000
"""So many settings and summary entries are kept of one run; more are only counted."""
MOST_LISTED = 10_000
"""So many media and files are listed of one run; more are only counted."""
_MOST_PATHS = 100
_LONGEST_TEXT = 1000

# Field numbers, by message.
_HISTORY, _SUMMARY, _CONFIG, _FILES, _STATS, _RUN, _EXIT = 2, 3, 5, 6, 7, 17, 18
_RUN_TEXTS = {1: "run_id", 2: "entity", 3: "project", 8: "name"}
_RUN_CONFIG = 4
_UPDATE, _REMOVE = 1, 2
_KEY, _NESTED_KEY, _NONE, _BOOLEAN, _INTEGER, _NUMBER, _TEXT, _JSON, _VALUE_JSON = 1, 2, 3, 4, 5, 6, 7, 8, 16
_STATS_TIME, _STATS_ITEM = 2, 3
_SECONDS, _NANOS = 1, 2
_FILES_ITEM, _FILE_PATH = 1, 1
_EXIT_CODE = 1

# The first bytes of the fields of an item, and from where on a length takes more than one byte.
_KEY_BYTES, _VALUE_BYTES = (_KEY << 3 | 2, _NESTED_KEY << 3 | 2), b"\x82\x01"
_LONG, _LEAST_ITEM = 0x80, 5

STEP_NAMES = ("global_step", "_step")
"""Where a row says its step, the first that it has: the script's own count, else W&B's count of rows."""
TIME_NAME = "_timestamp"


class Row(NamedTuple):
    """Numbers of one moment. Rows of the script keep W&B's own ``_step``, ``_runtime`` and ``_timestamp``."""

    kind: Literal["history", "system"]
    values: dict[str, Any]


class Media(NamedTuple):
    """Something that is no number: its kind by W&B's name (``image-file``, ``video-file``, ``table-file``…)."""

    key: str
    kind: str
    step: float | None
    paths: tuple[str, ...]


@dataclass
class TrackedRun:
    """What the file of a run holds, as far as it was read."""

    run_id: str = ""
    project: str = ""
    entity: str = ""
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    media: list[Media] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """What W&B was asked to keep beside the numbers, by path."""
    exit_code: int | None = None
    """None while the run goes on, or when it was broken off."""
    damaged: int = 0
    """How many places of the file could not be read; what stands before and behind them was."""
    is_cut: bool = False
    """Whether the file ends in the middle of a record: it is being written, or was broken off."""
    left_out: int = 0
    """How many entries, media and records were too many or too long to be kept."""
    history: list[dict[str, Any]] = field(default_factory=list)
    system: list[dict[str, Any]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all of the file was read."""
        return not (self.damaged or self.is_cut or self.left_out)


def take_record(run: TrackedRun, record: bytes) -> Iterator[Row]:
    """Add what a record says; the rows in it. Raises ValueError, TypeError and RecursionError for nonsense."""
    for part in wire.fields(record):
        if part.kind != wire.BYTES:
            continue
        if part.number == _HISTORY:
            values = _items(record, part, _UPDATE)
            _list_media(run, values)
            yield Row("history", values)
        elif part.number == _STATS:
            yield Row("system", _stats(record, part))
        elif part.number == _SUMMARY:
            _update(run, run.summary, record, part)
        elif part.number == _CONFIG:
            _update(run, run.config, record, part)
        elif part.number == _FILES:
            _list_files(run, record, part)
        elif part.number == _RUN:
            _take_run(run, record, part)
        elif part.number == _EXIT:
            codes = [one.varint for one in _inside(record, part) if one.number == _EXIT_CODE]
            run.exit_code = wire.signed(codes[0]) if codes else 0


def _inside(record: bytes, part: wire.Field) -> Iterator[wire.Field]:
    if part.kind != wire.BYTES:
        raise wire.WireError("a message was expected")
    return wire.fields(record, part.begin, part.end)


def _take_run(run: TrackedRun, record: bytes, whole: wire.Field) -> None:
    for part in _inside(record, whole):
        if part.number in _RUN_TEXTS:
            setattr(run, _RUN_TEXTS[part.number], wire.text(record, part)[:_LONGEST_TEXT])
        elif part.number == _RUN_CONFIG:
            _update(run, run.config, record, part)
    run.config.pop("_wandb", None)


def _update(run: TrackedRun, target: dict[str, Any], record: bytes, whole: wire.Field) -> None:
    for part in _inside(record, whole):
        if part.number == _UPDATE:
            key, value = _item(record, part)
            if key in target or len(target) < MOST_NAMES:
                target[key] = value
            else:
                run.left_out += 1
        elif part.number == _REMOVE:
            target.pop(_item(record, part)[0], None)


def _items(record: bytes, whole: wire.Field, number: int) -> dict[str, Any]:
    return dict(_item(record, part) for part in _inside(record, whole) if part.number == number)


def _item(record: bytes, whole: wire.Field) -> tuple[str, Any]:
    """(key, value); a nested key is joined with dots. Values are JSON in older files, fields of their own in newer."""
    if whole.kind == wire.BYTES and (plain := _plain_item(record, whole.begin, whole.end)) is not None:
        return plain
    keys: list[str] = []
    value: Any = None
    for part in _inside(record, whole):
        if part.number in (_KEY, _NESTED_KEY):
            keys.append(wire.text(record, part))
        elif part.number in (_VALUE_JSON, _JSON):
            value = json.loads(wire.text(record, part))
        elif part.number == _NUMBER:
            value = wire.double(record, part)
        elif part.number == _INTEGER:
            value = (part.varint >> 1) ^ -(part.varint & 1)
        elif part.number == _TEXT:
            value = wire.text(record, part)
        elif part.number == _BOOLEAN:
            value = bool(part.varint)
    return ".".join(keys), value


def _plain_item(record: bytes, begin: int, end: int) -> tuple[str, Any] | None:
    """The same for the form that nearly every item has, a short key and a short value as JSON: a run has millions of
    them, and going through the fields takes twice as long. None for any other form."""
    if end - begin < _LEAST_ITEM or record[begin] not in _KEY_BYTES or record[begin + 1] >= _LONG:
        return None
    middle = begin + 2 + record[begin + 1]
    if record[middle : middle + 2] != _VALUE_BYTES or middle + 3 > end or record[middle + 2] >= _LONG:
        return None
    if middle + 3 + record[middle + 2] != end:
        return None
    text = record[middle + 3 : end].decode(errors="replace")
    return record[begin + 2 : middle].decode(errors="replace"), json.loads(text)


def _stats(record: bytes, whole: wire.Field) -> dict[str, Any]:
    values = _items(record, whole, _STATS_ITEM)
    for part in _inside(record, whole):
        if part.number == _STATS_TIME:
            clock = {one.number: one.varint for one in _inside(record, part)}
            values[TIME_NAME] = wire.signed(clock.get(_SECONDS, 0)) + clock.get(_NANOS, 0) / 1e9
    return values


def step_of(values: dict[str, Any]) -> float | None:
    """The step of a row, None where it has none that is a number."""
    for name in STEP_NAMES:
        found = number_of(values.get(name))
        if found is not None and math.isfinite(found):
            return found
    return None


def number_of(value: object) -> float | None:
    """A logged value as a number; None for everything else. NaN is a number that a curve has a gap for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _list_media(run: TrackedRun, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if not isinstance(value, dict) or not isinstance(value.get("_type"), str):
            continue
        if len(run.media) >= MOST_LISTED:
            run.left_out += 1
            continue
        run.media.append(Media(key, value["_type"][:_LONGEST_TEXT], step_of(values), tuple(_paths(value))))


def _paths(value: dict[str, Any]) -> list[str]:
    """Where the files of a medium lie: one, or one for each of several pictures."""
    listed = value.get("filenames")
    found = [value.get("path"), *(listed if isinstance(listed, list) else ())]
    return [path[:_LONGEST_TEXT] for path in found if isinstance(path, str)][:_MOST_PATHS]


def _list_files(run: TrackedRun, record: bytes, whole: wire.Field) -> None:
    for item in _inside(record, whole):
        if item.number != _FILES_ITEM:
            continue
        for part in _inside(record, item):
            if part.number == _FILE_PATH and len(run.files) < MOST_LISTED:
                run.files.append(wire.text(record, part)[:_LONGEST_TEXT])
            elif part.number == _FILE_PATH:
                run.left_out += 1
