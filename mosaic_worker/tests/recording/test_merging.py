"""Several chunks made into one: the same steps, to the last value and the moment of each."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.chunk import ChunkError, OpenedChunk, seal
from mosaic_protocol.steps.merging import MOST_STEPS, may_merge, merged
from mosaic_protocol.steps.open_chunk import STREAM
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_worker.recording.step_recorder import StepRecorder

EXTRAS = st.one_of(
    st.none(),
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5)),
        max_size=3,
    ),
    st.just({"picture": np.arange(6, dtype=np.uint16).reshape(2, 3), "mind": ["a", math.nan]}),
)
STEP = st.tuples(
    st.floats(width=32), st.sampled_from(["human", "policy", ""]), st.floats(), EXTRAS, st.booleans(), st.booleans()
)


def recorded(folder: Path, steps: list[Any]) -> list[events.StepChunk]:
    """The chunks of a session, a new one wherever a step asks for it."""
    recorder = StepRecorder(folder, seal_seconds=3600.0)
    lane = recorder.lane("blue")
    for number, (seen, actor, reward, extras, ends, seals) in enumerate(steps):
        observation = {"place": np.array([seen, number], np.float32), "word": "x" * (number % 3)}
        final = observation if ends else None
        lane.append(observation, number % 4, reward, ends, actor=actor, extras=extras, final_observation=final)
        if seals:
            recorder.flush()
    recorder.close()
    reader = OutboxReader(folder, STREAM)
    lines = reader.read()
    reader.close()
    found = [events.decode(line) for line in lines]
    for number, record in enumerate(found):
        record.t = 100.0 + number
    return [record for record in found if isinstance(record, events.StepChunk)]


def told(chunks: list[events.StepChunk], *, observations: bool = True) -> list[str]:
    """Everything that readers get of each step; ``repr``, because NaN equals nothing."""
    return [repr(step) for chunk in chunks for step in OpenedChunk(chunk).steps(observations=observations)]


def without_observations(step: events.TrainingStep) -> events.TrainingStep:
    step.observation = step.final_observation = None
    return step


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=40))
def test_the_merged_chunk_holds_the_same_steps(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        chunks = recorded(Path(folder), steps)
    one = merged(chunks)
    assert one is not None
    assert told([one]) == told(chunks)
    assert told([one], observations=False) == [repr(without_observations(step)) for step in OpenedChunk(one).steps()]
    assert repr(one.episodes) == repr([ended for chunk in chunks for ended in chunk.episodes])
    assert (one.first_step, one.count) == (0, len(steps))
    assert (one.first_episode, one.last_episode) == (chunks[0].first_episode, chunks[-1].last_episode)
    assert events.decode(events.encode(one)) == one


@settings(max_examples=10, deadline=None)
@given(steps=st.lists(STEP, min_size=3, max_size=20), cut=st.integers(1, 19))
def test_what_was_merged_can_be_merged_again(steps: list[Any], cut: int) -> None:
    with TemporaryDirectory() as folder:
        chunks = recorded(Path(folder), [(*step[:-1], True) for step in steps])
    cut = min(cut, len(chunks) - 1)
    halves = [merged(chunks[:cut]), merged(chunks[cut:])]
    whole = merged([half for half in halves if half is not None])
    assert whole is not None and told([whole]) == told(chunks)


def test_replays_and_datasets_read_the_same_episodes(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600.0)
    lanes = recorder.lane("blue", "human"), recorder.lane("red", "policy")
    for number in range(90):
        lane = lanes[number % 2]
        if number % 30 < 2:
            lane.begin_episode(number, {"level": number})  # what was running is abandoned
        lane.append(np.full(3, number, np.float32), number % 4, 1.0, number % 17 == 16, value=float(number))
        if number % 7 == 6:
            recorder.flush()
    recorder.close()
    reader = OutboxReader(tmp_path, STREAM)
    chunks = [record for record in map(events.decode, reader.read()) if isinstance(record, events.StepChunk)]
    reader.close()
    one = merged(chunks)
    assert one is not None and len(chunks) > 10

    def read(records: list[events.StepChunk]) -> list[Any]:
        return [
            (
                *(each.number, each.agent_id, each.seed, each.options, each.outcome, each.numbers.tolist()),
                *(list(each.actors), each.stacked("observation")[()].tolist(), each.stacked("action")[()].tolist()),
            )
            for each in read_episodes(records)
        ]

    assert read([one]) == read(chunks)


def test_only_neighbours_with_the_same_columns_that_fit_together_may_merge(tmp_path: Path) -> None:
    first, second, third = recorded(tmp_path, [(0.0, "human", 0.0, None, False, True)] * 3)
    assert may_merge(first, first.count, first.raw_bytes, second)
    assert not may_merge(first, first.count, first.raw_bytes, third), "a step is missing between them"
    assert not may_merge(first, MOST_STEPS, first.raw_bytes, second)
    assert not may_merge(first, first.count, 2**30, second)


def test_more_names_than_a_chunk_can_number_stay_apart(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600.0)
    for number in range(300):
        recorder.lane(f"agent {number}").append(0, 0, 0.0, True)
    recorder.close()
    reader = OutboxReader(tmp_path, STREAM)
    chunks = [record for record in map(events.decode, reader.read()) if isinstance(record, events.StepChunk)]
    reader.close()
    assert len(chunks) == 2 and merged(chunks) is None


def test_values_that_this_version_does_not_know_are_carried_over(tmp_path: Path) -> None:
    """Of a newer recorder: an extension of MessagePack that no reader here can decode."""
    first, second = recorded(tmp_path, [(0.0, "human", 0.0, {"later": "?"}, False, True)] * 2)
    strange = heap.packed(0, "later", msgspec.msgpack.Ext(99, b"?"))
    opened = OpenedChunk(first)
    columns = opened._raw[: -first.heap_bytes]
    newer = seal(first.schema, 1, columns, opened.heap + strange, first_step=0, episodes=(0, 0))
    one = merged([newer, second])
    assert one is not None
    assert [entry.value for entry in OpenedChunk(one).raw_entries() if entry.key == "later"] == [
        entry.value for entry in OpenedChunk(newer).raw_entries() if entry.key == "later"
    ]
    with pytest.raises(ChunkError, match="unknown kind of value"):
        told([one])


def test_a_damaged_chunk_is_not_merged_into_its_neighbours(tmp_path: Path) -> None:
    first, second = recorded(tmp_path, [(0.0, "human", 0.0, None, False, True)] * 2)
    second.body = second.body[:-1] + bytes([second.body[-1] ^ 1])
    with pytest.raises(ChunkError):
        merged([first, second])
