"""Seeds, threads and the device: what every script sets before it builds its networks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def prepare_torch(args: Any) -> torch.device:
    """Seed every generator, set PyTorch up as the arguments say, and return the device to train on."""
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    return torch.device("cuda" if args.cuda else "cpu")


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def action_stream(seed: int) -> np.random.Generator:
    """Where a script draws its actions from.

    Not the bare seed: the first environment has that, and actions must not follow the draws that it makes.
    """
    return np.random.default_rng((seed, 1))
