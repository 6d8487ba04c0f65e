"""Rows that are prepared for a lane are written without a lock: nothing is lost or mixed up, whoever takes them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.tests.recording.step_journals import steps_in


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_lanes_in_threads_and_a_hasty_sealer_keep_every_step(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=0.0002)
    count = 4000

    def play(name: str) -> None:
        lane = recorder.lane(name, f"{name}'s policy")
        for number in range(count):
            value = number / 2 if number % 3 == 0 else None
            lane.append(np.full(4, number, np.float32), number, float(number), number % 50 == 49, value=value)

    players = [threading.Thread(target=play, args=(name,)) for name in ("a", "b", "c")]
    for player in players:
        player.start()
    for player in players:
        player.join()
    recorder.close()
    steps = steps_in(tmp_path)
    assert [step.step for step in steps] == list(range(3 * count))
    for name in ("a", "b", "c"):
        own = [step for step in steps if step.agent_id == name]
        assert [(step.action, step.reward) for step in own] == [(number, float(number)) for number in range(count)]
        assert all(step.observation == [step.action] * 4 and step.actor == f"{name}'s policy" for step in own)
        assert all(step.value == (step.action / 2 if step.action % 3 == 0 else None) for step in own)
        episodes = [step.episode for step in own]
        assert all(len(set(episodes[at : at + 50])) == 1 for at in range(0, count, 50))
        assert len(set(episodes)) == count // 50


def test_lanes_that_take_turns_in_one_thread_keep_their_steps_apart(tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    lanes = [recorder.lane(str(number), "policy") for number in range(4)]
    for number in range(2000):
        lane = lanes[number % 4 if number % 100 < 50 else number // 100 % 4]  # in turns, then one alone
        lane.append(np.full(3, number, np.float64), number, float(number), number % 37 == 0, extras=None)
    recorder.close()
    steps = steps_in(tmp_path)
    assert [step.action for step in steps] == [*range(2000)] == [int(step.observation[0]) for step in steps]
    expected = [str(number % 4 if number % 100 < 50 else number // 100 % 4) for number in range(2000)]
    assert [step.agent_id for step in steps] == expected
    by_agent: dict[str, list[int]] = {}
    for step in steps:
        by_agent.setdefault(step.agent_id, []).append(step.episode)
    assert sum(len(set(episodes)) for episodes in by_agent.values()) == len({step.episode for step in steps})


@pytest.mark.parametrize(
    "other",
    [np.zeros(4, np.float64), np.zeros(3, np.float32), np.zeros((2, 2), np.float32), np.zeros(4, ">f4"), 5, "text"],
    ids=repr,
)
def test_a_step_of_another_form_among_many_of_one_is_kept_as_it_is(other: object, tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path, seal_seconds=3600)
    lane = recorder.lane("a", "policy")
    for number in range(30):
        lane.append(other if number % 10 == 5 else np.full(4, number, np.float32), number, 1.0)
        lane.append(np.full(4, number, np.float32), other if number % 10 == 7 else number, 1.0)
    recorder.close()
    steps = steps_in(tmp_path)
    expected = other.tolist() if isinstance(other, np.ndarray) else other
    assert [step.observation for step in steps[::2]] == [
        expected if number % 10 == 5 else [number] * 4 for number in range(30)
    ]
    assert [step.action for step in steps[1::2]] == [expected if number % 10 == 7 else number for number in range(30)]
