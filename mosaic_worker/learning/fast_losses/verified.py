"""Gradient steps on a script's loss: by autograd, or by a faster form that is compared with it again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mosaic_worker.learning.adam import FlatAdam, TargetNetwork

Found = tuple[Tensor, Tensor]
"""(loss, mean value of the chosen actions)"""

TOLERANCE = 1e-3  # of the gradient's length; rounding alone stays a thousand times below it


class LearningStep:
    """One gradient step on a batch.

    `loss_of` gives the loss that autograd can follow; `fast`, where it is given, puts the same gradient into the
    optimiser without autograd. Both are compared before the 1st, 2nd, 4th, 8th … step. A reader who changes the loss of
    a script need not know of the fast form: from the first difference on, the loss itself is followed.
    """

    def __init__(
        self,
        adam: FlatAdam,
        target: TargetNetwork,
        loss_of: Callable[[Any], Found],
        fast: Callable[[Any], Found] | None = None,
    ) -> None:
        self.adam, self.target, self.loss_of, self.fast = adam, target, loss_of, fast
        self.made = 0

    def __call__(self, batch: Any) -> Found:
        self.made += 1
        power_of_two = self.made & (self.made - 1) == 0
        if self.fast is not None and power_of_two and self._differs(self.fast, batch):
            self.fast = None
            print("The loss is not the one that the fast form knows: autograd follows it, which is slower.", flush=True)
        if self.fast is None:
            loss, values = self.loss_of(batch)
            self.adam.minimise(loss)
            return loss.detach(), values.detach()
        found = self.fast(batch)
        self.adam.descend()
        return found

    def _differs(self, fast: Callable[[Any], Found], batch: Any) -> bool:
        """Whether both forms disagree on a batch, for a target network with its parameters shuffled.

        Shuffled, because at first it equals the network, and then a loss that mistakes one for the other looks right. A
        gradient that is not finite says nothing: that run is about to fail with advice of its own.
        """
        kept = self.target.vector.clone()
        order = torch.randperm(len(kept), generator=torch.Generator().manual_seed(self.made))
        self.target.vector.copy_(kept[order.to(kept.device)])
        try:
            fast(batch)
            written = self.adam.gradient.clone()
            self.adam.gradient.zero_()
            self.loss_of(batch)[0].backward()
        finally:
            self.target.vector.copy_(kept)
        difference = (written - self.adam.gradient).norm()
        return bool(difference > TOLERANCE * self.adam.gradient.norm())
