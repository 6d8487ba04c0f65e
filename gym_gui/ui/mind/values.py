"""What an agent expects of its actions, arranged for a screen: as the grid that its world is, or as a table. No Qt.

Values come from a running agent over the live channel and may be anything: what does not fit a grid becomes a table,
and what fits neither is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mosaic_protocol.mind import ValueTable
from mosaic_protocol.plain_text import one_line

Side = Literal["left", "down", "right", "up"]
Kind = Literal["free", "start", "hole", "goal", "wall"]
SIDES: tuple[Side, ...] = ("left", "down", "right", "up")
_WORDS: dict[str, Side] = {
    "left": "left",
    "west": "left",
    "right": "right",
    "east": "right",
    "up": "up",
    "north": "up",
    "down": "down",
    "south": "down",
}
_KINDS: dict[str, Kind] = {"S": "start", "H": "hole", "C": "hole", "G": "goal", "W": "wall", "#": "wall"}
_EDGE = 0.02
"""The share of values at either end that the colours need not tell apart: one fall off a cliff is worth −100."""
_TIE = 1e-9


@dataclass(frozen=True)
class Cell:
    """One place of a grid. A place where an episode ends, and a wall, has no values."""

    state: int
    kind: Kind
    values: tuple[float, float, float, float] | None
    """In the order of :data:`SIDES`."""
    best: tuple[Side, ...] = ()
    """The side that promises most, or several that promise the same; empty where all do."""
    visits: int = 0


@dataclass(frozen=True)
class ValueGrid:
    columns: int
    rows: int
    cells: tuple[Cell, ...]
    """From the left and from above, as states are numbered."""
    agent: int | None

    def place(self, state: int) -> tuple[int, int]:
        """(column, row)"""
        return state % self.columns, state // self.columns


def grid_of(table: ValueTable) -> ValueGrid | None:
    """None for a world that is no grid, or whose actions are not the four directions."""
    sides = [_side(name) for name in table.actions]
    columns = len(table.cells[0]) if table.cells else 0
    is_even = columns > 0 and all(len(row) == columns for row in table.cells)
    if not is_even or sorted(filter(None, sides)) != sorted(SIDES) or len(sides) != len(SIDES):
        return None
    if len(table.values) != columns * len(table.cells) or any(len(row) != len(SIDES) for row in table.values):
        return None
    order = [sides.index(side) for side in SIDES]
    letters = "".join(table.cells)
    ends = frozenset(table.terminal)
    cells = tuple(_cell(table, state, letter, order, state in ends) for state, letter in enumerate(letters))
    return ValueGrid(columns, len(table.cells), cells, _within(table.state, len(cells)))


def _cell(table: ValueTable, state: int, letter: str, order: Sequence[int], is_end: bool) -> Cell:
    kind = _KINDS.get(letter.upper(), "free")
    visits = table.visits[state] if state < len(table.visits) else 0
    if is_end or kind == "wall":
        return Cell(state, "goal" if kind == "free" else kind, None, visits=visits)
    left, down, right, up = (table.values[state][place] for place in order)
    values = (left, down, right, up)
    return Cell(state, kind, values, tuple(SIDES[place] for place in best_of(values)), visits)


def _side(name: str) -> Side | None:
    words = name.lower().replace("_", " ").split()
    return _WORDS.get(words[-1]) if words else None


def _within(state: int | None, count: int) -> int | None:
    return state if state is not None and 0 <= state < count else None


def best_of(values: Sequence[float]) -> tuple[int, ...]:
    """The places of the highest value; none where all are the same, which is how an agent begins."""
    if not values or max(values) - min(values) <= _TIE:
        return ()
    high = max(values)
    return tuple(place for place, value in enumerate(values) if high - value <= _TIE)


# ---- a table -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shelves:
    """A row for each state, in several shelves beside each other so that all of them fit."""

    shelves: int
    rows: int
    """Of each shelf; the last one may have fewer."""
    actions: int
    wide: float
    high: float
    """Of one value."""
    gap: float

    @property
    def shelf_width(self) -> float:
        return self.wide * self.actions + self.gap

    def place(self, state: int) -> tuple[float, float]:
        """The upper left corner of a state's row."""
        return (state // self.rows) * self.shelf_width, (state % self.rows) * self.high

    def state_at(self, x: float, y: float) -> int | None:
        if x < 0 or y < 0 or self.high <= 0:
            return None
        shelf, inside = divmod(x, self.shelf_width)
        row = int(y // self.high)
        if shelf >= self.shelves or row >= self.rows or inside >= self.wide * self.actions:
            return None
        return int(shelf) * self.rows + row


MOST_WIDE, MOST_HIGH = 56.0, 20.0


def shelves_of(states: int, actions: int, width: float, height: float, gap: float = 10.0) -> Shelves:
    """The arrangement in which a value is largest."""
    best = Shelves(1, max(1, states), max(1, actions), 0.0, 0.0, gap)
    if states < 1 or actions < 1:
        return best
    for shelves in range(1, states + 1):
        rows = math.ceil(states / shelves)
        wide = min(MOST_WIDE, (width - (shelves - 1) * gap) / (shelves * actions))
        high = min(MOST_HIGH, height / rows)
        if wide <= 0:
            break
        if min(wide, 2 * high) > min(best.wide, 2 * best.high):
            best = Shelves(math.ceil(states / rows), rows, actions, wide, high, gap)
    return best


# ---- numbers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """From the least to the greatest value that colours tell apart."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        if self.high <= self.low:
            return 0.0
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def span_of(table: ValueTable) -> Span:
    ends = frozenset(table.terminal)
    found = sorted(_finite(value for state, row in enumerate(table.values) if state not in ends for value in row))
    if not found:
        return Span(0.0, 0.0)
    cut = int(len(found) * _EDGE)
    return Span(found[cut], found[-1 - cut])


def _finite(values: Iterable[float]) -> Iterator[float]:
    return (value for value in values if math.isfinite(value))


def short(value: float) -> str:
    """In at most five characters: ``.53``, ``1.0``, ``−12``."""
    if not math.isfinite(value):
        return "?"
    size = abs(value)
    if size >= 9999.5:
        text = f"{size:.0e}".replace("e+0", "e")
    elif size >= 9.95:
        text = f"{size:.0f}"
    elif size >= 0.995:
        text = f"{size:.1f}"
    else:
        text = f"{size:.2f}".removeprefix("0")
        text = "0" if text == ".00" else text
    return f"−{text}" if value < 0 and text != "0" else text


def reading(table: ValueTable, state: int) -> str:
    """Everything that is known of a state, in one line."""
    parts = [f"state {state}"]
    if state in table.terminal:
        parts.append("an episode ends here")
    elif state < len(table.values):
        row = table.values[state]
        best = best_of(row)
        for place, value in enumerate(row):
            name = one_line(table.actions[place]) if place < len(table.actions) else f"action {place}"
            parts.append(f"{name} {short(value)}{' (best)' if place in best else ''}")
    if state < len(table.visits):
        parts.append(f"visited {table.visits[state]:,} times")
    return " · ".join(parts)
