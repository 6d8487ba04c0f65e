"""Chunks that no recorder writes: sound by their checksums, but a reader would need all its time or memory for them."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mosaic_protocol import events
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap, open_chunk
from mosaic_protocol.steps.chunk import ChunkError, OpenedChunk
from mosaic_protocol.steps.columns import Column, StepSchema
from mosaic_protocol.steps.open_chunk import ChunkPlace, Layout, OpenChunk, read_left
from mosaic_protocol.steps.recorded_episodes import read_episodes

LONG, ENTRY_BYTES = 5_000, 10_000_000
SEEN = (chunks.OBSERVATION,)


def record_of(columns: Sequence[Column] = (), rows: int = 2, entry: bytes = b"") -> events.StepChunk:
    """As it comes from a journal."""
    schema = StepSchema((*chunks.FIXED_COLUMNS, *columns))
    names = heap.packed(0, chunks.NAME, "")
    raw = bytes(schema.width * rows)
    made = chunks.seal(schema, rows, raw, names + entry, first_step=0, episodes=(0, 0), ends=chunks.Ends())
    read = events.decode(events.encode(made))
    assert isinstance(read, events.StepChunk)
    return read


def empty_array(shape: tuple[int, ...]) -> bytes:
    """An entry with an array that has no number."""
    array = msgspec.msgpack.Ext(1, msgspec.msgpack.encode(heap.ArrayValue("<f4", shape, b"")))
    return heap._framed(msgspec.msgpack.encode([0, chunks.EXTRAS, {"seen": array}]))


def group_of(episodes: int) -> bytes:
    return heap.packed(
        0,
        chunks.EPISODES,
        [0, "", 0, *([one] * episodes for one in (1, None, 0.0, True, 0, None))],
    )


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: record_of([Column(SEEN, "f4", (10**9, 0))]), "hold next to nothing"),
        (lambda: record_of([Column(SEEN, "f4", (10**40, 0))]), "hold next to nothing"),
        (lambda: record_of([Column((*SEEN, at), "f4", (0,)) for at in range(3000)], 60_000), "hold next to nothing"),
        (lambda: record_of([Column(SEEN, "f4", (1,) * LONG)]), "not those of steps"),
        (lambda: record_of([Column(SEEN + ("a",) * LONG, "f4")]), "not those of steps"),
        (lambda: record_of(rows=8_000_000), "more than 65,536 are not read at once"),
        (lambda: record_of(entry=heap.packed(0, chunks.LEAF, [SEEN + ("a",) * LONG, 1])), "too deep"),
        (lambda: record_of(entry=heap.packed(0, chunks.FINAL, [[["a"] * LONG, 1]])), "too deep"),
        (lambda: record_of(entry=empty_array((10**15, 0))), "impossible shape"),
        (lambda: record_of(entry=group_of(50_000)), "50,000 steps from row 0 on in a chunk of 2"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_would_take_a_readers_memory_is_refused_at_once(make: Any, why: str) -> None:
    record = make()
    tracemalloc.start()
    began = time.process_time()
    try:
        for read in (lambda: list(OpenedChunk(record).steps()), lambda: list(read_episodes([record]))):
            with pytest.raises(ChunkError, match=why):
                read()
        assert tracemalloc.get_traced_memory()[1] < 10 * ENTRY_BYTES
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 10.0


def test_arrays_without_a_number_are_read_as_they_were() -> None:
    (step, _) = OpenedChunk(record_of([Column(SEEN, "f4", (3, 0))], entry=empty_array((0, 4)))).steps()
    assert step.observation == [[], [], []] and step.info["seen"].shape == (0, 4)


def test_an_open_chunk_with_room_for_more_steps_than_a_chunk_may_have_is_damage(tmp_path: Path) -> None:
    layout = Layout(StepSchema(chunks.FIXED_COLUMNS), chunks.MOST_ROWS + 1, 100)
    opened = OpenChunk(tmp_path / f"steps{open_chunk.SUFFIX}", layout, ChunkPlace(1, 0, 0))
    opened.commit()
    opened.close()
    with pytest.raises(ChunkError, match="claims room for 65,537 steps"):
        read_left(opened.path)
