"""What was learned on scales acts and judges the same without them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.learning.unscaling import unscaled
from mosaic_worker.state.training_state import parameters_of


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, observations: Tensor) -> Tensor:
        found: Tensor = self.fc2(self.fc1(observations).relu())
        return found


def learned(shift: float = 0.0) -> tuple[Actor, TwinCritics, dict[str, Any]]:
    torch.manual_seed(0)
    actor, critics = Actor(), TwinCritics(5, 8)
    scales = {
        "scales.mean": torch.randn(3),
        "scales.std": torch.rand(3) + 0.5,
        "scales.reward": torch.tensor([0.1, shift]),
    }
    return actor, critics, {**parameters_of("actor", actor), **parameters_of("critics", critics), **scales}


def test_networks_give_the_same_without_the_scales() -> None:
    actor, critics, tensors = learned()
    bare_actor, bare_critics = Actor(), TwinCritics(5, 8)
    found = unscaled(tensors)
    for name, module in (("actor", bare_actor), ("critics", bare_critics)):
        module.load_state_dict({key.removeprefix(f"{name}."): found[key] for key in parameters_of(name, module)})
    rows, actions = torch.randn(7, 3), torch.randn(7, 2)
    scaled = (rows - tensors["scales.mean"]) / tensors["scales.std"]
    torch.testing.assert_close(bare_actor(rows), actor(scaled))
    judged = critics(torch.cat((scaled, actions), dim=1))
    torch.testing.assert_close(bare_critics(torch.cat((rows, actions), dim=1)) * 0.1, judged)


def test_shifted_rewards_are_refused() -> None:
    with pytest.raises(ValueError, match="its rewards were shifted by 1"):
        unscaled(learned(shift=1.0)[2])


def test_what_has_no_scales_is_as_it_was() -> None:
    actor = Actor()
    assert unscaled(parameters_of("actor", actor)).keys() == parameters_of("actor", actor).keys()
