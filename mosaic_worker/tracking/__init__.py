"""Weights & Biases for a training script: a copy of its scalars, in a process of its own.

The training process never imports wandb. It hands rows to a child (:mod:`mosaic_worker.tracking.process`), so neither
wandb's time, nor its failures, nor the proxies it needs reach the training.
"""

from __future__ import annotations

from mosaic_worker.tracking.tracker import Tracker, open_tracker

__all__ = ["Tracker", "open_tracker"]
