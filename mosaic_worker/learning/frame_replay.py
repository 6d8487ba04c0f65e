"""A replay buffer of observations that overlap: the pictures of each step are stored once."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mosaic_worker.learning.memory import free_memory
from mosaic_worker.learning.replay_buffer import Batch
from mosaic_worker.training.session import UsageError

SMALLEST_BUFFER = 16


def is_numeric(space: gym.spaces.Box) -> bool:
    """Whether observations need 4 bytes a number; those of bytes and truth values stay what they are."""
    return space.dtype not in (np.uint8, np.bool_)


class FrameReplayBuffer:
    """The newest steps, the pictures of each stored once; stacks are put together when they are drawn.

    A place holds the newest picture of an observation and what was done there. One place more per episode, at which
    nothing was done, holds what the episode ended in. The stack of an early step repeats its episode's first picture.
    """

    COLUMNS = ("frames", "actions", "rewards", "terminated", "acted", "age")

    def __init__(self, capacity: int, space: gym.spaces.Box, stack: int, saved: bool) -> None:
        self.capacity, self.stack, self.saved = capacity, stack, saved
        shape = space.shape[1:] if stack > 1 else space.shape
        kind = torch.float32 if is_numeric(space) else torch.from_numpy(np.zeros(0, dtype=space.dtype)).dtype
        self.frames = torch.zeros(capacity, *shape, dtype=kind)
        self.actions = torch.zeros(capacity, dtype=torch.int64)
        self.rewards, self.terminated = torch.zeros(2, capacity).unbind()
        self.acted = torch.zeros(capacity, dtype=torch.bool)
        self.age = torch.zeros(capacity, dtype=torch.int64)  # steps since the episode began
        self.position = self.filled = self.steps = 0

    def add(self, observation: NDArray[Any], action: int, reward: float, terminated: bool) -> None:
        """Store a step in place of the oldest."""
        self._put(observation, action, reward, terminated, acted=True)
        self.steps += 1

    def end(self, observation: NDArray[Any]) -> None:
        """Store what an episode ended in, or was left in; the next step begins another."""
        if self.steps:
            self._put(observation, 0, 0.0, False, acted=False)
            self.steps = 0

    def _put(self, observation: NDArray[Any], action: int, reward: float, terminated: bool, *, acted: bool) -> None:
        at = self.position
        self.frames[at] = torch.from_numpy(observation[-1] if self.stack > 1 else observation)
        self.actions[at], self.rewards[at], self.terminated[at] = action, reward, terminated
        self.acted[at], self.age[at] = acted, self.steps
        self.position = (at + 1) % self.capacity
        self.filled = min(self.filled + 1, self.capacity)

    def clear(self) -> None:
        self.position = self.filled = self.steps = 0

    def sample(self, count: int, device: torch.device) -> Batch:
        """Draw steps, each as likely as any other, with replacement. At least one must have a successor."""
        chosen = torch.randint(self.filled, (count,))
        while len(wrong := (~self._usable(chosen)).nonzero().squeeze(1)):
            chosen[wrong] = torch.randint(self.filled, (len(wrong),))
        age = self.age[chosen]
        return Batch(
            self._stacks(chosen, age).to(device),
            self._stacks((chosen + 1) % self.capacity, age + 1).to(device),
            self.actions[chosen].unsqueeze(1).to(device),
            self.rewards[chosen].to(device),
            self.terminated[chosen].to(device),
        )

    def _usable(self, places: Tensor) -> Tensor:
        """Whether a step was made there, its successor is known, and its stack has not been overwritten yet."""
        oldest = self.position if self.filled == self.capacity else 0
        since = (places - oldest) % self.capacity
        return self.acted[places] & (since < self.filled - 1) & (since >= self.age[places].clamp(max=self.stack - 1))

    def _stacks(self, places: Tensor, age: Tensor) -> Tensor:
        if self.stack == 1:
            return self.frames[places]
        back = torch.minimum(torch.arange(self.stack - 1, -1, -1), age.unsqueeze(1))
        return self.frames[(places.unsqueeze(1) - back) % self.capacity]

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no places unless they are to be saved."""
        kept = self.filled if self.saved else 0
        columns = {name: getattr(self, name)[:kept] for name in self.COLUMNS}
        steps = self.steps if kept else 0
        return {"capacity": self.capacity, "position": self.position if kept else 0, "steps": steps, **columns}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        full = len(kept["frames"]) == kept["capacity"]  # then the oldest lies amid the others
        if kept["capacity"] != self.capacity and (full or len(kept["frames"]) > self.capacity):
            sizes = f"{kept['capacity']:,} observations, this run's for {self.capacity:,}"
            raise ValueError(f"its replay buffer has room for {sizes}; leave --buffer-size and all steps as they were")
        self.position, self.filled, self.steps = kept["position"] % self.capacity, len(kept["frames"]), kept["steps"]
        for name in self.COLUMNS:
            getattr(self, name)[: self.filled] = kept[name]

    def told(self, step: int) -> str:
        """What is said beside a checkpoint that holds it."""
        return f"The checkpoint at step {step:,} includes the replay buffer: {self}."

    def __str__(self) -> str:
        megabytes = sum(getattr(self, name)[: self.filled].nbytes for name in self.COLUMNS) / 1e6
        return f"{self.filled:,} observations, {megabytes:,.1f} MB"


def make_frame_buffer(
    buffer_size: int, longest: int, space: gym.spaces.Box, stack: int, saved: bool
) -> FrameReplayBuffer:
    """A buffer for runs of at most `longest` steps. Raises UsageError when memory is too small."""
    capacity = max(SMALLEST_BUFFER, min(buffer_size, 2 * longest))  # at worst every step ends an episode
    needed = capacity * (math.prod(space.shape) // stack * (4 if is_numeric(space) else 1) + 25)
    if needed > (free := free_memory()):
        sizes = (
            f"{capacity:,} observations takes {needed / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
        )
        raise UsageError(f"A replay buffer of {sizes}; lower --buffer-size.")
    if needed > 1e9:
        print(f"The replay buffer takes up to {needed / 1e9:.1f} GB of memory, filled as it goes.", flush=True)
    return FrameReplayBuffer(capacity, space, stack, saved)
