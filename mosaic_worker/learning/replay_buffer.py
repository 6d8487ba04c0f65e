"""The newest transitions, each packed into one row of a matrix, so that a batch is a single gather."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Batch(NamedTuple):
    """Transitions with discrete actions, one a row."""

    observations: Tensor
    next_observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor


class ReplayBuffer:
    """Transitions with discrete actions.

    A row is: observation, next observation, action, reward, whether the episode terminated there.
    """

    def __init__(self, capacity: int, observation_size: int, saved: bool) -> None:
        self.capacity, self.size, self.saved = capacity, observation_size, saved
        self.rows = torch.zeros(capacity, 2 * observation_size + 3)
        self.array = self.rows.numpy()  # the same memory: single rows are written faster through numpy
        self.position = self.filled = 0

    def add(
        self, observation: NDArray[Any], following: NDArray[Any], action: int, reward: float, terminated: bool
    ) -> None:
        """Store one transition in place of the oldest."""
        row = self.array[self.position]
        row[: self.size] = observation
        row[self.size : -3] = following
        row[-3], row[-2], row[-1] = action, reward, terminated
        self.position += 1
        self.filled = max(self.filled, self.position)
        self.position %= self.capacity

    def sample(self, count: int, device: torch.device) -> Batch:
        """Draw rows, each as likely as any other, with replacement."""
        rows = self.rows.index_select(0, torch.randint(self.filled, (count,))).to(device)
        observations, next_observations = rows[:, : self.size], rows[:, self.size : -3]
        return Batch(observations, next_observations, rows[:, -3:-2].long(), rows[:, -2], rows[:, -1])

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.float32]:
        """The same without PyTorch: whole rows, as they lie."""
        return self.array[random.integers(self.filled, size=count)]

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no rows unless they are to be saved."""
        kept = self.filled if self.saved else 0
        return {"capacity": self.capacity, "position": self.position if kept else 0, "rows": self.rows[:kept]}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        if kept["capacity"] != self.capacity:
            sizes = f"{kept['capacity']:,} transitions, this run's for {self.capacity:,}"
            raise ValueError(f"its replay buffer has room for {sizes}; leave --buffer-size as it was")
        self.position, self.filled = kept["position"], len(kept["rows"])
        self.rows[: self.filled] = kept["rows"]

    def __str__(self) -> str:
        megabytes = self.rows[: self.filled].nbytes / 1e6
        return f"{self.filled:,} transitions, {megabytes:.1f} MB"

    def told(self, step: int) -> str:
        """What is said beside a checkpoint that holds it."""
        return f"The checkpoint at step {step:,} includes the replay buffer: {self}."


@dataclass
class ContinuousBatch:
    """Transitions with continuous actions; observation and action stand side by side, as critics want them."""

    observations: Tensor
    observations_and_actions: Tensor
    next_observations: Tensor
    rewards: Tensor
    terminated: Tensor


class ContinuousReplayBuffer:
    """Transitions with continuous actions.

    A row is: observation, action, next observation, reward, terminated.
    """

    PARTS = ("position", "kept")  # in this order: the rows are judged by the position

    def __init__(self, capacity: int, observation_size: int, action_size: int) -> None:
        self.capacity = capacity
        self.widths = (observation_size, action_size, observation_size, 1, 1)
        self.rows = torch.empty(capacity, sum(self.widths))  # memory is taken only as it is filled
        self.array = self.rows.numpy()
        self.position, self.filled = 0, 0

    def add(self, *columns: NDArray[Any]) -> None:
        """Add one transition for each environment; columns in the order of a row, each (environments, width)."""
        at = (self.position + np.arange(len(columns[0]))) % self.capacity
        self.array[at] = np.concatenate(columns, axis=1, dtype=np.float32)
        self.position = (self.position + len(at)) % self.capacity
        self.filled = min(self.filled + len(at), self.capacity)

    def sample(self, count: int, device: torch.device) -> ContinuousBatch:
        """Draw uniformly with replacement."""
        chosen = self.rows.index_select(0, torch.randint(self.filled, (count,))).to(device)
        size, actions = self.widths[0], self.widths[1]
        return ContinuousBatch(
            observations=chosen[:, :size],
            observations_and_actions=chosen[:, : size + actions],
            next_observations=chosen[:, size + actions : -2],
            rewards=chosen[:, -2],
            terminated=chosen[:, -1],
        )

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.float32]:
        """The same without PyTorch: whole rows, as they lie."""
        return self.array[random.integers(self.filled, size=count)]

    @property
    def kept(self) -> Tensor:
        """The rows that a checkpoint keeps."""
        return self.rows[: self.filled]

    @kept.setter
    def kept(self, rows: Tensor) -> None:
        if len(rows) > self.capacity:
            raise ValueError(f"its replay buffer holds {len(rows)} transitions, this run's {self.capacity} at most")
        # Behind the rows there is room as long as the next one goes there; where it does not, the buffer was full.
        # Rows of a larger one that nobody has written yet would then be drawn.
        if self.position != len(rows) < self.capacity:
            sizes = f"{len(rows):,} transitions, this run's for {self.capacity:,}"
            raise ValueError(f"its replay buffer has room for {sizes}; leave --buffer-size as it was")
        self.rows[: len(rows)] = rows
        self.filled = len(rows)

    def __str__(self) -> str:
        return f"{self.filled:,} transitions, {self.kept.nbytes / 1e6:,.1f} MB"

    def told(self, step: int) -> str:
        """What is said beside a checkpoint that holds it."""
        return f"The checkpoint at step {step:,} holds {self}."
