"""Spaces as manifests write them (Minari's form), and values of them as rows of plain numbers.

The order is that of ``gymnasium.spaces.flatten``: a policy that learned from such rows acts on environments behind
``FlattenObservation``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.datasets.errors import DatasetsError

Space: TypeAlias = dict[str, Any]
Leaf: TypeAlias = tuple[str | int, ...]
_MOST_NUMBERS = 2**26
"""In one flattened value; a space that promises more is no space of this world."""


def parsed(text: str) -> Space:
    """Raises DatasetsError."""
    try:
        space = json.loads(text)
        if not all(isinstance(leaf["type"], str) for leaf in leaves(space).values()):
            raise TypeError("type")
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
        raise DatasetsError(f"a space in the manifest cannot be read ({type(error).__name__})") from error
    return dict(space)


def leaves(space: Space, at: Leaf = ()) -> dict[Leaf, Space]:
    """The parts of a space, each with its place."""
    inner = space.get("subspaces")
    if inner is None:
        return {at: space}
    pairs = inner.items() if isinstance(inner, dict) else enumerate(inner)
    return {path: leaf for key, value in pairs for path, leaf in leaves(value, (*at, key)).items()}


def width(space: Space) -> int:
    """How many numbers a flattened value has. Raises DatasetsError for text, which has no such form."""
    total = sum(_leaf_width(leaf) for leaf in leaves(space).values())
    if not 0 <= total <= _MOST_NUMBERS:
        raise DatasetsError("a space in the manifest is larger than anything that can be learned from")
    return total


def _leaf_width(leaf: Space) -> int:
    match leaf["type"]:
        case "Box":
            return math.prod(map(int, leaf["shape"]))
        case "Discrete":
            return int(leaf["n"])
        case "MultiBinary":
            size = leaf["n"]
            return math.prod(size) if isinstance(size, list) else int(size)
        case "MultiDiscrete":
            return int(np.sum(leaf["nvec"]))
    raise DatasetsError(f"values of the kind {str(leaf['type'])[:30]!r} cannot be learned from: they are no numbers")


def flattened(space: Space, values: Mapping[Leaf, NDArray[Any]]) -> NDArray[np.float32]:
    """One row of numbers for each step; counted things become one column for each choice. Raises DatasetsError where
    values do not fit the space."""
    parts = []
    for path, leaf in leaves(space).items():
        if path not in values:
            raise DatasetsError(f"the part {'/'.join(map(str, path)) or 'observations'!r} is missing")
        parts.append(_flat_leaf(leaf, np.asarray(values[path])))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _flat_leaf(leaf: Space, values: NDArray[Any]) -> NDArray[np.float32]:
    match leaf["type"]:
        case "Discrete":
            return _one_hot(values.reshape(len(values), 1), [int(leaf["n"])], [int(leaf.get("start", 0))])
        case "MultiDiscrete":
            counts = np.ravel(leaf["nvec"])
            starts = np.ravel(leaf.get("start") or np.zeros_like(counts))
            return _one_hot(values.reshape(len(values), -1), counts.tolist(), starts.tolist())
    wanted = _leaf_width(leaf)
    if math.prod(values.shape[1:]) != wanted:
        raise DatasetsError(f"values have the shape {values.shape[1:]}, where the space has {wanted} numbers")
    return np.ascontiguousarray(values.reshape(len(values), wanted), dtype=np.float32)


def _one_hot(values: NDArray[Any], counts: list[int], starts: list[int]) -> NDArray[np.float32]:
    if values.shape[1] != len(counts):
        raise DatasetsError(f"values have {values.shape[1]} numbers, where the space has {len(counts)}")
    flat = np.zeros((len(values), sum(counts)), np.float32)
    rows, first = np.arange(len(values)), 0
    for column, (count, start) in enumerate(zip(counts, starts, strict=True)):
        flat[rows, first + choices(values[:, column], count, start)] = 1.0
        first += count
    return flat


def choices(values: NDArray[Any], count: int, start: int) -> NDArray[np.int64]:
    """Counted values from 0 on. Raises DatasetsError for one outside the space."""
    found = np.asarray(values, np.int64) - start
    if found.size and (found.min() < 0 or found.max() >= count):
        raise DatasetsError(f"a value is outside its space, which has {count} choices from {start} on")
    return found


def bounds(box: Space) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and greatest value of each number of a Box."""
    low, high = (np.array(box[end], np.float64).ravel() for end in ("low", "high"))
    return low, high


def shape_of(space: Space) -> list[tuple[Leaf, str, Any]]:
    """What values of two spaces must have in common to stand side by side; bounds may differ."""
    return [
        (path, leaf["type"], leaf.get("shape", leaf.get("n", leaf.get("nvec")))) for path, leaf in leaves(space).items()
    ]
