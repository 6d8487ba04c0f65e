"""A toy-text environment as a grid: the characters that it draws for a terminal, one to a cell, in their colours."""

from __future__ import annotations

import re
from dataclasses import dataclass

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.ui.theme import Theme, Themes, blended
from mosaic_protocol.plain_text import visible

_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")
_LAST_ACTION = re.compile(r"^\s*\([\w ]*\)\s*$")
"""FrozenLake and Taxi write the last action on a line of its own; it is no part of the grid."""
_TILES = {"S": "raised", "F": "accent", "H": "idle", "G": "good"}
_STRENGTHS = {
    "dark": {"S": 1.0, "F": 0.24, "H": 0.0, "G": 0.55},
    "light": {"S": 1.0, "F": 0.24, "H": 0.55, "G": 0.55},
}
"""How much of a tile's colour is seen. A hole is darker than the ice around it in either look."""
_MOST_CELL = 84.0


@dataclass(frozen=True)
class Cell:
    """One character. ``ground`` is the number of its background's colour in a terminal, None for the usual one."""

    text: str
    ground: int | None = None
    ink: int | None = None


def cells_of(text: str) -> list[list[Cell]]:
    """The rows of a drawing, without the line that only says the last action."""
    rows = [_row(line) for line in text.rstrip("\n").split("\n")]
    kept = [row for row in rows if not _LAST_ACTION.match("".join(cell.text for cell in row))]
    while kept and not "".join(cell.text for cell in kept[0]).strip():
        kept.pop(0)
    return kept


def is_map(rows: list[list[Cell]]) -> bool:
    """Whether this is a map of tiles (FrozenLake), which can be drawn better than with letters."""
    return bool(rows) and all(cell.text in _TILES for row in rows for cell in row)


def _row(line: str) -> list[Cell]:
    cells: list[Cell] = []
    ground: int | None = None
    ink: int | None = None
    for number, part in enumerate(_COLOUR.split(line)):
        if number % 2:
            for code in (int(word) for word in part.split(";") if word.isdigit()):
                if 40 <= code <= 47:
                    ground = code - 40
                elif 30 <= code <= 37:
                    ink = code - 30
                elif code == 0:
                    ground = ink = None
        else:
            cells += [Cell(visible(character), ground, ink) for character in part]
    return cells


class GridView(QWidget):
    """Shows the text of the newest state; paints when it is another one."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._text = ""
        self.rows: list[list[Cell]] = []
        self.paints = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(self.tr("Environment as a grid"))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(600, 400)

    def show_text(self, text: str) -> None:
        if text != self._text:
            self._text, self.rows = text, cells_of(text)
            self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.fillRect(self.rect(), theme.colour("window"))
        if not self.rows:
            return
        self.paints += 1
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        across, down = max(map(len, self.rows)), len(self.rows)
        tiled = is_map(self.rows)
        # Characters are higher than wide; tiles are not.
        shape = 1.0 if tiled else 1.7
        wide = min(self.width() / across, self.height() / (down * shape), _MOST_CELL)
        high = wide * shape
        left, top = (self.width() - across * wide) / 2, (self.height() - down * high) / 2
        font = QFont("monospace") if not tiled else QFont(self.font())
        font.setPixelSize(max(6, int(high * (0.36 if tiled else 0.7))))
        painter.setFont(font)
        for y, row in enumerate(self.rows):
            for x, cell in enumerate(row):
                room = QRectF(left + x * wide, top + y * high, wide, high)
                (_paint_tile if tiled else _paint_letter)(painter, room, cell, theme)


def _paint_tile(painter: QPainter, room: QRectF, cell: Cell, theme: Theme) -> None:
    inside = room.adjusted(2, 2, -2, -2)
    painter.setPen(theme.colour("border"))
    painter.setBrush(
        blended(theme.colour(_TILES[cell.text]), theme.colour("window"), _STRENGTHS[theme.name][cell.text])
    )
    painter.drawRoundedRect(inside, 6, 6)
    if cell.text == "H":
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(theme.colour("strong_border"))
        painter.drawEllipse(inside.adjusted(6, 6, -6, -6))
    elif cell.text in "SG":
        painter.setPen(theme.colour("text"))
        painter.drawText(inside, Qt.AlignmentFlag.AlignCenter, cell.text)
    if cell.ground is not None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.curve(1))
        size = inside.width() * 0.44
        painter.drawEllipse(QRectF(inside.center().x() - size / 2, inside.center().y() - size / 2, size, size))


def _paint_letter(painter: QPainter, room: QRectF, cell: Cell, theme: Theme) -> None:
    if cell.ground is not None:
        painter.fillRect(room, blended(_terminal_colour(cell.ground, theme), theme.colour("window"), 0.7))
    painter.setPen(theme.colour("text") if cell.ink is None else _terminal_colour(cell.ink, theme))
    painter.drawText(room, Qt.AlignmentFlag.AlignCenter, cell.text)


def _terminal_colour(number: int, theme: Theme) -> QColor:
    """Black, red, green, yellow, blue, magenta, cyan, white as this look has them."""
    names = ("muted", "bad", "good", "warning", "accent")
    return theme.colour(names[number]) if number < len(names) else theme.curve((3, 5, 6)[number - len(names)])
