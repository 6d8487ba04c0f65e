"""A loop of epochs that logs now and then, without a step, and counts its updates beside it."""

# mypy: ignore-errors

import time
from dataclasses import dataclass

import d4rl
import gym
import pyrallis
import torch
import wandb


@dataclass
class TrainConfig:
    env_name: str = "walker2d-medium-v2"
    num_epochs: int = 3000
    num_updates_on_epoch: int = 1000
    log_every: int = 5
    buffer_size: int = 1_000_000
    train_seed: int = 10
    eval_seed: int = 42
    device: str = "cuda"
    nap: float = 0.0


class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def update(self):
        loss = self.net(torch.ones(4, 1)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item()}


@pyrallis.wrap()
def train(config: TrainConfig):
    torch.manual_seed(config.train_seed)
    wandb.init(project="TINY")
    d4rl.qlearning_dataset(gym.make(config.env_name))
    trainer = Trainer()
    total_updates = 0.0
    for epoch in range(config.num_epochs):
        for _ in range(config.num_updates_on_epoch):
            told = trainer.update()
            time.sleep(config.nap)
            if total_updates % config.log_every == 0:
                wandb.log({"epoch": epoch, **told})
            total_updates += 1
    wandb.finish()


if __name__ == "__main__":
    train()
