"""Where a file is wrong, as its worker said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a file, and where; line and column are counted from 1."""

    file: str
    line: int
    column: int
    what: str
