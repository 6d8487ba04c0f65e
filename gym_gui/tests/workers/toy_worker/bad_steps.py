"""Recorded steps as a broken worker leaves them: ten chunks of twenty, of which something is wrong with the fifth; or
whole ones of strange observations."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_protocol.steps.open_chunk import STREAM
from mosaic_protocol.worker_client import WorkerSession
from mosaic_worker.recording.step_recorder import StepRecorder

CHUNKS, EACH = 10, 20
_STRANGE = {
    "large": [np.zeros(4), np.zeros(64 * 1024 * 1024, np.uint8), np.ones(4)],
    "changing": [np.zeros(2, np.float32), np.zeros((3, 3)), {"a": 1}, [1, [2]], "text", None, np.zeros(2, np.float32)],
}


def leave_bad_steps(session: WorkerSession, how: str) -> None:
    if how in _STRANGE:
        recorder = StepRecorder(session.run.outbox)
        lane = recorder.lane("toy", "script")
        for number, observation in enumerate(_STRANGE[how]):
            lane.append(observation, number, 1.0)
        recorder.close()
        return
    records = _good_records()
    bad = records[4]
    if how == "checksum":
        bad.crc ^= 1
    elif how == "version":
        bad.schema = type(bad.schema)(bad.schema.columns, v=99)
    elif how == "replayed":
        records.insert(7, records[3])
    elif how == "twice":
        records.insert(5, bad)
    elif how == "reordered":
        records[4], records[5] = records[5], records[4]
    _journal(session.run.outbox, records, torn=how == "torn")


def _good_records() -> list[events.StepChunk]:
    with TemporaryDirectory() as place:
        recorder = StepRecorder(Path(place), seal_seconds=3600.0)
        lane = recorder.lane("toy", "script")
        for number in range(CHUNKS * EACH):
            lane.append([number], number, 1.0)
            if number % EACH == EACH - 1:
                recorder.flush()
        recorder.close()
        reader = OutboxReader(Path(place), STREAM)
        found = [events.decode(line) for line in reader.read()]
        reader.close()
    return [record for record in found if isinstance(record, events.StepChunk)]


def _journal(outbox: Path, records: list[events.StepChunk], *, torn: bool) -> None:
    journal = OutboxWriter(outbox, STREAM)
    for record in records:
        journal.append(record)
    journal.close()
    if torn:
        (segment,) = outbox.glob(f"{STREAM}-*.jsonl")
        lines = segment.read_bytes().splitlines(keepends=True)
        lines[4] = lines[4][: len(lines[4]) // 2] + b"\n"
        draft = segment.with_suffix(".draft")
        draft.write_bytes(b"".join(lines))
        draft.replace(segment)
