"""Spaces that data itself shows, for environments that cannot be asked for theirs. In the form that Minari reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mosaic_protocol.dataset_files.spaces import leaves
from mosaic_protocol.steps.columns import Path
from mosaic_protocol.steps.recorded_episodes import FormError


class SeenValues:
    """What the observations, or the actions, of several episodes have in common."""

    def __init__(self) -> None:
        self._forms: dict[Path, tuple[str, tuple[int, ...]]] = {}
        self._least: dict[Path, int] = {}
        self._greatest: dict[Path, int] = {}

    def require(self, values: dict[Path, Any], name: str) -> None:
        """Raises :class:`FormError` for values of another form than those before."""
        if self._forms and self._forms != _forms(values):
            raise FormError(f"{name}s have another form than those of earlier episodes")

    def add(self, values: dict[Path, Any]) -> None:
        self._forms = _forms(values)
        for path, column in values.items():
            if isinstance(column, list):
                self._greatest[path] = max(self._greatest.get(path, 1), *map(len, column))
            elif column.dtype.kind in "iu" and column.ndim == 1:
                least, greatest = int(column.min()), int(column.max())
                self._least[path] = min(self._least.get(path, least), least)
                self._greatest[path] = max(self._greatest.get(path, greatest), greatest)

    def fits(self, space: str) -> bool:
        """Whether a space is one of values like these: the same parts, each of its kind, its form and, where they are
        counted, in its range. Bounds of other numbers are not looked at: environments do not keep to them."""
        parts = leaves(json.loads(space))
        return parts.keys() == self._forms.keys() and all(self._fits(path, one) for path, one in parts.items())

    def _fits(self, path: Path, space: dict[str, Any]) -> bool:
        kind, shape = self._forms[path]
        if kind == "text" or space["type"] == "Text":
            return kind == "text" and space["type"] == "Text"
        dtype = np.dtype(kind)
        match space["type"]:
            case "Discrete":
                first, count = int(space["start"]), int(space["n"])
                is_counted = dtype.kind in "iu" and not shape
                return is_counted and first <= self._least[path] and self._greatest[path] < first + count
            case "MultiBinary":
                size = space["n"]
                return dtype.str in ("|i1", "|b1") and shape == (tuple(size) if isinstance(size, list) else (size,))
            case "MultiDiscrete":
                return bool(dtype == np.dtype(space["dtype"])) and shape == np.shape(space["nvec"])
            case "Box":
                return bool(dtype == np.dtype(space["dtype"])) and shape == tuple(space["shape"])
        return False

    def space(self) -> str:
        """A space that holds all of them, as JSON."""
        return json.dumps(self._space(sorted(self._forms, key=str), ()))

    def _space(self, paths: list[Path], at: Path) -> dict[str, Any]:
        if at in self._forms:
            return self._leaf(at)
        keys = list(dict.fromkeys(path[len(at)] for path in paths if path[: len(at)] == at))
        if all(isinstance(key, int) for key in keys):
            return {"type": "Tuple", "subspaces": [self._space(paths, (*at, key)) for key in sorted(keys, key=int)]}
        return {"type": "Dict", "subspaces": {str(key): self._space(paths, (*at, key)) for key in keys}}

    def _leaf(self, path: Path) -> dict[str, Any]:
        kind, shape = self._forms[path]
        if kind == "text":
            printable = "".join(map(chr, range(32, 127)))
            return {"type": "Text", "min_length": 0, "max_length": self._greatest[path], "charset": printable}
        dtype = np.dtype(kind)
        if dtype.kind in "iu" and not shape:
            start = min(self._least[path], 0)
            return {"type": "Discrete", "dtype": "int64", "start": start, "n": max(self._greatest[path], 0) - start + 1}
        if dtype.kind == "b":
            return {"type": "MultiBinary", "n": list(shape) if shape else 1}
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        bounds = {"low": np.full(shape, low, dtype).tolist(), "high": np.full(shape, high, dtype).tolist()}
        return {"type": "Box", "dtype": str(dtype), "shape": list(shape), **bounds}


def _forms(values: dict[Path, Any]) -> dict[Path, tuple[str, tuple[int, ...]]]:
    return {
        path: ("text", ()) if isinstance(column, list) else (column.dtype.str, column.shape[1:])
        for path, column in values.items()
    }
