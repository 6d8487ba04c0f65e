"""Batches of journal lines as stores take them: which lines of one are new, and whether they are sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from gym_gui.services.trainer.errors import RefusedError
from mosaic_protocol import events as ev

Line: TypeAlias = tuple[ev.Record, bytes]
"""A record, and the line that it was read from."""


@dataclass(frozen=True)
class Batch:
    """Consecutive records of one stream; ``first_seq`` numbers the first line. Empty: only asks for the cursor.

    ``oldest_seq`` is the oldest record the worker still has. It lies beyond the cursor only when this store lost what
    an earlier one acknowledged; the stream then goes on from there, and the gap is logged.
    """

    run_id: str
    stream: str
    first_seq: int
    lines: Sequence[bytes]
    oldest_seq: int = 1
    salvage: bool = False
    """For the journal of a worker that is gone: take what can be read and tell the rest, instead of refusing."""
    ahead: Sequence[bytes] = ()
    """Some of the lines that follow those of a salvaged batch: they show which of its numbers cannot be."""


@dataclass(frozen=True)
class Stored:
    """What a batch led to: the cursor after it, the records that were new, a sentence for each damage, and one of what
    the run should know."""

    acked: int
    fresh: Sequence[ev.Record]
    damaged: Sequence[str] = ()
    warning: str = ""


def new_lines(batch: Batch, acked: int) -> tuple[list[Line], list[str]]:
    """The records of a batch that come after the cursor, and a sentence for each damage. Raises
    :class:`RefusedError` for a batch that does not join what is stored, unless it is salvaged."""
    gone = _gone_for_good(batch, acked)
    acked = max(acked, batch.oldest_seq - 1)
    fresh, damaged = _salvaged(batch, acked) if batch.salvage else (_read_strictly(batch, acked), [])
    return fresh, [*gone, *damaged]


def sorted_out(
    batch: Batch, lines: Sequence[Line], why_not: Callable[[ev.Record], str]
) -> tuple[list[Line], list[str]]:
    """The lines that a store takes, and a sentence for each other one: ``why_not`` has none for those that it takes.
    Raises :class:`RefusedError` with the sentence, unless the batch is salvaged: what a worker left in the wrong stream
    keeps no run from its end."""
    kept: list[Line] = []
    strangers: list[str] = []
    for record, line in lines:
        if sentence := why_not(record):
            strangers.append(sentence)
        else:
            kept.append((record, line))
    if strangers and not batch.salvage:
        raise RefusedError(strangers[0])
    return kept, strangers


def _gone_for_good(batch: Batch, acked: int) -> list[str]:
    if batch.oldest_seq <= acked + 1:
        return []
    return [
        f"records {acked + 1} to {batch.oldest_seq - 1} were acknowledged by an earlier store and are in no journal"
    ]


def _read_strictly(batch: Batch, acked: int) -> list[Line]:
    """The new records of a batch, which has to join what is stored and has to be sound."""
    if batch.first_seq > acked + 1:
        raise RefusedError(f"stream {batch.stream!r} goes on at {acked + 1}, not at {batch.first_seq}")
    return [(_checked(line, seq), line) for seq, line in enumerate(batch.lines, batch.first_seq) if seq > acked]


def _salvaged(batch: Batch, acked: int) -> tuple[list[Line], list[str]]:
    """The new records that can be read, by the numbers they carry: a lost line shifts all that follow it. Numbers rise
    in a journal, so of those that contradict each other the fewest are wrong: one that is too high costs itself and not
    all that follow it. Lines that are stored already are judged too, that the verdict is the same each time."""
    read, damaged = _readable(batch)
    following = _readable(replace(batch, first_seq=batch.first_seq + len(batch.lines), lines=batch.ahead))[0]
    judged = [*read, *following]
    believed = _rising([record.seq for _, record, _ in judged], [place for place, _, _ in judged])
    lines = {judged[index][2] for index in believed}
    fresh: list[Line] = []
    for index, (place, record, line) in enumerate(read):
        if index in believed:
            if record.seq != place and not damaged:
                damaged.append(f"record {place} says that it is number {record.seq}")
            if record.seq > acked:
                fresh.append((record, line))
        elif line not in lines:  # else it is there twice
            damaged.append(f"record {place} says that it is number {record.seq}, and those around it contradict")
    return fresh, damaged


def _readable(batch: Batch) -> tuple[list[tuple[int, ev.Record, bytes]], list[str]]:
    """The place, record and text of each line that can be read, and a sentence for each other one."""
    read: list[tuple[int, ev.Record, bytes]] = []
    damaged: list[str] = []
    for place, line in enumerate(batch.lines, batch.first_seq):
        try:
            read.append((place, _decoded(line), line))
        except ev.RecordError as error:
            damaged.append(f"record {place}: {error}")
    return read, damaged


def _rising(numbers: Sequence[int], places: Sequence[int]) -> set[int]:
    """The indices of as many numbers as possible of which each is higher than the one before; where there is a choice,
    of those that stand at their places."""
    if all(one < other for one, other in pairwise(numbers)):
        return set(range(len(numbers)))
    ranks = {number: rank for rank, number in enumerate(sorted(set(numbers)), 1)}
    best: list[tuple[int, int]] = [(0, -1)] * (len(ranks) + 1)  # a Fenwick tree: (worth, last index) up to a rank
    before: list[int] = []
    end = (0, -1)
    for index, (number, place) in enumerate(zip(numbers, places, strict=True)):
        worth, previous = _best_below(best, ranks[number] - 1)
        before.append(previous)
        worth += len(numbers) + 1 + (number == place)  # how many they are comes first
        end = max(end, (worth, index))
        rank = ranks[number]
        while rank < len(best):
            best[rank] = max(best[rank], (worth, index))
            rank += rank & -rank
    found: set[int] = set()
    index = end[1]
    while index >= 0:
        found.add(index)
        index = before[index]
    return found


def _best_below(best: Sequence[tuple[int, int]], rank: int) -> tuple[int, int]:
    found = best[0]
    while rank:
        found = max(found, best[rank])
        rank -= rank & -rank
    return found


def _checked(line: bytes, seq: int) -> ev.Record:
    try:
        record = _decoded(line)
    except ev.RecordError as error:
        raise RefusedError(f"record {seq}: {error}") from error
    if record.seq != seq:
        raise RefusedError(f"record {seq} says that it is number {record.seq}")
    return record


def _decoded(line: bytes) -> ev.Record:
    """The record of one line. JSON may go over several, and what is kept verbatim is read line by line again."""
    if b"\n" in line or b"\r" in line:
        raise ev.RecordError("not a record: it is more than one line")
    return ev.decode(line)
