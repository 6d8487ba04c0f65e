"""What a policy thinks of the step to come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_protocol.live.messages import AdviceKind

_KINDS: dict[str, AdviceKind] = {"probabilities": "probability", "action_values": "value"}
"""As policies name it, and as the live channel does."""


@dataclass(frozen=True)
class Opinion:
    """Of one observation. A policy says what it can: all but the action may be missing."""

    action: Any
    """What it would do, as the policy spells it."""
    advice: tuple[float, ...] = ()
    kind: AdviceKind = ""
    value: float | None = None

    @property
    def extras(self) -> dict[str, Any]:
        """For the record of a step that the policy itself made."""
        name = next((name for name, kind in _KINDS.items() if kind == self.kind and self.advice), "")
        return {name: list(self.advice)} if name else {}


def opinion_of(action: Any, told: Mapping[str, Any], space: gym.Space[Any]) -> Opinion:
    """Out of what a policy answered for one observation. What does not fit the actions is left out: it is the policy's
    mistake, and no reason to stop."""
    value = np.asarray(told.get("value", ()))
    expected = float(value.reshape(-1)[0]) if value.size == 1 and value.dtype.kind in "iuf" else math.nan
    advice, kind = _advice(told, space)
    return Opinion(action, advice, kind, expected if math.isfinite(expected) else None)


def _advice(told: Mapping[str, Any], space: gym.Space[Any]) -> tuple[tuple[float, ...], AdviceKind]:
    if isinstance(space, gym.spaces.Discrete):
        for name, kind in _KINDS.items():
            values = np.asarray(told.get(name, ()))
            if values.shape == (1, int(space.n)) and values.dtype.kind in "iuf" and np.isfinite(values).all():
                return tuple(map(float, values[0])), kind
    return (), ""
