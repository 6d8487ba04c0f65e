"""The transitions of a run: the dataset's on the run's scales, and those that it made online behind them. A table in
memory, or in a file where it is too large for that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corl_worker.acting import Scales
from corl_worker.task import OfflineTask
from mosaic_worker.offline import Data, Transitions

MakeTable = Callable[[int, int], Tensor]
"""Room for so many rows of so many numbers."""
UNKNOWN_RETURN = -1e9
"""Of a row whose episode is not over: no value lies below it."""


@dataclass
class Batch:
    """Transitions, one a row."""

    observations: Tensor
    actions: Tensor
    """(rows, size), or (rows,) whole numbers for discrete ones."""
    observations_and_actions: Tensor
    """Side by side, as critics of continuous actions want them."""
    next_observations: Tensor
    rewards: Tensor
    terminated: Tensor
    """1 where the episode truly ended; a time limit is no end."""
    next_actions: Tensor | None = None
    """The dataset's own, where they are kept."""
    returns: Tensor | None = None
    """Discounted rewards from here to the end of the episode, where they are kept."""


class Replay:
    """A row is: observation, action, next observation, reward, terminated, and what an algorithm asked for besides.

    Rows of the dataset are not part of a checkpoint: the data has a hash, and is read again. Those that were made
    online are.
    """

    PARTS = ("made",)

    def __init__(self, task: OfflineTask, online_steps: int = 0, *, next_actions: bool = False, returns: bool = False):
        self.task, self.online_steps = task, online_steps
        self.size, self.action_size = task.observation_size, 1 if task.is_discrete else task.action_size
        self.with_next_actions, self.with_returns = next_actions, returns
        self.rows, self.filled, self.offline = torch.empty(0), 0, 0
        self._make_table: MakeTable = torch.empty
        self.gamma = 0.99
        self._kept: Tensor | None = None

    @property
    def width(self) -> int:
        return (
            2 * self.size
            + self.action_size
            + 2
            + (self.action_size if self.with_next_actions else 0)
            + self.with_returns
        )

    def load(self, data: Data, scales: Scales, gamma: float = 0.99, make_table: MakeTable = torch.empty) -> None:
        """Take the dataset's rows in; those that were made online before a resume come behind them."""
        self.offline, self.gamma, self._make_table, self.filled = len(data), gamma, make_table, 0
        self.rows = make_table(self.offline + self.online_steps, self.width)
        for part in data.parts():
            self._take(part, scales)
        if self._kept is not None:
            self._append(self._kept)
            self._kept = None

    def _take(self, data: Transitions, scales: Scales) -> None:
        """Rows of whole episodes, behind those that are there."""
        rewards = scales.rewards(data.rewards)
        columns = [
            scales.observations(data.observations),
            np.asarray(data.actions, np.float32).reshape(len(data), -1),
            scales.observations(data.next_observations),
            rewards[:, None],
            data.terminals[:, None].astype(np.float32),
        ]
        if self.with_next_actions:
            columns.append(following_actions(data))
        if self.with_returns:
            columns.append(returns_to_go(data, rewards, self.gamma)[:, None])
        at, array = 0, self.rows[self.filled : self.filled + len(data)].numpy()
        for column in columns:
            array[:, at : at + column.shape[1]] = column
            at += column.shape[1]
        self.filled += len(data)

    def add(self, *columns: Any, continues: bool) -> None:
        """One transition that was made online, by the order of a row, on the run's scales. `continues`: the episode of
        the row before it."""
        action = np.ravel(columns[1]).astype(np.float32)
        behind = 2 * self.size + self.action_size + 2
        extra: list[Any] = []
        if self.with_next_actions:
            extra.append(action)
            if continues:
                self.rows[self.filled - 1, behind : behind + self.action_size] = torch.from_numpy(action)
        if self.with_returns:
            extra.append(UNKNOWN_RETURN)
        row = np.concatenate([np.ravel(column).astype(np.float32) for column in (*columns, *extra)])
        self._append(torch.from_numpy(row)[None])

    def end_episode(self, length: int) -> None:
        """The episode of the newest rows is over: what it brought from each of them on is known."""
        if not self.with_returns:
            return
        following, reward = 0.0, 2 * self.size + self.action_size
        for row in range(self.filled - 1, self.filled - 1 - length, -1):
            following = float(self.rows[row, reward]) + self.gamma * following
            self.rows[row, -1] = following

    def _append(self, rows: Tensor) -> None:
        if self.filled + len(rows) > len(self.rows):  # the run goes on for longer than it was planned for
            wider = self._make_table(self.filled + max(len(rows), 10_000), self.width)
            wider[: self.filled] = self.rows[: self.filled]
            self.rows = wider
        self.rows[self.filled : self.filled + len(rows)] = rows
        self.filled += len(rows)

    @property
    def made(self) -> Tensor:
        """The rows that were made online: what a checkpoint keeps."""
        return self.rows[self.offline : self.filled]

    @made.setter
    def made(self, rows: Tensor) -> None:
        self._kept = rows  # the dataset's rows are read after a checkpoint, whose scales they need

    def sample(self, count: int, device: torch.device) -> Batch:
        """Draw uniformly with replacement."""
        return self.batch(torch.randint(self.filled, (count,)), device)

    def sample_mixed(self, count: int, online_share: float, device: torch.device) -> Batch:
        """The same with a fixed share of rows that were made online, once there are some."""
        made = int(count * online_share) if self.filled > self.offline else 0
        old = torch.randint(self.offline, (count - made,))
        new = torch.randint(self.offline, self.filled, (made,)) if made else old[:0]
        return self.batch(torch.cat([old, new]), device)

    def batch(self, numbers: Tensor, device: torch.device) -> Batch:
        """The rows of these numbers."""
        rows = self.rows.index_select(0, numbers).to(device)
        size, both = self.size, self.size + self.action_size
        discrete = self.task.is_discrete
        behind = both + size + 2
        next_actions = rows[:, behind : behind + self.action_size] if self.with_next_actions else None
        return Batch(
            observations=rows[:, :size],
            actions=rows[:, size].long() if discrete else rows[:, size:both],
            observations_and_actions=rows[:, :both],
            next_observations=rows[:, both : both + size],
            rewards=rows[:, both + size],
            terminated=rows[:, both + size + 1],
            next_actions=next_actions,
            returns=rows[:, -1] if self.with_returns else None,
        )

    def __str__(self) -> str:
        return f"{self.filled:,} transitions, {self.filled - self.offline:,} of them made online"


def following_actions(data: Transitions) -> NDArray[np.float32]:
    """The action of the row behind each; of an episode's last row its own, which no terminated row looks at."""
    actions = np.asarray(data.actions, np.float32).reshape(len(data), -1)
    following = np.concatenate([actions[1:], actions[-1:]])
    last = data.episode_starts[1:] - 1
    following[last] = actions[last]
    return following


def returns_to_go(data: Transitions, rewards: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
    """Discounted rewards from each row to the end of its episode, which a time limit is, too."""
    found = np.zeros(len(rewards))
    starts, lengths = data.episode_starts[:-1], data.lengths()
    # All episodes side by side, from their ends: as many turns as the longest has rows.
    order = np.argsort(-lengths, kind="stable")
    ends, lengths = (starts + lengths)[order], lengths[order]
    following = np.zeros(len(order))
    for back in range(1, int(lengths.max(initial=0)) + 1):
        count = int(np.searchsorted(-lengths, -back, side="right"))
        rows = ends[:count] - back
        following[:count] = rewards[rows] + gamma * following[:count]
        found[rows] = following[:count]
    return found.astype(np.float32)
