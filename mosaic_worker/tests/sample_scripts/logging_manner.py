"""A script whose loop nobody recognises, because its environment is stepped elsewhere; it only logs how far it is."""

import argparse

from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=180)
args = parser.parse_args()
writer = SummaryWriter("runs/logging")


def learn(total: int) -> None:
    for update in range(total):
        writer.add_scalar("losses/loss", 1.0 / (update + 1), 1000 * (update + 1))
        writer.add_scalar("charts/episode_length", 10.0, update + 1)


learn(args.updates)
writer.close()
