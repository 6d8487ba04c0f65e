"""Whole episodes stand on the heap as groups: readers see what they stand for, and no kill tears one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.chunk import ChunkError, OpenedChunk
from mosaic_protocol.steps.columns import GROUPED, PLAIN, StepSchema
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.recording.whole_episodes import EpisodeBatch, WholeEpisode
from mosaic_worker.tests.recording.step_journals import chunks_in, steps_in

ROOT = Path(__file__).resolve().parents[3]
KILLS = 4
HANG = 60.0

ENDLESS_PLAYER = """
import mmap, random, sys
from pathlib import Path
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.recording.whole_episodes import EpisodeBatch, WholeEpisode

outbox, counter = Path(sys.argv[1]), Path(sys.argv[2])
with counter.open("r+b") as file:
    done = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
recorder = StepRecorder(outbox, seal_seconds=float(sys.argv[3]))
lane, draw, batch = recorder.lane("agent", "policy"), random.Random(done[0]), EpisodeBatch()
while True:
    number = lane.next_episode
    for _ in range(draw.randint(1, 40)):
        length = number % 13 + 1
        batch.observations += range(length)
        batch.actions += [number] * length
        batch.rewards += [0.5] * length
        batch.values += [0.25] * length
        batch.end(WholeEpisode(number, length, 0.5 * length, length, True, {"mind": {"number": number}}))
        number += 1
    lane.append_episodes(batch)
    done[0] = number
"""


def played(lengths: list[int], extras: dict[str, Any] | None = None) -> EpisodeBatch:
    batch = EpisodeBatch()
    for number, length in enumerate(lengths):
        batch.observations += range(length)
        batch.actions += [number] * length
        batch.rewards += [1.0] * length
        batch.values += [0.5] * length
        batch.end(WholeEpisode(number, length, float(length), length, number % 2 == 0, extras))
    return batch


def test_a_kill_at_any_instant_tears_no_episode_and_doubles_none(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_bytes(bytes(8))
    outbox, draw = tmp_path / "outbox", random.Random(2)
    for turn in range(KILLS):
        command = [sys.executable, "-c", ENDLESS_PLAYER, str(outbox), str(counter), str(0.002 if turn % 2 else 3600)]
        before = int.from_bytes(counter.read_bytes(), "little")
        player = subprocess.Popen(command, cwd=ROOT)
        try:
            deadline, wanted = time.monotonic() + HANG, before + draw.randint(50, 500)
            while int.from_bytes(counter.read_bytes(), "little") < wanted:
                assert time.monotonic() < deadline and player.poll() is None
                time.sleep(0.001)
        finally:
            player.send_signal(signal.SIGKILL)
            player.wait()
    handed_over = int.from_bytes(counter.read_bytes(), "little")
    StepRecorder(outbox).close()  # reads what the last one left
    episodes = list(read_episodes(chunks_in(outbox)))
    assert [one.number for one in episodes] == list(range(len(episodes))) and len(episodes) >= handed_over
    for one in episodes:
        assert one.is_whole and len(one) == one.number % 13 + 1 and one.extras == {0: {"mind": {"number": one.number}}}
        assert one.ended is not None and one.ended.total_reward == 0.5 * len(one) and one.seed == one.number
    told = [ended.episode for chunk in chunks_in(outbox) for ended in chunk.episodes]
    assert told == [one.number for one in episodes]
    assert [step.step for step in steps_in(outbox)] == list(range(sum(map(len, episodes))))


def test_only_chunks_with_groups_need_a_version_that_knows_them(tmp_path: Path) -> None:
    with_steps = StepRecorder(tmp_path, seal_seconds=3600)
    lane = with_steps.lane("a", "agent")
    lane.append(1, 2, 1.0, True)
    with_steps.flush()
    lane.append_episodes(played([3, 4]))
    with_steps.close()
    assert [(chunk.schema.v, chunk.count) for chunk in chunks_in(tmp_path)] == [(PLAIN, 1), (GROUPED, 7)]
    newer = msgspec.structs.replace(chunks_in(tmp_path)[1], schema=StepSchema(chunks_in(tmp_path)[1].schema.columns, 3))
    with pytest.raises(ChunkError, match="schema version 3, newer than 2: update MOSAIC"):
        OpenedChunk(newer)


def test_a_group_is_read_as_the_entries_it_stands_for(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    recorder.lane("a", "agent").append_episodes(played([2, 1], {"why": "so"}))
    recorder.close()
    (chunk,) = chunks_in(tmp_path)
    first, second = chunk.episodes
    assert [
        (entry.row, entry.key, entry.value) for entry in OpenedChunk(chunk).entries if entry.key != chunks.NAME
    ] == [
        (0, chunks.BEGIN, [0, "a", 0, {}]),
        (0, chunks.EXTRAS, {"why": "so"}),
        (1, chunks.FINAL, [[[], 2]]),
        (1, chunks.END, first),
        (2, chunks.BEGIN, [1, "a", 1, {}]),
        (2, chunks.EXTRAS, {"why": "so"}),
        (2, chunks.FINAL, [[[], 1]]),
        (2, chunks.END, second),
    ]
    assert (first.outcome, second.outcome, second.first_step) == ("terminated", "truncated", 2)


def group(**changed: Any) -> list[Any]:
    fields: dict[str, Any] = {
        "first_episode": 0,
        "agent_id": "a",
        "first_step": 0,
        "lengths": [1],
        "seeds": [1],
        "totals": [1.0],
        "terminated": [True],
        "finals": [0],
        "extras": [None],
    }
    return list((fields | changed).values())


@pytest.mark.parametrize(
    "absurd",
    [
        5,
        [],
        group(lengths=[1, 2]),
        group(lengths=[0]),
        group(lengths=[-5]),
        group(lengths=[2]),
        group(first_step=2**63 - 1),
        group(first_episode=2**63 - 1),
        group(seeds=[[]]),
        group(extras={}),
    ],
    ids=str,
)
def test_a_group_that_cannot_be_one_is_refused(absurd: Any) -> None:
    body = heap.packed(0, chunks.EPISODES, absurd)
    columns = bytes(StepSchema(chunks.FIXED_COLUMNS, GROUPED).width)
    with pytest.raises(ChunkError):
        chunks.seal(StepSchema(chunks.FIXED_COLUMNS, GROUPED), 1, columns, body, first_step=0, episodes=(0, 0))
    with pytest.raises(ChunkError):
        list(chunks.expanded(heap.HeapEntry(0, chunks.EPISODES, absurd), 1))
