"""Episodes come back from chunks as they were played, whatever was recorded beside and between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import zstandard

from mosaic_protocol.steps import heap
from mosaic_protocol.steps.chunk import ChunkError, OpenedChunk, checksum
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import DESCRIPTION, Recording, RecordingError
from mosaic_worker.recording.step_recorder import StepRecorder


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording.new(tmp_path, {"kind": "run", "worker": "toy", "env_id": "CartPole-v1"})


@pytest.fixture
def recorder(recording: Recording) -> Iterator[StepRecorder]:
    with closing(StepRecorder(recording.folder, seal_seconds=3600)) as opened:
        yield opened


def by_number(recording: Recording) -> dict[int, RecordedEpisode]:
    return {episode.number: episode for episode in read_episodes(recording.chunks())}


def test_lanes_that_write_in_turns_are_told_apart(recording: Recording, recorder: StepRecorder) -> None:
    blue, red = recorder.lane("blue", "human"), recorder.lane("red", "policy")
    blue.begin_episode(1, {"level": 2})
    red.begin_episode(2**70)
    for step in range(1500):  # over several chunks
        over = step == 1499
        blue.append(np.full(2, step, np.float32), step % 3, 1.0, over, final_observation=np.zeros(2) if over else None)
        red.append(np.full(2, -step, np.float32), 0, 0.5, actor="human" if step == 7 else None, value=step)
    recorder.flush()
    found = by_number(recording)
    assert (found[0].agent_id, found[0].seed, found[0].options) == ("blue", 1, {"level": 2})
    assert (found[1].agent_id, found[1].seed, found[1].outcome) == ("red", 2**70, "")
    assert found[0].is_whole and not found[1].is_whole and len(found[0]) == len(found[1]) == 1500
    assert found[0].stacked("observation")[()].tolist() == [[step, step] for step in range(1500)]
    assert found[0].numbers.tolist() == list(range(0, 3000, 2)) and found[1].numbers.tolist() == list(range(1, 3000, 2))
    assert [place for place, actor in enumerate(found[1].actors) if actor == "human"] == [7]
    assert found[0].values is None and found[1].values is not None and found[1].values[9] == 9
    assert found[1].observation(1400)[()].tolist() == [-1400, -1400] and found[0].action(1400) == 1400 % 3
    assert [one.number for one in read_episodes(recording.chunks(1), 1)] == [1]


def test_an_abandoned_episode_and_one_without_its_beginning_are_not_whole(
    recording: Recording, recorder: StepRecorder
) -> None:
    lane = recorder.lane()
    lane.begin_episode(1)
    lane.append(0, 0, 1.0)
    lane.begin_episode(2)
    lane.append(0, 0, 1.0)
    recorder.flush()
    lane.append(1, 0, 1.0, True)
    recorder.flush()
    found = by_number(recording)
    assert (found[0].outcome, found[0].is_whole) == ("abandoned", False)
    assert (found[1].outcome, found[1].is_whole) == ("terminated", True)
    (late,) = read_episodes(list(recording.chunks())[1:])
    assert (late.began, late.is_whole, len(late)) == (False, False, 1)


def test_steps_of_the_open_chunk_are_read_once(recording: Recording, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    lane.begin_episode(1)
    for step in range(600):
        lane.append(step, 0, 1.0)
    assert len(by_number(recording)[0]) == 600
    recorder.flush()
    assert len(by_number(recording)[0]) == 600


def test_damaged_steps_and_folders_are_refused_in_a_sentence(recording: Recording, recorder: StepRecorder) -> None:
    recorder.lane().append(0, 0, 1.0)
    recorder.flush()
    (chunk,) = recording.chunks()
    chunk.body = chunk.body[:-1] + bytes([chunk.body[-1] ^ 1])
    with pytest.raises(ChunkError, match="checksum"):
        list(read_episodes([chunk]))
    with pytest.raises(RecordingError, match="holds no recording"):
        Recording.at(recording.folder / "nowhere")
    file = recording.folder / DESCRIPTION
    for content, sentence in (("{", "it is not JSON"), ("[]", "does not describe"), ('{"v": 99}', "newer version")):
        file.write_text(content)
        with pytest.raises(RecordingError, match=sentence):
            Recording.at(recording.folder)


def test_what_was_undone_is_a_branch_and_the_episode_is_the_line_that_was_played_on(
    recording: Recording, recorder: StepRecorder
) -> None:
    lane = recorder.lane("", "human")
    lane.begin_episode(5)
    for action in (10, 11, 12):
        lane.append(action, action, 1.0)
    recorder.flush()  # the undone steps and those instead of them are in different chunks
    lane.undo(2, 1.0)
    lane.append(11, 21, 2.0, actor="policy")
    lane.append(12, 22, 1.0, True, final_observation=99)
    lane.undo(1, 3.0)  # an end as well
    lane.undo(1, 1.0)
    lane.append(11, 31, 3.0, True, final_observation=100, extras={"note": "at last"})
    lane.begin_episode(6)
    lane.append(0, 0, 1.0, True, final_observation=1)
    recorder.flush()
    found = by_number(recording)
    line = found[0]
    assert [line.action(place) for place in range(len(line))] == [10, 31]
    assert (line.rewards.tolist(), line.actors, line.numbers.tolist()) == ([1.0, 3.0], ["human", "human"], [0, 5])
    assert line.is_whole and line.outcome == "terminated" and line.final == {(): 100}
    assert line.ended is not None and (line.ended.length, line.ended.total_reward) == (2, 4.0)
    assert line.extras == {1: {"note": "at last"}}, "the branches say what was undone"
    assert [(branch.place, branch.numbers) for branch in line.branches] == [(1, (1, 2)), (1, (3, 4))]
    assert found[1].is_whole and not found[1].branches
    assert [len(one) for one in read_episodes(recording.chunks(0), 0)] == [2]


def test_an_episode_with_a_hole_is_not_whole_though_the_number_of_its_steps_is_right(
    recording: Recording, recorder: StepRecorder
) -> None:
    lane = recorder.lane()
    lane.begin_episode(1)
    for step in range(5):
        lane.append(step, 0, 1.0)
    recorder.flush()
    lane.undo(2, 3.0)
    for step in (3, 4):
        lane.append(step, 1, 1.0)
    recorder.flush()
    for step in (5, 6, 7):
        lane.append(step, 1, 1.0, step == 7, final_observation=8 if step == 7 else None)
    recorder.close()
    first, undoing, last = recording.chunks()
    (whole,) = read_episodes([first, undoing, last])
    assert whole.is_whole and whole.numbers.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]
    (broken,) = read_episodes([first, last])
    assert len(broken) == 8 and not broken.is_whole, "two steps were undone, two are lost"
    (shorter,) = read_episodes([first, undoing])
    assert not shorter.is_whole


def test_an_undo_that_no_step_follows_ends_the_episode_there(recording: Recording, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    lane.begin_episode(5)
    for action in range(4):
        lane.append(action, action, 1.0)
    lane.undo(3, 1.0)
    lane.begin_episode(6)
    lane.append(0, 0, 1.0)
    recorder.flush()
    abandoned = by_number(recording)[0]
    assert (len(abandoned), abandoned.outcome) == (1, "abandoned")
    with pytest.raises(ValueError, match="2 steps of 1 cannot be undone"):
        lane.undo(2, 0.0)


@pytest.mark.parametrize(
    ("key", "value"), [("end", 5), ("end", [0, "", 1, 1.0]), ("begin", [0, ""]), ("begin", [0, "", 1, 5])]
)
def test_marks_of_episodes_that_no_recorder_writes_are_damage(
    key: str, value: object, recording: Recording, recorder: StepRecorder
) -> None:
    recorder.lane().append(0, 0, 1.0)
    recorder.flush()
    (chunk,) = recording.chunks()
    opened = OpenedChunk(chunk)
    bad = opened.heap + heap.packed(0, key, value)
    chunk.body = zstandard.ZstdCompressor().compress(opened._raw[: -chunk.heap_bytes] + bad)
    chunk.raw_bytes, chunk.heap_bytes = chunk.raw_bytes - chunk.heap_bytes + len(bad), len(bad)
    chunk.crc = checksum(0, 1, chunk.body)
    with pytest.raises(ChunkError, match="of an episode cannot be read"):
        list(read_episodes([chunk]))


def test_a_recording_lists_each_episode_by_its_last_end(recording: Recording, recorder: StepRecorder) -> None:
    lane = recorder.lane()
    for _ in range(2):
        lane.begin_episode(1)
        lane.append(0, 0, 1.0, True)
        recorder.flush()
    lane.undo(1, 0.0)
    lane.append(0, 0, 2.0)
    recorder.flush()
    assert [(one.episode, one.total_reward) for one in recording.episodes()] == [(0, 1.0)]
    lane.append(0, 0, 3.0, True)
    recorder.flush()
    assert [(one.episode, one.total_reward) for one in recording.episodes()] == [(0, 1.0), (1, 5.0)]


def test_a_recording_says_what_it_is_of(recording: Recording) -> None:
    assert json.loads((recording.folder / DESCRIPTION).read_text())["env_id"] == "CartPole-v1"
    assert Recording.at(recording.folder).about == recording.about and list(recording.chunks()) == []
