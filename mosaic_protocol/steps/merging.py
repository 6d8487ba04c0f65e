"""Several chunks of steps made into one with the same steps, for a store whose run is over.

A session at a person's speed leaves chunks of a handful of steps each. Together they take a tenth of the space, and a
reader opens one where it opened fifty. Values on the heap are carried over as they were written: of them names and the
ends of episodes alone are decoded, also undone ones, and nothing that this version might not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_protocol.events import StepChunk
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap as heap_entries

MOST_STEPS = 512
"""As many as a chunk of the recorder holds: a reader who wants one step unpacks them all."""
MOST_RAW_BYTES = 1024 * 1024
_MOST_NAMES = 255
_NUMBERED = {(chunks.AGENT,), (chunks.ACTOR,)}
"""Columns whose values stand for names on the heap."""


def may_merge(first: StepChunk, count: int, raw_bytes: int, following: StepChunk) -> bool:
    """Whether a chunk may join those before it, which begin with ``first`` and hold ``count`` steps."""
    return (
        following.schema == first.schema
        and following.first_step == first.first_step + count
        and count + following.count <= MOST_STEPS
        and raw_bytes + following.raw_bytes <= MOST_RAW_BYTES
    )


def merged(records: Sequence[StepChunk]) -> StepChunk | None:
    """One chunk with the steps of all, which follow each other and have the same columns; None when there are none, or
    when they have more names than one chunk can number. Raises :class:`~mosaic_protocol.steps.chunk.ChunkError` for
    damaged ones."""
    if not records:
        return None
    opened = [chunks.OpenedChunk(record) for record in records]
    names: dict[str, int] = {}
    heap: list[bytes] = []
    places: list[bytes] = []
    rows = 0
    for one in opened:
        numbers = [names.setdefault(name, len(names)) for name in one.names]
        if len(names) > _MOST_NAMES:
            return None
        places.append(bytes(numbers).ljust(256, b"\xff"))
        heap += _moved(one, rows)
        rows += one.record.count
    written = [heap_entries.packed(0, chunks.NAME, name) for name in names]
    first, last = records[0], records[-1]
    record = chunks.seal(
        first.schema,
        rows,
        _columns(opened, places),
        b"".join([*written, *heap]),
        first_step=first.first_step,
        episodes=(min(one.first_episode for one in records), max(one.last_episode for one in records)),
    )
    record.seq, record.t, record.v = last.seq, last.t, last.v
    record.times = _times(records)
    record.next_episode = max(one.next_episode for one in records)
    return record


def _moved(opened: chunks.OpenedChunk, rows: int) -> list[bytes]:
    """The entries of a heap so many rows further down, without names."""
    found = []
    for entry in opened.raw_entries():
        if entry.key != chunks.NAME:
            entry.row += rows
            found.append(heap_entries.packed_raw(entry))
    return found


def _columns(opened: Sequence[chunks.OpenedChunk], places: Sequence[bytes]) -> bytes:
    parts = []
    for column in opened[0].record.schema.columns:
        for one, numbers in zip(opened, places, strict=True):
            part = one.raw_column(column.path)
            parts.append(part.translate(numbers) if column.path in _NUMBERED else part)
    return b"".join(parts)


def _times(records: Sequence[StepChunk]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    rows = 0
    for record in records:
        found += [(rows + row, t) for row, t in record.times or [(0, record.t)]]
        rows += record.count
    return found
