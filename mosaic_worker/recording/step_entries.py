"""What the heap of a chunk holds of one step, and how much that may weigh."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, TypeAlias

from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_worker.recording.step_fields import MOST_OBSERVATION_BYTES

MOST_ENTRY_BYTES = 512 * 1024
"""What cannot stand in a column may weigh so much,"""
MOST_BESIDE_BYTES = 640 * 1024
"""and all of it in one step so much, without the final observation:"""
MOST_FINAL_BYTES = MOST_OBSERVATION_BYTES + 64 * 1024
"""whatever could be an observation can be the final one."""
MOST_HEAP_BYTES = MOST_FINAL_BYTES + MOST_BESIDE_BYTES
"""With its columns a step then fits into one record, also when nothing of it compresses."""
_LONGEST_NAME = 1_000
_ALWAYS_KEPT = frozenset({chunks.NAME, chunks.END})
_SPOKEN = {chunks.FINAL: "final observation", chunks.BEGIN: "what reset was given"}
MOST_NUMBER = 2**63
"""Seeds may have more bits; those are written as text."""

Entry: TypeAlias = tuple[str, Any]


def name_entry(name: str) -> Entry:
    """The next name that agents and actors are numbered by."""
    return chunks.NAME, str(name)[:_LONGEST_NAME]


def written_seed(seed: int | None) -> int | str | None:
    """A seed as it is recorded: as text where it has more bits than a number may have."""
    return seed if seed is None or abs(seed) < MOST_NUMBER else str(seed)


def packed(row: int, entries: list[Entry]) -> tuple[bytes, list[str]]:
    """The entries of a step as the heap holds them, and a sentence for each that is too large."""
    found: list[bytes] = []
    dropped: list[str] = []
    left = MOST_BESIDE_BYTES
    for key, value in entries:
        entry = heap.packed(row, key, value)
        room = MOST_FINAL_BYTES if key == chunks.FINAL else min(left, MOST_ENTRY_BYTES)
        if len(entry) > room and key not in _ALWAYS_KEPT:
            name = "/".join(map(str, value[0])) if key == chunks.LEAF else _SPOKEN.get(key, key)
            size = f"{name} of {len(entry):,} bytes is too large to record"
            dropped.append(f"{size} (here at most {room:,}): left out of its step.")
            entry = _instead(row, key, value, len(entry))
        left -= 0 if key == chunks.FINAL else len(entry)
        found.append(entry)
    return b"".join(found), dropped


def note_ends(ends: chunks.Ends, episode: int, entries: list[Entry]) -> None:
    """What the entries of a step of an episode say of ends."""
    for key, value in entries:
        if key == chunks.END:
            ends.end(value)
        elif key == chunks.EXTRAS and chunks.undone_steps(value):
            ends.undo(episode)


def _instead(row: int, key: str, value: Any, size: int) -> bytes:
    """What stands for an entry that is too large: what readers need of it to read the other steps."""
    if key == chunks.EXTRAS:
        undone = {chunks.UNDONE: value[chunks.UNDONE]} if chunks.UNDONE in value else {}
        return heap.packed(row, key, {"dropped_bytes": size, **undone})
    if key == chunks.BEGIN:
        return heap.packed(row, key, [*value[:3], {}])
    return b""


def say(sentence: str) -> None:
    """To the log of the run."""
    with suppress(OSError):
        print(f"mosaic: {sentence}", file=sys.stderr, flush=True)
