"""What the journal promises when its writer is killed or the disk will take no more, with real processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_protocol.outbox_publisher import OutboxPublisher

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 12

ENDLESS_WRITER = """
import random, sys
from pathlib import Path
from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxWriter

writer = OutboxWriter(Path(sys.argv[1]), "script", segment_bytes=400_000)
sizes = random.Random(int(sys.argv[2]))
while True:
    text = "x" * sizes.choice([10, 1_000, 300_000])
    writer.append(events.RunLifecycleEvent(event="heartbeat", step=writer.last_seq + 1, sentence=text))
"""

LIMITED_WRITER = """
import json, resource, sys
from pathlib import Path
from mosaic_protocol import events, outbox

def limit_files_to(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def append():
    step = writer.last_seq + 1
    return writer.append(events.RunLifecycleEvent(event="heartbeat", step=step, sentence="x" * 500))

writer = outbox.OutboxWriter(Path(sys.argv[1]), "script")
outbox.MAX_HELD_RECORDS = 50
told = {}
for _ in range(10):
    append()
room = int(sys.argv[2])
limit_files_to(next(Path(sys.argv[1]).iterdir()).stat().st_size + room)
told["numbers"] = [append() for _ in range(40)]
told["held"], told["flushed"] = writer.held, writer.flush()
try:
    while True:
        append()
except outbox.OutboxError as error:
    told["refusal"] = str(error)
limit_files_to(resource.RLIM_INFINITY)
told["flushed_later"], told["held_later"] = writer.flush(), writer.held
append()
writer.close()
told["last_seq"] = writer.last_seq
print(json.dumps(told))
"""


def command(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def written(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.jsonl"))


def kill_after(directory: Path, more_bytes: int, seed: int) -> None:
    """Start a writer and kill it as soon as the journal has grown by so many bytes."""
    goal = written(directory) + more_bytes
    deadline = time.monotonic() + 60
    with subprocess.Popen(command(ENDLESS_WRITER, str(directory), str(seed)), env=environment()) as process:
        try:
            while written(directory) < goal and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.0005)
            assert process.poll() is None, "the writer ended by itself"
        finally:
            process.kill()
    assert written(directory) >= goal, "the writer wrote nothing for a minute"


def read_all(directory: Path) -> list[events.Record]:
    reader = OutboxReader(directory, "script")
    lines = reader.read(10**9)
    reader.close()
    return [events.decode(line) for line in lines]


def check_whole(records: list[events.Record]) -> None:
    numbers = list(range(1, len(records) + 1))
    assert [record.seq for record in records] == numbers
    assert [record.step for record in records if isinstance(record, events.RunLifecycleEvent)] == numbers


def test_a_writer_killed_at_any_instant_leaves_no_gap_no_double_and_no_torn_line(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # shown when the test fails
    chance = random.Random(seed)
    for round_number in range(ROUNDS):
        kill_after(tmp_path, chance.randrange(1, 1_500_000), seed + round_number)
        before = read_all(tmp_path)
        check_whole(before)
        writer = OutboxWriter(tmp_path, "script", segment_bytes=400_000)
        assert writer.last_seq == len(before)
        writer.append(events.RunLifecycleEvent(event="heartbeat", step=writer.last_seq + 1))
        writer.close()
        check_whole(read_all(tmp_path))
        assert len(read_all(tmp_path)) == len(before) + 1


def run_limited_writer(directory: Path, room: int) -> dict[str, Any]:
    result = subprocess.run(
        command(LIMITED_WRITER, str(directory), str(room)),
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def check_that_records_waited_for_space(directory: Path, told: dict[str, Any]) -> None:
    assert told["numbers"] == list(range(11, 51))
    assert told["held"] > 0 and told["flushed"] is False
    assert "records wait for space in" in told["refusal"] and "free some disk space" in told["refusal"]
    assert told["flushed_later"] is True and told["held_later"] == 0
    records = read_all(directory)
    check_whole(records)
    assert len(records) == told["last_seq"]


def test_records_wait_in_memory_while_a_write_is_cut_short_and_none_is_lost(tmp_path: Path) -> None:
    told = run_limited_writer(tmp_path, room=5000)
    check_that_records_waited_for_space(tmp_path, told)


def test_records_wait_in_memory_while_no_byte_is_taken_and_none_is_lost(tmp_path: Path) -> None:
    told = run_limited_writer(tmp_path, room=0)
    check_that_records_waited_for_space(tmp_path, told)
    assert told["held"] == 40


def test_what_cannot_be_looked_at_is_not_taken_for_delivered(tmp_path: Path) -> None:
    unusable = tmp_path / ("x" * 300)  # any error but "not found" does
    assert not OutboxPublisher(unusable, "run").wait_until_delivered(0)
    assert OutboxPublisher(tmp_path, "run").wait_until_delivered(0), "there is nothing to deliver"
