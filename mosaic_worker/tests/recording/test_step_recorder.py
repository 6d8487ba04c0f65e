"""Steps are recorded as they were seen, each once, whatever they consist of and whatever ends the worker."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mosaic_protocol import events
from mosaic_protocol.outbox import MAX_RECORD_BYTES
from mosaic_protocol.steps.chunk import OpenedChunk, seal
from mosaic_protocol.steps.open_chunk import STREAM, OpenChunk, path_of
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_worker.recording import step_entries, step_fields
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.recording.whole_episodes import EpisodeBatch, WholeEpisode
from mosaic_worker.tests.recording.step_journals import chunks_in, steps_in

ROOT = Path(__file__).resolve().parents[3]
KILLS = 8
HANG = 60.0

ENDLESS_RECORDER = """
import mmap, sys
from pathlib import Path
import numpy as np
from mosaic_worker.recording.step_recorder import StepRecorder

outbox, counter = Path(sys.argv[1]), Path(sys.argv[2])
with counter.open("r+b") as file:
    done = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
recorder = StepRecorder(outbox, seal_seconds=float(sys.argv[3]))
lane = recorder.lane("agent", "policy")
step = recorder.steps
while True:
    over = step % 7 == 6
    extras = {"why": "x" * (step % 500)} if step % 3 == 0 else None
    lane.append(np.full(4, step, np.float32), step, float(step), over, extras=extras)
    step += 1
    done[0] = step
