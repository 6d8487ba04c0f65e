"""Pictures for a model: as PNG where it sees, as characters where it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.png import as_png, data_url

_SHADES = " .:-=+*#%@"


def as_picture(values: Any) -> NDArray[np.uint8] | None:
    """An array that is a picture (height, width) or (height, width, 3), else None."""
    array = np.asarray(values)
    is_picture = array.dtype == np.uint8 and array.ndim in (2, 3) and min(array.shape[:2]) >= 8
    if not is_picture or (array.ndim == 3 and array.shape[2] not in (1, 3)):
        return None
    return array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array


def as_characters(picture: NDArray[np.uint8], columns: int = 40) -> str:
    """The picture by the brightness of its parts. A cell is twice as high as it is wide."""
    grey = picture if picture.ndim == 2 else (picture @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
    height, width = grey.shape
    columns = min(columns, width)
    rows = max(1, min(height, round(height / width * columns / 2)))
    down, across = (
        np.linspace(0, size, parts + 1).astype(int)[:-1] for size, parts in ((height, rows), (width, columns))
    )
    # The brightest point of a cell: a ball of two pixels is not to be lost in its mean.
    cells = np.maximum.reduceat(np.maximum.reduceat(grey, down, axis=0), across, axis=1)
    lowest, highest = int(cells.min()), int(cells.max())
    scaled = (cells.astype(int) - lowest) * (len(_SHADES) - 1) // max(highest - lowest, 1)
    return "\n".join("".join(_SHADES[one] for one in row).rstrip() for row in scaled)


def as_data_url(picture: NDArray[np.uint8]) -> str:
    height, width = picture.shape[:2]
    return data_url(as_png(width, height, picture.tobytes()))
