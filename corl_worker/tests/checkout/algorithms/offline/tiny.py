"""Behaviour cloning in the shape of CORL's scripts: a config that pyrallis reads, a trainer, a loop in a function."""

# mypy: ignore-errors

import copy
from dataclasses import asdict, dataclass

import d4rl
import gym
import numpy as np
import pyrallis
import torch
import wandb


@dataclass
class TrainConfig:
    # name of the project
    project: str = "TINY"
    # what it learns from,
    # and where it is judged
    env: str = "halfcheetah-medium-v2"
    max_timesteps: int = int(1e6)
    buffer_size: int = 2_000_000
    batch_size: int = 16
    normalize: bool = True  # observations
    learning_rate: float = 1e-3
    clip: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    eval_freq: int = int(5e3)
    n_episodes: int = 10
    poison_at: int = -1
    seed: int = 0
    device: str = "cuda"


class Buffer:
    def __init__(self, rows, state_dim, action_dim):
        self._states = torch.zeros((rows, state_dim))
        self._actions = torch.zeros((rows, action_dim))
        self._size = 0

    def load(self, data):
        rows = len(data["rewards"])
        if rows > len(self._states):
            raise ValueError("the buffer is too small")
        self._states[:rows] = torch.from_numpy(data["observations"])
        self._actions[:rows] = torch.from_numpy(data["actions"])
        self._size = rows

    def sample(self, count):
        at = np.random.randint(0, self._size, count)
        return self._states[at], self._actions[at]


class Cloning:
    def __init__(self, actor, optimizer, poison_at):
        self.actor, self.optimizer, self.poison_at = actor, optimizer, poison_at
        self.target = copy.deepcopy(actor)
        self.total_it = 0

    def train(self, batch):
        self.total_it += 1
        states, actions = batch
        loss = torch.nn.functional.mse_loss(torch.tanh(self.actor(states)), actions)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for one, other in zip(self.target.parameters(), self.actor.parameters(), strict=True):
            one.data.mul_(0.9).add_(0.1 * other.data)
        told = float("nan") if self.total_it == self.poison_at else loss.item()
        return {"bc_loss": told, "note": "text is no number"}


@torch.no_grad()
def evaluate(env, actor, episodes, seed):
    env.seed(seed)
    returns = []
    for _ in range(episodes):
        state, done, total = env.reset(), False, 0.0
        while not done:
            action = torch.tanh(actor(torch.as_tensor(state, dtype=torch.float32))).numpy()
            state, reward, done, _ = env.step(action)
            total += reward
        returns.append(total)
    return np.mean(returns)


@pyrallis.wrap()
def train(config: TrainConfig):
    env = gym.make(config.env)
    data = d4rl.qlearning_dataset(env)
    mean, std = data["observations"].mean(0), data["observations"].std(0) + 1e-3
    data["observations"] = (data["observations"] - mean) / std
    env = gym.wrappers.TransformObservation(env, lambda state: (state - mean) / std)
    buffer = Buffer(config.buffer_size, env.observation_space.shape[0], env.action_space.shape[0])
    buffer.load(data)
    np.random.seed(config.seed)
    torch.manual_seed(config.seed)
    actor = torch.nn.Linear(env.observation_space.shape[0], env.action_space.shape[0]).to(config.device)
    trainer = Cloning(actor, torch.optim.Adam(actor.parameters(), lr=config.learning_rate), config.poison_at)
    wandb.init(config=asdict(config), project=config.project)
    wandb.run.save()
    scores = []
    for t in range(int(config.max_timesteps)):
        wandb.log(trainer.train(buffer.sample(config.batch_size)), step=trainer.total_it)
        if (t + 1) % config.eval_freq == 0:
            score = env.get_normalized_score(evaluate(env, actor, config.n_episodes, config.seed)) * 100.0
            scores.append(score)
            wandb.log({"d4rl_normalized_score": score}, step=trainer.total_it)
    print("scores", len(scores))


if __name__ == "__main__":
    train()