"""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[StepRecorder]:
    opened = StepRecorder(tmp_path)
    yield opened
    opened.close()


def same(left: Any, right: Any) -> bool:
    """Equal in value and structure; NaN is itself, and what is no column comes back as lists."""
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, tuple | list) and not isinstance(right, np.ndarray | np.generic):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, str | type(None)):
        return bool(left == right)
    return np.array_equal(np.asarray(left), np.asarray(right), equal_nan=np.asarray(left).dtype.kind in "fc")


VALUES = [
    np.array([1.5, math.nan, math.inf, -math.inf], np.float32),
    np.array([[1, 2], [3, 4]], np.uint8),
    np.float16(0.5),
    np.array(7, np.int16),
    np.array([], np.float32),
    np.array([1 + 2j], np.complex64),
    np.array([2**63], np.uint64),
    np.array([1, 2], ">i4"),
    True,
    5,
    -(2**63),
    2.5,
    {"position": np.zeros(3), "inner": (1, {"deep": np.array([True])})},
    {"map": np.zeros((2, 2), np.uint8), "mission": "go to the red door"},
    {"only": "text"},
    ("a", np.ones(2)),
    [1, "two", None],
    {},
    (),
    "text",
    b"bytes",
    None,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_any_value_survives(value: Any, tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    lane.append(value, 0, 0.0)
    lane.append(np.zeros(2), value, 0.0, True, final_observation=value, extras={"seen": value})
    recorder.flush()
    first, second = steps_in(tmp_path)
    assert same(first.observation, value)
    assert same(second.action, value) and same(second.final_observation, value) and same(second.info["seen"], value)


def test_steps_whose_values_change_their_form_are_all_kept_in_order(tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane("agent", "policy")
    values = [*VALUES, *reversed(VALUES), *VALUES]
    for number, value in enumerate(values):
        lane.append(value, number, float(number))
    recorder.flush()
    found = steps_in(tmp_path)
    assert [(step.step, step.action, step.reward) for step in found] == [(n, n, float(n)) for n in range(len(values))]
    assert all(map(same, values, [step.observation for step in found]))


def test_a_number_beyond_64_bits_among_others_is_kept(tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    numbers = [1, 2, 2**70, 3, -(2**64), 4]
    for number in numbers:
        lane.append(number, number, 0.0)
    recorder.flush()
    assert [int(step.action) for step in steps_in(tmp_path)] == numbers


def test_plain_and_numpy_numbers_of_one_kind_share_a_chunk(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    lane = recorder.lane()
    for number in range(20):  # a person's key, then a policy's choice
        lane.append(np.zeros(4, np.float32), number if number % 2 else np.int64(number), 1.0)
    recorder.close()
    assert [chunk.count for chunk in chunks_in(tmp_path)] == [20]


def test_actor_value_extras_and_episodes_belong_to_their_steps(tmp_path: Path, recorder: StepRecorder) -> None:
    first, second = recorder.lane("blue", "human"), recorder.lane("red", "policy")
    assert first.begin_episode(seed=3, options={"map": "4x4"}) == 0
    assert second.begin_episode(seed=2**100) == 1
    first.append(0, 1, 0.5)
    second.append(0, 2, 1.0, value=0.25)
    first.append(1, 1, 0.5, truncated=True, actor="policy", final_observation=9, extras={"q": [1.0, math.nan]})
    second.append(1, 2, np.float32(2.0), terminated=True)
    first.append(0, 1, np.array([1.0, 2.0]))  # a new episode nobody announced, and a reward of two parts
    recorder.flush()
    steps = steps_in(tmp_path)
    assert [(s.episode, s.agent_id, s.actor, s.value) for s in steps] == [
        (0, "blue", "human", None),
        (1, "red", "policy", 0.25),
        (0, "blue", "policy", None),
        (1, "red", "policy", None),
        (2, "blue", "human", None),
    ]
    assert steps[2].truncated and not steps[2].terminated and steps[2].final_observation == 9
    assert math.isnan(steps[2].info["q"][1]) and math.isnan(steps[4].reward or 0.0)
    assert same(steps[4].info["reward"], np.array([1.0, 2.0]))
    ended = [episode for chunk in chunks_in(tmp_path) for episode in chunk.episodes]
    assert ended == [
        events.EndedEpisode(0, "blue", 2, 1.0, "truncated", 3, 0),
        events.EndedEpisode(1, "red", 2, 3.0, "terminated", str(2**100), 1),
    ]


def test_an_episode_that_is_begun_again_was_abandoned(tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    lane.append(0, 0, 1.0)
    lane.begin_episode()
    lane.append(0, 0, 1.0, True)
    recorder.flush()
    ended = [episode for chunk in chunks_in(tmp_path) for episode in chunk.episodes]
    assert [(episode.episode, episode.length, episode.outcome) for episode in ended] == [
        (0, 1, "abandoned"),
        (1, 1, "terminated"),
    ]


def add_episode(
    batch: EpisodeBatch,
    seed: int,
    observations: list[int],
    actions: list[int],
    rewards: list[float],
    values: list[float],
    terminated: bool = True,
    extras: dict[str, Any] | None = None,
) -> None:
    batch.observations += observations
    batch.actions += actions
    batch.rewards += rewards
    batch.values += values
    batch.end(WholeEpisode(seed, len(actions), sum(rewards), 99, terminated, extras))


@pytest.mark.parametrize("extras", [None, {"mind": {"plan": "x" * 3000}}])
def test_whole_episodes_are_recorded_as_their_steps_would_be(extras: dict[str, Any] | None, tmp_path: Path) -> None:
    """Over the end of many chunks, by rows and by what the heap holds."""
    draw, found = random.Random(5), []
    lengths = [draw.randint(1, 40) for _ in range(200)]
    for way in ("whole", "steps"):
        recorder = StepRecorder(tmp_path / way, seal_seconds=3600)
        lane, other, batch = recorder.lane("blue", "agent"), recorder.lane("red", "human"), EpisodeBatch()
        for number, length in enumerate(lengths):
            seen, done, gained = list(range(length)), [number % 4] * length, [0.5] * length
            valued, ends = [number / 4] * length, number % 3 > 0
            if way == "whole":
                add_episode(batch, number, seen, done, gained, valued, ends, extras)
                if number % 7 == 0 or number == 50:
                    lane.append_episodes(batch)
            else:
                lane.begin_episode(number)
                for at in range(length):
                    last: dict[str, Any] = {"terminated": ends, "truncated": not ends, "final_observation": 99}
                    first: dict[str, Any] = {} if at else {"extras": extras}
                    lane.append(at, number % 4, 0.5, value=number / 4, **first, **(last if at == length - 1 else {}))
            if number == 50:
                other.append(1, 1, 1.0, True)
        lane.append_episodes(batch)
        recorder.close()
        steps = [msgspec.structs.replace(step, t=0.0, seq=0) for step in steps_in(tmp_path / way)]
        ended = [episode for chunk in chunks_in(tmp_path / way) for episode in chunk.episodes]
        found.append((steps, ended))
    assert found[0] == found[1] and len(found[0][1]) == 201


@pytest.mark.parametrize("extras", [None, {"mind": {"plan": "x" * 3000}}])
def test_whole_episodes_are_kept_as_a_whole_or_not_at_all(
    extras: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the process is killed: rows survive from their commit on, so an episode has one."""
    committed: list[int] = []
    commit = OpenChunk.commit

    def noted(chunk: OpenChunk, rows: int = 1) -> None:
        committed.append(rows)
        commit(chunk, rows)

    monkeypatch.setattr(OpenChunk, "commit", noted)
    draw = random.Random(5)
    lengths = [draw.randint(2, 60) for _ in range(300)]
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    lanes, batch = (recorder.lane("blue", "agent"), recorder.lane("red", "agent")), EpisodeBatch()
    for number, length in enumerate(lengths):
        gained = [0.5] * length
        add_episode(batch, number, list(range(length)), [number % 4] * length, gained, gained, extras=extras)
        if number >= 3:  # some one by one, then many at once
            if number % 60 == 3:
                assert lanes[0].next_episode == number - len(batch) + 1
                lanes[0].append_episodes(batch)
        else:
            lanes[number % 2].append_episodes(batch)
    ends_of_episodes = set(accumulate(lengths))
    assert set(accumulate(committed)) <= ends_of_episodes and len(committed) < len(lengths) / 2
    huge = {"mind": "x" * 100_000}
    add_episode(batch, 300, [0, 1], [0, 1], [0.5, 0.5], [0.5, 0.5], extras=huge)
    add_episode(batch, 301, [*range(2000)], [0] * 2000, [0.5] * 2000, [0.5] * 2000)
    lanes[0].append_episodes(batch)
    assert not len(batch) and not batch.actions
    recorder.close()
    ended = [episode for chunk in chunks_in(tmp_path) for episode in chunk.episodes]
    assert [episode.length for episode in ended] == [*lengths, 2, 2000]
    assert [episode.agent_id for episode in ended[:4]] == ["blue", "red", "blue", "blue"]
    steps = steps_in(tmp_path)
    assert len(steps) == sum(lengths) + 2002 and steps[sum(lengths)].info == huge


