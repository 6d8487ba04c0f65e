"""A picture as a list of shapes, which every format draws in its own way.

Colours are roles (``ink``, ``muted``, ``grid``, ``paper``, and ``c0`` to ``c7`` of the series), so that one picture can
be dark and light. A shape of a series carries its number: a page can hide all shapes of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

CURVES_DARK = ("#4c9aff", "#f5a623", "#3fb97c", "#c77dff", "#ef6461", "#2ec4d6", "#d9d26a", "#ff8fb1")
CURVES_LIGHT = ("#1f6fe0", "#d27c00", "#1c8a55", "#8a3ffc", "#c93a36", "#00838f", "#8a7a00", "#c2185b")
COLOURS = len(CURVES_LIGHT)
_DASHES = ("", "7 3", "2 3", "9 3 2 3")

Theme: TypeAlias = Mapping[str, str]
LIGHT: Theme = {
    "ink": "#1c2230",
    "muted": "#566073",
    "grid": "#e3e6ec",
    "axis": "#9aa3b2",
    "paper": "#ffffff",
    **{f"c{number}": colour for number, colour in enumerate(CURVES_LIGHT)},
}
DARK: Theme = {
    "ink": "#e3e7ee",
    "muted": "#a6b0c1",
    "grid": "#2f3541",
    "axis": "#5b6679",
    "paper": "#1b1e25",
    **{f"c{number}": colour for number, colour in enumerate(CURVES_DARK)},
}


def colour_of(series: int) -> str:
    return f"c{series % COLOURS}"


def dash_of(series: int) -> str:
    """The ninth series has the colour of the first, and another dash."""
    return _DASHES[series // COLOURS % len(_DASHES)]


@dataclass(frozen=True)
class Line:
    """Through points, one in each row."""

    points: Array
    colour: str
    width: float = 1.0
    opacity: float = 1.0
    dash: str = ""
    series: int | None = None
    kind: str = ""
    """What a page may show or hide apart: ``run``, ``raw``."""


@dataclass(frozen=True)
class Area:
    points: Array
    colour: str
    opacity: float
    series: int | None = None


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    radius: float
    colour: str
    opacity: float = 1.0
    hint: str = ""
    """What a page says of it under the pointer."""
    outline: bool = False
    """With an edge in the colour of the paper, so that dots on top of each other can be told apart."""
    series: int | None = None


@dataclass(frozen=True)
class Words:
    """A line of text; ``y`` is its baseline, ``anchor`` one of start, middle, end."""

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: str = "start"
    colour: str = "muted"
    bold: bool = False
    series: int | None = None


Shape: TypeAlias = Line | Area | Dot | Words


@dataclass(frozen=True)
class Frame:
    """Where in a picture the data of a line chart lie, for a page that shows values under the pointer."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: Array | float) -> Array | float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: Array | float) -> Array | float:
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)


@dataclass
class Drawing:
    width: float
    height: float
    title: str = ""
    """What it shows, for those who cannot see it."""
    shapes: list[Shape] = field(default_factory=list)
    frame: Frame | None = None


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About as wide as a text is: fonts differ, and nothing may depend on the last point of it."""
    wide = sum(map(_width, text))
    return size * wide * (1.06 if bold else 1.0)


def _width(mark: str) -> float:
    """Of a character, by the size of the font."""
    if ord(mark) > 0x2E7F or mark in "mwMW@%":
        return 1.0
    if mark in "iljtf.,:;'|!()[] ":
        return 0.36
    return 0.72 if mark.isupper() or mark in "<>+=~" else 0.62


def cut(text: str, room: float, size: float) -> str:
    """A text that is about as wide as there is room."""
    if text_width(text, size) <= room:
        return text
    while text and text_width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"
