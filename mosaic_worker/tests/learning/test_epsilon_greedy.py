"""Epsilon-greedy steps in a world that can be foreseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mosaic_worker.learning.environments import Environments
from mosaic_worker.learning.epsilon_greedy import EpsilonGreedyCollector
from mosaic_worker.learning.replay_buffer import ReplayBuffer
from mosaic_worker.tests.learning.foreseeable import Metronome, RecordingSession


def first(rows: Any) -> Any:
    return np.zeros(len(rows), dtype=np.int64)


def second(rows: Any) -> Any:
    return np.ones(len(rows), dtype=np.int64)


def collector_of(count: int = 1, **limits: int) -> tuple[EpsilonGreedyCollector, RecordingSession]:
    session: Any = RecordingSession()
    envs = Environments([Metronome(**limits) for _ in range(count)])
    return EpsilonGreedyCollector(envs, session, ReplayBuffer(100, 2, True), seed=1), session


@pytest.mark.parametrize(
    ("limits", "terminated"), [({"cut_at": 3}, 0), ({"end_at": 3}, 1), ({"end_at": 3, "cut_at": 3}, 1)]
)
def test_a_transition_ends_in_the_true_last_observation_and_a_time_limit_is_no_end(
    limits: dict[str, int], terminated: int
) -> None:
    collector, session = collector_of(**limits)
    for _ in range(5):
        collector.step(first, epsilon=1.0)
    rows = collector.buffer.rows[:5]
    assert rows[:, :2].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    assert rows[:, 2:4].tolist() == [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2]]
    assert rows[:, -1].tolist() == [0, 0, terminated, 0, 0]
    ((step, values),) = session.rows
    expected = {"charts/episodic_return": rows[:3, -2].sum().item(), "charts/episodic_length": 3, "charts/epsilon": 1.0}
    assert (step, values) == (3, expected)


def test_actions_are_stored_from_zero_whatever_the_environment_calls_them() -> None:
    collector, _ = collector_of()
    for _ in range(60):
        collector.step(first, epsilon=1.0)
    actions, rewards = collector.buffer.rows[:60, -3], collector.buffer.rows[:60, -2]
    assert set(actions.tolist()) == {0, 1} and torch.equal(actions, rewards)


def test_several_environments_fill_the_buffer_side_by_side() -> None:
    collector, session = collector_of(3, end_at=2)
    for _ in range(2):
        collector.step(first, epsilon=0.5)
    assert collector.global_step == collector.buffer.filled == 6
    assert collector.buffer.rows[:6, 1].tolist() == [0, 0, 0, 1, 1, 1]
    assert [step for step, _ in session.rows] == [6, 6, 6]


def test_epsilon_is_the_share_of_random_actions() -> None:
    collector, _ = collector_of(4)
    collector.buffer = ReplayBuffer(20_000, 2, True)
    for _ in range(5000):
        collector.step(second, epsilon=0.4)
    assert collector.buffer.rows[:, -3].mean().item() == pytest.approx(0.8, abs=0.015)
