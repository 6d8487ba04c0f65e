"""One environment, played by one network after another."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import nn

from mosaic_worker.learning.frame_replay import FrameReplayBuffer
from mosaic_worker.learning.seeding import action_stream


class SinglePlayer:
    """Plays the environment, with the teacher's network or the student's."""

    PARTS = ("random", "observation")

    def __init__(self, task: Any, device: torch.device, seed: int) -> None:
        assert isinstance(task.action_space, gym.spaces.Discrete)
        self.task, self.device, self.action_count = task, device, int(task.action_space.n)
        self.random = action_stream(seed)
        self.observation = task.reset()

    @torch.no_grad()
    def step(self, network: nn.Module, epsilon: float, buffer: FrameReplayBuffer | None = None) -> Any:
        """Act once, at random with probability `epsilon`, and store what happened."""
        if self.random.random() < epsilon:
            action = int(self.random.integers(self.action_count))
        else:
            action = int(network(torch.from_numpy(self.observation).unsqueeze(0).to(self.device)).argmax())
        found = self.task.step(action)
        if buffer is not None:
            buffer.add(self.observation, action, found.reward, found.terminated)
        self.observation = found.observation
        if found.terminated or found.truncated:
            if buffer is not None:
                buffer.end(found.observation)
            self.observation = self.task.reset()
        return found

    def restart(self, buffer: FrameReplayBuffer) -> None:
        """Leave the running episode for a new one."""
        buffer.end(self.observation)
        self.observation = self.task.restart()
