"""Whether an environment has the spaces of a dataset. Imports gymnasium, not torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from mosaic_worker.learning.environments import brief
from mosaic_worker.offline import OfflineDataset


def misfit(env_id: str, observations: gym.Space[Any], actions: gym.Space[Any], dataset: OfflineDataset) -> str:
    """Why what is learned from the data cannot act in an environment of these spaces, in a sentence; "" where it
    can."""
    pairs = (observations, dataset.observation_space), (actions, dataset.action_space)
    for what, (theirs, ours) in zip(("observations", "actions"), pairs, strict=True):
        if _form(theirs) != _form(ours):
            forms = f"its {what} are {brief(theirs)}, the data's {brief(ours)}"
            return f"{env_id} does not fit the dataset {dataset.name!r}: {forms}"
    return ""


def _form(space: gym.Space[Any]) -> tuple[Any, ...]:
    return type(space).__name__, space.shape, getattr(space, "n", None), getattr(space, "start", None)
