"""The replay buffers: what they hold, what a batch is, what a checkpoint keeps of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mosaic_worker.learning.replay_buffer import ContinuousReplayBuffer, ReplayBuffer

CPU = torch.device("cpu")


def filled_buffer(capacity: int, count: int, *, saved: bool = True) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity, 2, saved)
    for number in range(count):
        here, there = np.full(2, number), np.full(2, number + 1)
        buffer.add(here, there, number % 3, number / 2, number % 2 == 0)
    return buffer


def test_a_full_buffer_forgets_the_oldest_transition() -> None:
    assert sorted(filled_buffer(5, 7).rows[:, 0].tolist()) == [2, 3, 4, 5, 6]


def test_a_batch_holds_whole_transitions_of_the_filled_part() -> None:
    batch = filled_buffer(1000, 6).sample(500, torch.device("cpu"))
    numbers = batch.observations[:, 0]
    assert set(numbers.tolist()) == {0, 1, 2, 3, 4, 5}
    assert torch.equal(batch.next_observations, batch.observations + 1)
    assert torch.equal(batch.actions[:, 0], numbers.long() % 3) and batch.actions.dtype == torch.int64
    assert torch.equal(batch.rewards, numbers / 2)
    assert torch.equal(batch.terminated, (numbers % 2 == 0).float())


def test_the_contents_of_a_buffer_come_back_and_another_size_is_refused() -> None:
    kept = filled_buffer(5, 7).contents
    again = ReplayBuffer(5, 2, True)
    again.contents = kept
    assert torch.equal(again.rows, filled_buffer(5, 7).rows) and (again.position, again.filled) == (2, 5)
    with pytest.raises(ValueError, match="has room for 5 transitions, this run's for 6"):
        ReplayBuffer(6, 2, True).contents = kept


def test_a_buffer_that_is_not_saved_leaves_nothing_in_a_checkpoint() -> None:
    kept = filled_buffer(5, 7, saved=False).contents
    assert (kept["position"], len(kept["rows"])) == (0, 0)


def filled_continuous(capacity: int, steps: int, envs: int = 2) -> ContinuousReplayBuffer:
    """Rows whose observation is a number, the action ten times it, the next observation one more."""
    buffer = ContinuousReplayBuffer(capacity, 1, 1)
    for step in range(steps):
        number = np.arange(step * envs, (step + 1) * envs, dtype=np.float32)[:, None]
        buffer.add(number, number * 10, number + 1, number / 2, number % 2 == 0)
    return buffer


def test_continuous_transitions_come_out_whole_and_side_by_side() -> None:
    batch = filled_continuous(100, 5).sample(400, CPU)
    numbers = batch.observations[:, 0]
    assert set(numbers.tolist()) == set(range(10))
    assert torch.equal(batch.observations_and_actions, torch.stack([numbers, numbers * 10], dim=1))
    assert torch.equal(batch.next_observations[:, 0], numbers + 1)
    assert torch.equal(batch.rewards, numbers / 2) and torch.equal(batch.terminated, (numbers % 2 == 0).float())


def test_a_full_continuous_buffer_forgets_the_oldest_even_across_its_end() -> None:
    buffer = filled_continuous(5, 4)
    assert sorted(buffer.kept[:, 0].tolist()) == [3, 4, 5, 6, 7] and buffer.position == 3


def resumed(earlier: ContinuousReplayBuffer, capacity: int) -> ContinuousReplayBuffer:
    """A buffer with what a checkpoint keeps of an earlier one."""
    again = ContinuousReplayBuffer(capacity, 1, 1)
    for part in ContinuousReplayBuffer.PARTS:
        setattr(again, part, getattr(earlier, part))
    return again


def test_continuous_transitions_come_back_into_a_buffer_that_has_room() -> None:
    earlier = filled_continuous(8, 3)
    larger = resumed(earlier, 20)
    assert torch.equal(larger.kept, earlier.kept)
    larger.add(*(np.full((2, 1), 6.0) for _ in range(5)))
    assert larger.kept[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 6]
    with pytest.raises(ValueError, match="holds 6 transitions, this run's 5 at most"):
        resumed(earlier, 5)


def test_a_full_continuous_buffer_comes_back_only_into_one_of_its_size() -> None:
    earlier = filled_continuous(5, 4)
    again = resumed(earlier, 5)
    assert torch.equal(again.kept, earlier.kept) and again.position == 3
    for full in (earlier, filled_continuous(6, 3)):  # beyond its end, and exactly to it
        with pytest.raises(ValueError, match=r"has room for \d transitions, this run's for 9; leave --buffer-size"):
            resumed(full, 9)


def test_buffers_print_their_size_beside_a_checkpoint() -> None:
    told = filled_buffer(5, 7).told(1234)
    assert told == "The checkpoint at step 1,234 includes the replay buffer: 5 transitions, 0.0 MB."
    assert filled_continuous(5, 4).told(7) == "The checkpoint at step 7 holds 5 transitions, 0.0 MB."
