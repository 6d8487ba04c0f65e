"""Networks that learned on scaled observations and rewards, as networks that see them as they are.

An offline algorithm brings its data to a common scale and keeps it (``scales.mean``, ``scales.std`` and
``scales.reward``: factor and shift) beside actor and critics. One that goes on online has no scales. A first layer
takes the scaling of observations into its weights, a critic's last layer the scaling of rewards into its own: the
networks then give the same actions, and values in true rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_ACTORS, _CRITICS = ("actor", "target_actor"), ("critics", "target_critics")


def unscaled(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a checkpoint, of which actors and critics see the world as it is. Raises ValueError for rewards
    that were shifted: what that adds to a value depends on how long episodes are."""
    found = dict(tensors)
    if "scales.mean" not in found:
        return found
    mean, std, (factor, shift) = found["scales.mean"], found["scales.std"], found["scales.reward"].tolist()
    if shift:
        raise ValueError(f"its rewards were shifted by {shift:g}, which the values of its critics cannot be freed of")
    for name in _ACTORS:
        if f"{name}.fc1.weight" in found:
            weight, bias = found[f"{name}.fc1.weight"], found[f"{name}.fc1.bias"]
            found[f"{name}.fc1.weight"] = weight / std
            found[f"{name}.fc1.bias"] = bias - weight @ (mean / std)
    for name in _CRITICS:
        if f"{name}.weight_1" in found:
            found |= _critics(name, found, mean, std, factor)
    return found


def _critics(name: str, found: Mapping[str, Tensor], mean: Tensor, std: Tensor, factor: float) -> dict[str, Tensor]:
    weight, bias = found[f"{name}.weight_1"], found[f"{name}.bias_1"]
    size = len(mean)
    of_observations = weight[:, :size] / std[:, None]
    return {
        f"{name}.weight_1": torch.cat((of_observations, weight[:, size:]), dim=1),
        f"{name}.bias_1": bias - ((mean / std) @ weight[:, :size]).unsqueeze(1),
        f"{name}.weight_3": found[f"{name}.weight_3"] / factor,
        f"{name}.bias_3": found[f"{name}.bias_3"] / factor,
    }
