"""Values of files that cannot be right: not finite, too large to be learned from, or nothing the environment takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.dataset_files import spaces
from mosaic_protocol.datasets import DatasetsError, RetryableError

Place = Callable[[int], str]
"""What to call a row of the values that are looked at: ``row 7``, ``step 2 of episode_3``."""
_LARGEST = float(np.finfo(np.float32).max)
_SLACK = 1e-3


def require_sound(found: NDArray[Any], name: str, file: Path, place: Place) -> None:
    """Raises DatasetsError for numbers that are not finite, or would not be as the 32-bit numbers that are learned
    from."""
    if found.dtype.kind != "f":
        return
    sizes = np.abs(found).reshape(len(found), -1)
    bad = ~(sizes <= _LARGEST)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    what = "beyond what 32 bits hold" if np.isfinite(sizes[row, column]) else "not finite (NaN or infinite)"
    raise DatasetsError(f"{file.name} has {name} that are {what}, first in {place(row)}")


@dataclass(frozen=True)
class Allowed:
    """What an environment takes: the bounds of a Box, or choices."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counted: bool

    @classmethod
    def by(cls, space: str | None) -> Allowed | None:
        """Of a space as manifests write them; None where everything passes."""
        form = json.loads(space) if space else {}
        match form.get("type"):
            case "Box":
                return cls(*spaces.bounds(form), counted=False)
            case "Discrete":
                first = int(form.get("start", 0))
                ends = np.array([first], np.float64), np.array([first + int(form["n"]) - 1], np.float64)
                return cls(*ends, counted=True)
        return None

    def taken(self, given: NDArray[Any], name: str, file: Path, place: Place, *, clip: bool) -> NDArray[Any]:
        """The values, as whole numbers where they are choices. Raises DatasetsError for what the environment does not
        take, unless a Box's are to be clipped."""
        flat = given.reshape(len(given), -1)
        if self.counted and flat.dtype.kind == "f" and (flat != np.round(flat)).any():
            row, _ = np.argwhere(flat != np.round(flat))[0]
            said = f"{name} that are no whole numbers: {flat[row, 0]:g} in {place(row)}"
            raise DatasetsError(f"{file.name} has {said}, where the environment has {self._choices}")
        low, high = self.low, self.high
        if not self.counted:
            low, high = low - _SLACK * (1 + np.abs(low)), high + _SLACK * (1 + np.abs(high))
        beyond = (flat < low) | (flat > high)
        if not beyond.any():
            return given.reshape(-1).astype(np.int64) if self.counted else given
        if clip and not self.counted:
            clipped: NDArray[Any] = np.clip(flat, self.low, self.high).astype(given.dtype).reshape(given.shape)
            return clipped
        row, column = np.argwhere(beyond)[0]
        said = f"{file.name} has {name} out of bounds: {flat[row, column]:g} in {place(row)}, where the environment"
        if self.counted:
            raise DatasetsError(f"{said} has {self._choices}")
        ends = f"{self.low[column]:g} to {self.high[column]:g}"
        raise RetryableError(f"{said} takes {ends}; --clip-actions clips them")

    @property
    def _choices(self) -> str:
        return f"the choices {self.low[0]:g} to {self.high[0]:g}"
