"""Gymnasium's spaces from the form in which manifests keep them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_protocol.datasets import DatasetsError


def space_of(told: dict[str, Any]) -> gym.Space[Any]:
    """Raises DatasetsError."""
    try:
        return _space(told)
    except (KeyError, TypeError, ValueError, AssertionError, OverflowError) as error:
        raise DatasetsError(f"a space in the manifest cannot be read ({type(error).__name__}: {error})") from error


def _space(told: dict[str, Any]) -> gym.Space[Any]:
    match told["type"]:
        case "Box":
            kind, shape = np.dtype(told["dtype"]), tuple(told["shape"])
            low, high = (np.array(told[end], kind).reshape(shape) for end in ("low", "high"))
            return gym.spaces.Box(low, high, shape, kind.type)
        case "Discrete":
            return gym.spaces.Discrete(int(told["n"]), start=int(told.get("start", 0)))
        case "MultiDiscrete":
            return gym.spaces.MultiDiscrete(
                np.array(told["nvec"]), np.dtype(told["dtype"]).type, start=told.get("start")
            )
        case "MultiBinary":
            return gym.spaces.MultiBinary(told["n"])
        case "Dict":
            return gym.spaces.Dict([(key, _space(inner)) for key, inner in told["subspaces"].items()])
        case "Tuple":
            return gym.spaces.Tuple([_space(inner) for inner in told["subspaces"]])
        case "Text":
            return gym.spaces.Text(told["max_length"], min_length=told["min_length"], charset=told["charset"])
    raise ValueError(f"there is no space {str(told['type'])[:30]!r}")
