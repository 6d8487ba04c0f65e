"""Checks of a script's arguments. Nothing here imports PyTorch unless ``--cuda`` was given."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Any

from mosaic_worker.errors import UsageError


def require(condition: bool, sentence: str) -> None:
    """Raise UsageError with the sentence unless the condition holds."""
    if not condition:
        raise UsageError(sentence)


def check_ranges(
    args: Any,
    *,
    counts: Collection[str] = (),
    not_negative: Collection[str] = (),
    positive: Collection[str] = (),
    fractions: Collection[str] = (),
) -> None:
    """Raise UsageError for the first field of a dataclass that lies outside the range named for it.

    A positive argument that is None was left out.
    """
    for name, value in dataclasses.asdict(args).items():
        flag = "--" + name.replace("_", "-")
        if name in counts:
            require(value >= 1, f"{flag} must be at least 1, got {value}.")
        if name in not_negative:
            require(0 <= value < math.inf, f"{flag} must be 0 or more, got {value}.")
        if name in positive and value is not None:
            require(0 < value < math.inf, f"{flag} must be more than 0, got {value}.")
        if name in fractions:
            require(0 <= value <= 1, f"{flag} must be from 0 to 1, got {value}.")


def check_minibatches(args: Any) -> None:
    """Raise UsageError when a rollout has fewer rows than minibatches."""
    rows = args.num_envs * args.num_steps
    require(
        args.num_minibatches <= rows,
        f"--num-minibatches must be at most num-envs times num-steps ({rows}), got {args.num_minibatches}.",
    )


def check_exploration(args: Any) -> None:
    """Raise UsageError when the share of random actions would rise."""
    require(args.end_e <= args.start_e, f"--end-e must be at most start-e ({args.start_e}), got {args.end_e}.")


def check_no_upload(args: Any) -> None:
    """Raise UsageError for the flag of CleanRL's that is understood but not served."""
    require(not args.upload_model, "--upload-model is not available in this version; leave it out.")


def check_cuda(args: Any) -> None:
    """Raise UsageError when the GPU is asked for and there is none."""
    if args.cuda:
        import torch

        require(
            torch.cuda.is_available(),
            "--cuda was asked for, but PyTorch finds no CUDA device; leave it out to train on the CPU.",
        )
