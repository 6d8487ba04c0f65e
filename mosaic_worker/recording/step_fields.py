"""How an observation or an action gets into the columns of a chunk.

What fits columns is decided from the values themselves, not from a space: wrappers, policies and people do not always
keep to it, and what was seen is what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mosaic_protocol.steps.chunk import LEAF
from mosaic_protocol.steps.columns import Column, Path, has_column

_INT64 = np.iinfo(np.int64)
_PLAIN: dict[type, str] = {bool: "b1", int: "i8", float: "f8"}
MOST_LEAVES = 200
"""A value of more parts goes onto the heap in one piece."""
_LONGEST_KEY, _DEEPEST = 64, 10
"""So does a part of a dictionary whose places would take more room than what stands in them."""
MOST_OBSERVATION_BYTES = 1024 * 1024 + 4096
MOST_ACTION_BYTES = 64 * 1024
"""What the columns of one step may take. A leaf beyond goes onto the heap, and is refused there if it is too large: a
step has to fit into one record."""


class Field:
    """One leaf with a column: tells at a glance whether a value fits, and writes it."""

    def __init__(self, column: Column, view: Any, value: Any) -> None:
        self.column = column
        self._view = view
        self._type = type(value)
        self._dtype = value.dtype if isinstance(value, np.ndarray) else None
        self._shape = value.shape if isinstance(value, np.ndarray) else None

    def fits(self, value: Any) -> bool:
        if type(value) is not self._type or (type(value) is int and not _INT64.min <= value <= _INT64.max):
            return False
        return self._dtype is None or (value.dtype == self._dtype and value.shape == self._shape)

    def write(self, row: int, value: Any) -> None:
        self._view[row] = value


def leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The parts of a value, each with its place. Dictionaries with other keys than short text stay whole."""
    if len(path) > _DEEPEST:
        yield path, value
    elif isinstance(value, dict) and value and all(type(key) is str and len(key) <= _LONGEST_KEY for key in value):
        for key, inner in value.items():
            yield from leaves((*path, key), inner)
    elif isinstance(value, tuple) and value:
        for number, inner in enumerate(value):
            yield from leaves((*path, number), inner)
    else:
        yield path, value


def column_for(path: Path, value: Any) -> Column | None:
    """The column that a leaf fits, or None when it belongs onto the heap."""
    if isinstance(value, np.ndarray | np.generic):
        kind = value.dtype.str.lstrip("<>|=")
        return Column(path, kind, value.shape) if has_column(kind) else None
    kind = _PLAIN.get(type(value), "")
    if not kind or (kind == "i8" and not _INT64.min <= value <= _INT64.max):
        return None
    return Column(path, kind)


class Taker:
    """Takes values of one field of a step apart, and knows the columns that they had last."""

    def __init__(self, name: str, most_bytes: int) -> None:
        """``most_bytes`` of a value stand in columns."""
        self.name = name
        self._most_bytes = most_bytes
        self.columns: tuple[Column, ...] = ()
        self._single: Field | None = None
        self._fields: list[Field] = []

    def attach(self, views: dict[Path, Any], value: Any) -> None:
        """Write into these views from now on; ``value`` is the first that will come."""
        parts = self._sorted(value)[0]
        self.columns = tuple(column for column, _ in parts)
        self._fields = [Field(column, views[column.path], part) for column, part in parts]
        alone = len(self._fields) == 1 and self.columns[0].path == (self.name,)
        self._single = self._fields[0] if alone else None

    def columns_of(self, value: Any) -> tuple[Column, ...]:
        """The columns that a value needs."""
        return tuple(column for column, _ in self._sorted(value)[0])

    def detach(self) -> None:
        """Let the views go: what they look at is about to end."""
        self._single, self._fields = None, []

    @property
    def is_single(self) -> bool:
        """Whether values are one leaf with a column, which is the usual case and the fast one."""
        return self._single is not None

    def fits(self, value: Any) -> bool:
        """Whether a value is of the very kind that came last. False asks for :meth:`columns_of`."""
        single = self._single
        return single is not None and single.fits(value)

    def leaves_beside(self, value: Any) -> list[tuple[str, Any]]:
        """Heap entries for the leaves that fit no column."""
        return [(LEAF, [path, part]) for path, part in self._sorted(value)[1]]

    def write(self, row: int, value: Any) -> None:
        """Write the value into its columns."""
        if self._single is not None:
            self._single.write(row, value)
            return
        for field, (_, part) in zip(self._fields, self._sorted(value)[0], strict=True):
            field.write(row, part)

    def _sorted(self, value: Any) -> tuple[list[tuple[Column, Any]], list[tuple[Path, Any]]]:
        """The parts of a value that have a column, and those that belong onto the heap."""
        in_columns: list[tuple[Column, Any]] = []
        beside: list[tuple[Path, Any]] = []
        room = self._most_bytes
        for path, part in self._parts(value):
            column = column_for(path, part)
            size = getattr(part, "nbytes", 8)
            if column is None or size > room:
                beside.append((path, part))
            else:
                in_columns.append((column, part))
                room -= size
        return in_columns, beside

    def _parts(self, value: Any) -> list[tuple[Path, Any]]:
        if value is None:
            return []
        parts = list(leaves((self.name,), value))
        return parts if len(parts) <= MOST_LEAVES else [((self.name,), value)]
