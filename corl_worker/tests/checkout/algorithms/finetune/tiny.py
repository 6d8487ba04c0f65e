"""Offline, then online. It is read, and not run."""

# mypy: ignore-errors

from dataclasses import dataclass

import pyrallis
import wandb


@dataclass
class TrainConfig:
    dataset_name: str = "antmaze-umaze-v2"
    num_offline_updates: int = 1_000_000
    num_online_updates: int = 250_000
    replay_buffer_size: int = 2_000_000
    train_seed: int = 10


@pyrallis.wrap()
def train(config: TrainConfig):
    for step in range(config.num_offline_updates + config.num_online_updates):
        wandb.log({"loss": 0.0}, step=step)


if __name__ == "__main__":
    train()
