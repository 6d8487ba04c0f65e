"""What is due at which step. Imports neither PyTorch nor JAX."""

from __future__ import annotations

from typing import Any


def exploration(args: Any, step: int) -> float:
    """The share of random actions: falls linearly from start_e to end_e, then stays."""
    duration = args.exploration_fraction * args.total_timesteps
    if step >= duration:
        return args.end_e
    return args.start_e + step / duration * (args.end_e - args.start_e)


def multiples_passed(every: int, before: int, after: int) -> int:
    """How many multiples of `every` lie in (before, after]: what is due, however many steps one loop makes."""
    return after // every - before // every
