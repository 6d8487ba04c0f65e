"""A small Q-learning with replay in the manner of CleanRL's newer checkouts: tyro, one file, nothing of MOSAIC."""

# mypy: ignore-errors

import random
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn, optim
from torch.nn import functional
from torch.utils.tensorboard import SummaryWriter


@dataclass
class Args:
    seed: int = 1
    """Seed of everything."""
    env_id: str = "CartPole-v1"
    """The environment."""
    total_timesteps: int = 1500
    """Steps in all."""
    learning_rate: float = 1e-3
    buffer_size: int = 400
    """Transitions to remember."""
    track: bool = False
    """Nothing comes of it."""


class Memory:
    """A ring of transitions."""

    def __init__(self, size, width):
        self.buffer_size, self.pos, self.full = size, 0, False
        self.observations = np.zeros((size, width), np.float32)
        self.following = np.zeros((size, width), np.float32)
        self.actions = np.zeros((size, 1), np.int64)
        self.rewards = np.zeros(size, np.float32)

    def add(self, observation, following, action, reward):
        row = self.pos
        self.observations[row], self.following[row] = observation, following
        self.actions[row], self.rewards[row] = action, reward
        self.pos = (row + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def sample(self, count):
        rows = np.random.randint(0, self.buffer_size if self.full else self.pos, count)
        kept = (self.observations, self.following, self.actions, self.rewards)
        return [torch.as_tensor(one[rows]) for one in kept]


def network(width, actions):
    return nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, actions))


if __name__ == "__main__":
    args = tyro.cli(Args)
    writer = SummaryWriter(f"runs/{args.env_id}__tyro_manner__{args.seed}__{int(time.time())}")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))])
    q_network = network(4, envs.single_action_space.n)
    target_network = network(4, envs.single_action_space.n)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    rb = Memory(args.buffer_size, 4)
    start_time = time.time()
    obs, _ = envs.reset(seed=args.seed)
    envs.single_action_space.seed(args.seed)
    for global_step in range(args.total_timesteps):
        if random.random() < max(0.05, 1 - global_step / 500):
            actions = np.array([envs.single_action_space.sample()])
        else:
            actions = q_network(torch.as_tensor(obs)).argmax(1).numpy()
        next_obs, reward, _, _, infos = envs.step(actions)
        if "episode" in infos:
            writer.add_scalar("charts/episodic_return", infos["episode"]["r"][0], global_step)
        rb.add(obs[0], next_obs[0], actions, reward[0])
        obs = next_obs
        if global_step > 100:
            observations, following, chosen, rewards = rb.sample(16)
            with torch.no_grad():
                wanted = rewards + 0.9 * target_network(following).max(1).values
            loss = functional.mse_loss(q_network(observations).gather(1, chosen)[:, 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if global_step % 100 == 0:
                writer.add_scalar("losses/td_loss", loss, global_step)
                writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)
            if global_step % 250 == 0:
                target_network.load_state_dict(q_network.state_dict())
    writer.close()
