"""Checks that the arguments of every script here share. Nothing here imports PyTorch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mosaic_worker.learning.argument_checks import check_cuda, check_ranges, require

_COUNTS = ("total_timesteps", "batch_size", "hidden_dim", "n_episodes", "torch_threads")
_NOT_NEGATIVE = ("seed", "checkpoint_every", "checkpoint_keep", "eval_freq", "online_steps")


def check_offline(
    args: Any,
    *,
    counts: Collection[str] = (),
    not_negative: Collection[str] = (),
    positive: Collection[str] = (),
    fractions: Collection[str] = (),
) -> None:
    """Raise UsageError for the first argument that cannot work; the names are those besides what all scripts have."""
    check_ranges(
        args,
        counts=(*_COUNTS, *counts),
        not_negative=(*_NOT_NEGATIVE, *not_negative),
        positive=("reward_scale", *positive),
        fractions=fractions,
    )
    require(bool(args.dataset), "--dataset is missing: the algorithm learns from a dataset.")
    check_cuda(args)