def test_steps_that_stand_in_arrays_are_recorded_like_those_in_lists(tmp_path: Path) -> None:
    found = []
    for way in ("lists", "arrays"):
        recorder = StepRecorder(tmp_path / way, seal_seconds=3600)
        lane, batch = recorder.lane("blue", "agent"), EpisodeBatch()
        for number in range(300):  # over the end of several chunks
            add_episode(batch, number, [number, 7, 2], [0, 1, number % 4], [0.5, 0.0, 1.0], [0.25, number / 8, 1.0])
        if way == "arrays":
            batch.observations, batch.actions = array("q", batch.observations), array("q", batch.actions)
            batch.rewards, batch.values = array("d", batch.rewards), array("d", batch.values)
        lane.append_episodes(batch)
        assert not len(batch) and not batch.actions
        recorder.close()
        found.append([msgspec.structs.replace(step, t=0.0, seq=0) for step in steps_in(tmp_path / way)])
    assert found[0] == found[1] and len(found[0]) == 900


def test_an_episode_of_numbers_that_no_column_holds_is_recorded_among_others(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    lane, batch = recorder.lane("blue", "agent"), EpisodeBatch()
    for number, seen in enumerate([1, 2**70, 3]):
        add_episode(batch, number, [seen, seen], [0, 1], [1.0, 1.0], [0.0, 0.0])
    lane.append_episodes(batch)
    recorder.close()
    assert [step.observation for step in steps_in(tmp_path)] == [1, 1, str(2**70), str(2**70), 3, 3]
    ended = [episode for chunk in chunks_in(tmp_path) for episode in chunk.episodes]
    assert [(episode.episode, episode.length, episode.total_reward) for episode in ended] == [
        (0, 2, 2.0),
        (1, 2, 2.0),
        (2, 2, 2.0),
    ]


def test_what_a_sealed_chunk_says_of_ends_is_what_its_heap_says(tmp_path: Path) -> None:
    """The recorder notes ends as it writes; after a crash they are read from the heap of the open chunk."""
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    one, other, batch, draw = recorder.lane("a", "agent"), recorder.lane("b", "agent"), EpisodeBatch(), random.Random(3)
    for number in range(400):
        if draw.random() < 0.3:
            add_episode(batch, number, [1, 2, 3], [0, 0, 0], [1.0] * 3, [0.0] * 3)
            one.append_episodes(batch)
        other.begin_episode(number)
        length = draw.randint(1, 5)
        for at in range(length):
            other.append(at, 0, 1.0, at == length - 1 and draw.random() < 0.7)
        if draw.random() < 0.3:
            other.undo(1, length - 1.0)
            other.append(9, 1, 2.0, draw.random() < 0.5)
    recorder.close()
    found = chunks_in(tmp_path)
    assert sum(len(chunk.undone) for chunk in found) > 50 and sum(len(chunk.episodes) for chunk in found) > 300
    for chunk in found:
        opened = OpenedChunk(chunk)
        columns = b"".join(opened.raw_column(column.path) for column in chunk.schema.columns)
        searched = seal(
            chunk.schema,
            chunk.count,
            columns,
            opened.heap,
            first_step=chunk.first_step,
            episodes=(chunk.first_episode, chunk.last_episode),
        )
        assert (searched.episodes, searched.undone) == (chunk.episodes, chunk.undone)


def test_a_huge_observation_is_left_out_counted_and_said_once(
    tmp_path: Path, recorder: StepRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    lane = recorder.lane()
    for number in range(3):
        lane.append(np.zeros(64 * 2**20, np.uint8), number, 1.0)
    lane.append(np.zeros(4), 3, 1.0, extras={"picture": bytes(2**20)})
    recorder.flush()
    steps = steps_in(tmp_path)
    assert [step.action for step in steps] == [0, 1, 2, 3]
    assert [step.observation is None for step in steps] == [True, True, True, False]
    assert recorder.dropped_parts == 4
    assert capfd.readouterr().err.count("too large to record") == 1


def test_large_observations_go_into_records_that_can_travel(tmp_path: Path, recorder: StepRecorder) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (6, 210, 160, 3), np.uint8)
    lane = recorder.lane()
    for picture in pictures:
        lane.append(picture, 0, 0.0)
    for _ in range(3):
        lane.append(np.random.default_rng(1).integers(0, 256, 2**20, np.uint8), 0, 0.0)
    recorder.flush()
    steps = steps_in(tmp_path)
    assert len(steps) == 9
    assert all(map(np.array_equal, (step.observation for step in steps[:6]), pictures))


def noise(size: int) -> Any:
    """What does not compress."""
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


def lines_in(outbox: Path) -> list[int]:
    """How long each record is."""
    return [len(events.encode(chunk)) for chunk in chunks_in(outbox)]


def test_a_step_of_many_large_parts_is_kept_as_far_as_it_can_travel(
    tmp_path: Path, recorder: StepRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    lane = recorder.lane()
    parts = {str(number): noise(2**20 - number) for number in range(5)}
    for number in range(3):
        lane.append(parts, number, 1.0)
    lane.append({name: part[: 400 * 1024] for name, part in parts.items()}, 3, 1.0)
    recorder.flush()
    steps = steps_in(tmp_path)
    assert [step.action for step in steps] == [0, 1, 2, 3]
    assert [sorted(step.observation) for step in steps] == [*[["0"]] * 3, ["0", "1", "2"]]
    assert recorder.dropped_parts == 3 * 4 + 2 and "observation/1 of 1,048," in capfd.readouterr().err
    assert max(lines_in(tmp_path)) <= MAX_RECORD_BYTES


def test_the_largest_step_that_is_recorded_travels(tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    lane.begin_episode(1, {"level": bytes(noise(100_000))})
    picture, extras = noise(2**20), {"mind": bytes(noise(500_000))}
    for number in range(3):
        over = number == 2
        last = {"final_observation": picture} if over else {}
        lane.append(picture, noise(60_000), 1.0, over, extras=extras, **last)
    lane.append({"a": picture, "b": noise(1000).astype(np.complex64)}, noise(200_000), 1.0, extras=extras)
    recorder.flush()
    steps = steps_in(tmp_path)
    assert same(steps[2].final_observation, picture) and same(steps[3].observation["a"], picture)
    assert recorder.dropped_parts == 1, "an action beside all that"
    assert max(lines_in(tmp_path)) <= MAX_RECORD_BYTES


@pytest.mark.parametrize("size", [600_000, 2**20])
def test_what_can_be_an_observation_can_be_the_final_one(size: int, tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    lane.append(noise(size), 0, 1.0, True, final_observation=noise(size))
    recorder.flush()
    (step,) = steps_in(tmp_path)
    assert same(step.observation, noise(size)) and same(step.final_observation, noise(size))
    assert recorder.dropped_parts == 0


def test_a_final_observation_that_is_left_out_is_called_that(
    recorder: StepRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    recorder.lane().append(0, 0, 1.0, True, final_observation=noise(2**21))
    assert "mosaic: final observation of 2,097," in capfd.readouterr().err


def test_large_extras_are_left_out_and_what_was_undone_is_not(tmp_path: Path, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    for number in range(4):
        lane.append(number, 0, 1.0)
    lane.undo(2, 2.0)
    lane.append(2, 1, 1.0, extras={"x": bytes(600_000)})
    lane.append(3, 1, 1.0, True, final_observation=9)
    recorder.flush()
    assert steps_in(tmp_path)[4].info.keys() == {"dropped_bytes", "undone"}
    (episode,) = read_episodes(chunks_in(tmp_path))
    assert [episode.action(place) for place in range(len(episode))] == [0, 0, 1, 1] and episode.is_whole
    assert episode.final == {(): 9}


class Unspeakable:
    """Cannot be written, and not be put into words either."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


FAILURES: dict[str, dict[str, Any]] = {
    "a value that is no number": {"value": np.zeros(3)},
    "extras that cannot be written": {"extras": {"x": Unspeakable()}},
    "an actor that is no name": {"actor": ["you"]},
}


@pytest.mark.parametrize("how", FAILURES)
def test_an_append_that_fails_leaves_no_trace(how: str, tmp_path: Path) -> None:
    """Whatever follows it: the same step once more, or one of another form."""

    def record(outbox: Path, failing: dict[str, Any] | None) -> list[str]:
        recorder = StepRecorder(outbox, seal_seconds=3600.0)
        lane = recorder.lane("agent", "me")
        lane.begin_episode(1)

        def fail(**step: Any) -> None:
            if failing is not None:
                with pytest.raises((TypeError, ValueError, RuntimeError)):
                    lane.append(np.zeros(2, np.float32), 0, 1.0, **{**step, **failing})

        fail()
        for number in range(3):
            lane.append(np.full(3, number, np.float32), number, 1.0)
        fail()
        lane.undo(1, 2.0)
        fail()
        lane.append(np.zeros(3, np.float32), 7, 1.0)
        fail(terminated=True)
        lane.append(np.zeros(3, np.float32), 8, 1.0, terminated=True, actor="you")
        fail()
        lane.append(np.zeros(3, np.float32), 9, 1.0)
        recorder.close()
        found = chunks_in(outbox)
        told = sorted(repr(part) for chunk in found for part in (*chunk.episodes, *chunk.undone))
        for chunk in found:
            chunk.t = 0.0
        return told + [repr(step) for chunk in found for step in OpenedChunk(chunk).steps()]

    assert record(tmp_path / "failing", FAILURES[how]) == record(tmp_path / "sound", None)


def test_numbers_of_episodes_are_given_once_over_several_processes(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600.0)
    slow, quick = recorder.lane("slow"), recorder.lane("quick")
    for lane in (slow, quick):
        lane.begin_episode(1)
    slow.append(0.0, 0, 1.0)
    quick.append(0.0, 0, 1.0, True)
    quick.append(0.0, 0, 1.0, True)
    recorder.flush()
    slow.append(0.0, 0, 1.0)  # the last chunk holds steps of the first episode alone
    recorder.close()
    again = StepRecorder(tmp_path)
    assert again.lane().begin_episode() == 3
    again.close()


def test_more_names_than_a_chunk_can_number_are_kept(tmp_path: Path, recorder: StepRecorder) -> None:
    names = [f"agent {number}" for number in range(600)]
    for name in names:
        recorder.lane(name).append(0, 0, 0.0)
    recorder.flush()
    assert [step.agent_id for step in steps_in(tmp_path)] == names


def test_a_fork_of_the_recording_process_writes_nothing(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600.0)  # the open chunk is shared until it is flushed
    lane = recorder.lane()
    lane.append(0, 0, 0.0)
    go_on, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go_on, 1)
        try:
            lane.append(1, 1, 1.0, extras={"by": "the child"})
        except ValueError:
            os._exit(7)
        os._exit(0)
    lane.append(2, 2, 2.0, extras={"by": "the parent"})
    os.write(says, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    os.close(go_on)
    os.close(says)
    steps = [(step.observation, step.info) for step in steps_in(tmp_path)]
    recorder.close()
    assert steps == [(0, {}), (2, {"by": "the parent"})], "as they would be found if the parent died now"


def test_steps_are_journalled_soon_although_the_chunk_is_not_full(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=0.05)
    recorder.lane().append(0, 0, 0.0)
    deadline = time.monotonic() + HANG
    while recorder._filler._journal.last_seq == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(chunks_in(tmp_path)) == 1
    recorder.close()
    assert not path_of(tmp_path, STREAM).exists()


def test_a_second_recorder_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    for number in range(3):
        recorder = StepRecorder(tmp_path)
        lane = recorder.lane()
        lane.append(0, number, 0.0, True)
        lane.append(0, number, 0.0)
        recorder.close()
    steps = steps_in(tmp_path)
    assert [(step.step, step.episode, step.action) for step in steps] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 2, 1),
        (3, 3, 1),
        (4, 4, 2),
        (5, 5, 2),
    ]


def killed_recorder(outbox: Path, counter: Path, seal_seconds: float, after: float, more: int) -> int:
    """Let a process record, kill it, and return how many steps it says it has finished."""
    before = int.from_bytes(counter.read_bytes(), "little")
    command = [sys.executable, "-c", ENDLESS_RECORDER, str(outbox), str(counter), str(seal_seconds)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})
    try:
        deadline = time.monotonic() + HANG
        while int.from_bytes(counter.read_bytes(), "little") < before + more and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(after)  # the instant itself
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return int.from_bytes(counter.read_bytes(), "little")


@pytest.mark.parametrize("rounds", [pytest.param(KILLS), pytest.param(120, marks=pytest.mark.nightly)])
def test_every_finished_step_survives_kill_9_once_and_the_next_process_goes_on(rounds: int, tmp_path: Path) -> None:
    chance = random.Random(rounds)
    outbox, counter = tmp_path / "outbox", tmp_path / "counter"
    outbox.mkdir()
    for round_number in range(rounds):
        counter.write_bytes(len(steps_in(outbox)).to_bytes(8, "little") if outbox.exists() else bytes(8))
        seal_seconds = chance.choice([0.002, 0.2])
        finished = killed_recorder(outbox, counter, seal_seconds, chance.random() * 0.02, chance.randrange(1, 3000))
        steps = steps_in(outbox)
        assert finished <= len(steps) <= finished + 1, f"round {round_number}"
        for number, step in enumerate(steps):
            assert (step.step, step.action, step.reward) == (number, number, float(number))
            assert step.observation == [number] * 4 and step.terminated == (number % 7 == 6)
            assert step.info == ({"why": "x" * (number % 500)} if number % 3 == 0 else {})
        if len(steps) > 100_000:
            for file in outbox.iterdir():
                file.unlink()


def test_a_damaged_open_chunk_costs_itself_and_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recorder = StepRecorder(tmp_path)
    recorder.lane().append(0, 0, 0.0)
    recorder.close()
    path_of(tmp_path, STREAM).write_bytes(b"MOSSTEP1" + bytes(100))
    again = StepRecorder(tmp_path)
    again.lane().append(1, 1, 0.0)
    again.close()
    assert "open chunk of steps" in capfd.readouterr().err
    assert [step.observation for step in steps_in(tmp_path)] == [0, 1]


LIMITED_RECORDER = """
import json, resource, sys, threading
from pathlib import Path
from mosaic_worker.recording.step_recorder import StepRecorder

def limit_files_to(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

ending = threading.Event()
waits = []
recorder = StepRecorder(Path(sys.argv[1]), give_up=ending.is_set, on_wait=waits.append, seal_seconds=3600)
lane = recorder.lane()
for number in range(1000):
    lane.append(number, number, 0.0)
limit_files_to(1000)  # the journal takes no more; what is reserved for the open chunk is there
if sys.argv[2] == "stop":
    ending.set()
else:
    threading.Timer(0.3, limit_files_to, [resource.RLIM_INFINITY]).start()
for number in range(1000, 2000):
    lane.append(number, number, 0.0)
told = {"unrecorded": recorder.unrecorded_steps, "waits": waits}
recorder.close()
print(json.dumps(told))
"""


@pytest.mark.parametrize("ending", ["wait", "stop"])
def test_a_full_disk_is_waited_for_and_steps_that_were_taken_survive_it(ending: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED_RECORDER, str(tmp_path), ending]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG, check=True)
    told = json.loads(result.stdout)
    unrecorded = told["unrecorded"]
    assert told["waits"] == ["its steps wait for disk space", *([""] if ending == "wait" else [])]
    taken = 2000 - unrecorded
    assert [step.action for step in steps_in(tmp_path)] == list(range(taken))
    assert (unrecorded > 0) == (ending == "stop")
    assert ("were not recorded" in result.stderr) == (ending == "stop")


GIVEN_UP = """
import json, resource, sys
from pathlib import Path
import numpy as np
from mosaic_worker.recording.step_recorder import StepRecorder

recorder = StepRecorder(Path(sys.argv[1]), give_up=lambda: True, seal_seconds=3600)
lane = recorder.lane()
for number in range(10):
    lane.append(number, number, 0.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
recorder.flush()
lane.append(10, 10, 0.0)  # the open chunk has room for it
for number in range(3):
    lane.append(np.zeros(3), 11, 0.0)
lane.append({"a": 1}, 12, 0.0)
lane.append(13, 13, 0.0)
print(recorder.unrecorded_steps)
recorder.close()
"""


def test_after_giving_up_on_a_full_disk_no_step_of_another_form_gets_in(tmp_path: Path) -> None:
    """Nor one behind it: what is recorded is the beginning, without holes."""
    command, environment = [sys.executable, "-c", GIVEN_UP, str(tmp_path)], os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG, check=True)
    assert result.stdout == "5\n"
    assert [step.action for step in steps_in(tmp_path)] == list(range(11))


def test_the_constants_leave_a_record_room_to_travel() -> None:
    columns = step_fields.MOST_OBSERVATION_BYTES + step_fields.MOST_ACTION_BYTES
    for_its_header = 256 * 1024
    assert (columns + step_entries.MOST_HEAP_BYTES) * 4 / 3 + for_its_header < MAX_RECORD_BYTES
