"""Estimates agree with what is earned where that can be computed, and say so where they cannot know."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mosaic_worker.offline import estimates
from mosaic_worker.offline.estimates import Judge
from mosaic_worker.offline.transitions import Transitions


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked here is learned by small networks in large steps, which more threads than one slow down."""
    torch.set_num_threads(1)
    for name, value in (("HIDDEN", 16), ("BATCH", 64), ("_LEARNING_RATE", 1e-2), ("_TAU", 0.05)):
        monkeypatch.setattr(estimates, name, value)


def walks(episodes: int = 60, length: int = 5) -> Transitions:
    """A step pays 1 for the action 1 and nothing for 0; the data draws one as often as the other."""
    draw = np.random.default_rng(0)
    actions = draw.integers(2, size=episodes * length)
    place = np.tile(np.eye(length, dtype=np.float32), (episodes, 1))
    following = np.roll(place, -1, axis=0)
    ends = np.arange(1, len(actions) + 1) % length == 0
    starts = np.arange(0, len(actions) + 1, length)
    returns = np.add.reduceat(actions.astype(np.float64), starts[:-1])
    return Transitions(
        place, actions, actions.astype(np.float32), following, ends, np.zeros_like(ends), starts, returns
    )


def worth(reward: float) -> float:
    return float(sum(reward * 0.9**step for step in range(5)))


def test_both_estimates_find_what_a_policy_earns() -> None:
    judge = Judge(walks(), choices=2, gamma=0.9)
    always = lambda rows: np.ones(len(rows), np.int64)  # noqa: E731
    for found in (judge.fitted(always, 300), judge.weighted(always, None, 200)):
        assert abs(found.value - worth(1.0)) < 0.25
        assert found.low <= found.value <= found.high
    never = judge.fitted(lambda rows: np.zeros(len(rows), np.int64), 300)
    assert abs(never.value) < 0.25 and never.high < judge.behaviour().low


def test_the_data_itself_is_reported_beside_them() -> None:
    found = Judge(walks(), choices=2, gamma=0.9).behaviour()
    assert abs(found.value - worth(0.5)) < 0.3 and found.low < found.value < found.high


def test_continuous_actions_are_judged_too() -> None:
    """Pushing pays minus the square of the push: standing still is worth nothing, the data cost something."""
    draw = np.random.default_rng(1)
    data = walks()
    pushes = draw.normal(size=(len(data), 1)).astype(np.float32)
    rewards = -np.square(pushes[:, 0])
    starts = data.episode_starts
    rebuilt = Transitions(
        data.observations, pushes, rewards, data.next_observations, data.terminals, data.timeouts, starts,
        np.add.reduceat(rewards.astype(np.float64), starts[:-1]),
    )  # fmt: skip
    judge = Judge(rebuilt, choices=0, gamma=0.9)
    still = judge.fitted(lambda rows: np.zeros((len(rows), 1), np.float32), 300)
    assert still.value > judge.behaviour().high
