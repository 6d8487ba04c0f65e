"""Actors of compiled scripts, evaluated in numpy between two updates.

For a row or a few, calling a compiled program takes longer than the arithmetic."""

from __future__ import annotations

import numpy as np

from mosaic_worker.compiled.carried import Carried
from mosaic_worker.learning.continuous_acting import SquashedGaussianActor, TanhActor
from mosaic_worker.learning.fast_acting import Layers


class _Layers:
    """The layers of an actor as they are now."""

    carried: Carried
    names: tuple[str, ...]

    @property
    def layers(self) -> Layers:
        learned = self.carried.value.learned
        return [
            (np.asarray(learned[f"actor.{name}.weight"]).T, np.asarray(learned[f"actor.{name}.bias"]))
            for name in self.names
        ]


class CompiledSquashedGaussianActor(_Layers, SquashedGaussianActor):
    """SAC's."""

    names = "fc1", "fc2", "fc_mean", "fc_logstd"

    def __init__(self, carried: Carried, log_std_range: tuple[float, float]) -> None:
        self.carried = carried
        lowest, highest = log_std_range
        self.middle, self.reach = (highest + lowest) / 2, (highest - lowest) / 2


class CompiledTanhActor(_Layers, TanhActor):
    """TD3's."""

    names = "fc1", "fc2", "fc_mu"

    def __init__(self, carried: Carried, noise: float) -> None:
        self.carried = carried
        self.exploring = np.float32(noise)
