"""The temperature of soft actor-critic, tuned by a few numbers instead of tensors."""

from __future__ import annotations

import math
from typing import Any


class Temperature:
    """How much entropy is worth: its logarithm follows Adam until the policy's entropy meets the target.

    The textbook form is ``torch.optim.Adam([log_alpha])`` on ``-log_alpha.exp() * (log_prob + target_entropy)``.
    """

    PARTS = ("log_alpha", "steps", "mean", "mean_square", "loss")

    def __init__(self, target_entropy: float, args: Any) -> None:
        self.target_entropy = target_entropy
        self.learning_rate, self.tuned = args.q_lr, args.autotune
        self.log_alpha = 0.0 if args.autotune else math.log(args.alpha) if args.alpha else -math.inf
        self.steps, self.mean, self.mean_square = 0, 0.0, 0.0
        self.loss = 0.0

    @property
    def alpha(self) -> float:
        return math.exp(self.log_alpha)

    def tune(self, mean_log_prob: float) -> None:
        """One step of Adam on -alpha (log-probability + target entropy), whose gradient by log alpha is itself."""
        self.loss = gradient = -self.alpha * (mean_log_prob + self.target_entropy)
        self.steps += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.mean_square += 0.001 * (gradient * gradient - self.mean_square)
        root = math.sqrt(self.mean_square / (1 - 0.999**self.steps)) + 1e-8
        self.log_alpha -= self.learning_rate * self.mean / (1 - 0.9**self.steps) / root
