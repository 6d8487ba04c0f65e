"""Several seats of a session beside each other in a terminal, or below each other where it is narrow."""

from __future__ import annotations

import re
from itertools import zip_longest

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NARROWEST = 24
"""Columns that a seat needs."""


def side_by_side(seats: list[list[str]], columns: int) -> list[str]:
    """The lines of each seat, put together. Colours take no columns; a line that is too long is cut."""
    width = columns // len(seats) - 2
    if width < _NARROWEST:
        return [line for seat in seats for line in [*seat, ""]]
    return ["  ".join(_fitted(line or "", width) for line in row).rstrip() for row in zip_longest(*seats)]


def _fitted(line: str, width: int) -> str:
    """Exactly so many columns."""
    parts, taken, at = [], 0, 0
    for colour in [*_COLOURS.finditer(line), None]:
        text = line[at : colour.start() if colour else len(line)][: width - taken]
        parts += [text, colour.group() if colour else ""]
        taken += len(text)
        at = colour.end() if colour else len(line)
    return "".join(parts) + " " * (width - taken)
