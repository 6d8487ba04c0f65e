"""What an outbox holds of recorded steps, read as the daemon reads it after the worker is gone."""

from __future__ import annotations

from pathlib import Path

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.steps.chunk import OpenedChunk
from mosaic_protocol.steps.open_chunk import STREAM, path_of, read_left


def chunks_in(outbox: Path) -> list[events.StepChunk]:
    """Every chunk once: those of the journal, then the open one."""
    reader = OutboxReader(outbox, STREAM)
    records = []
    while lines := reader.read():
        records += [events.decode(line) for line in lines]
    reader.close()
    left = read_left(path_of(outbox, STREAM))
    if left is not None and left.record is not None and left.record.seq > len(records):
        assert left.record.seq == len(records) + 1
        records.append(left.record)
    assert all(isinstance(record, events.StepChunk) for record in records)
    return [record for record in records if isinstance(record, events.StepChunk)]


def steps_in(outbox: Path) -> list[events.TrainingStep]:
    return [step for chunk in chunks_in(outbox) for step in OpenedChunk(chunk).steps()]
