"""Chunks of steps made by hand: also such as no recorder makes, with a right checksum all the same."""

from __future__ import annotations

import struct
from typing import Any

import zstandard

from mosaic_protocol import events as ev
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.columns import StepSchema

SCHEMA = StepSchema(chunks.FIXED_COLUMNS)


def made_chunk(first_step: int, count: int, entries: bytes = b"", *, episode: int = 0, **fields: Any) -> ev.StepChunk:
    """Steps of one episode without observations; ``entries`` are put onto the heap as they are."""
    names = heap.packed(0, chunks.NAME, "")
    numbers = struct.pack(f"<{count}q", *[episode] * count)
    raw = numbers + bytes(3 * count) + struct.pack(f"<{count}d", *[1.0] * count) * 2 + names + entries
    body = zstandard.ZstdCompressor().compress(raw)
    record = ev.StepChunk(
        first_step=first_step,
        count=count,
        first_episode=episode,
        last_episode=episode,
        schema=SCHEMA,
        heap_bytes=len(names + entries),
        raw_bytes=len(raw),
        crc=chunks.checksum(first_step, count, body),
        body=body,
        seq=1,
        t=1.0,
    )
    for name, value in fields.items():
        setattr(record, name, value)
    return record
