"""Text for people: aligned tables, numbers, times, colour on a terminal only; and JSON for programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import click

from gym_gui.services.run_words import (
    MISSING,
    ago,
    compact,
    counted,
    duration,
    ordinal,
    quantity,
    size,
)
from mosaic_protocol.plain_text import one_line, visible

# Shared with others; here they are where the command line looks for them.
__all__ = ["MISSING", "ago", "compact", "counted", "duration", "one_line", "ordinal", "quantity", "size"]

_GAP = "  "
_NARROWEST = 8
_PAINTED = frozenset({"STATE", "STATUS"})
_COLORS = {
    "completed": "green",
    "ok": "green",
    "ready": "green",
    "training": "cyan",
    "playing": "cyan",
    "queued": "blue",
    "paused": "yellow",
    "pausing": "yellow",
    "resuming": "yellow",
    "stopping": "yellow",
    "warn": "yellow",
    "canceled": "yellow",
    "timed out": "red",
    "failed": "red",
    "fail": "red",
    "lost": "red",
    "damaged": "red",
}


def echo_json(data: Any) -> None:
    """One JSON document on stdout. Values that are not finite must have been replaced before."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    if not can_write(text):
        text = json.dumps(data, indent=2, allow_nan=False)
    click.echo(text)


def can_write(text: str) -> bool:
    """Whether stdout has every character of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# ---- the terminal ------------------------------------------------------------------------------------------------


def is_terminal() -> bool:
    """Whether stdout is a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def uses_color() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR")


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size().columns)


def painted(text: str, word: str | None = None) -> str:
    """Text in the colour of a state, an outcome or a status; plain where colour is not wanted."""
    color = _COLORS.get((word if word is not None else text).strip())
    return click.style(text, fg=color) if color and uses_color() else text


def dimmed(text: str) -> str:
    return click.style(text, dim=True) if uses_color() else text


# ---- times ------------------------------------------------------------------------------------------------------


def moment(wall_time: float) -> str:
    """A moment in local time with how long it is past."""
    if not wall_time:
        return MISSING
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(wall_time))} ({ago(wall_time)})"


# ---- layout ------------------------------------------------------------------------------------------------------


Shorter: TypeAlias = tuple[str, Sequence[str] | None]
"""A column, and the cells that say its most important in less room; None leaves the column out."""


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[str] = frozenset(),
    shorter: Sequence[Shorter] = (),
    give_way: str = "",
    in_the_middle: bool = False,
    width: int | None = None,
) -> str:
    """Aligned columns, the headers above them. Columns in ``right`` are flushed right.

    Where the table is wider than ``width`` (by default the terminal's; unlimited elsewhere) ``shorter`` is applied, one
    after the other and no more than needed; then the column ``give_way`` is cut, ``in_the_middle`` where the end of
    its texts tells them apart.
    """
    if width is None and is_terminal():
        width = terminal_width()
    columns = {header: [row[index] for row in rows] for index, header in enumerate(headers)}
    if width is not None:
        _shorten(columns, shorter, width)
    widths = _widths(columns)
    if width is not None and give_way:
        too_much = max(0, _total(widths) - width)
        widths[give_way] = min(widths[give_way], max(_NARROWEST, widths[give_way] - too_much))
    cut_as = cut_in_the_middle if in_the_middle else cut
    shapes = [_Column(room, header in right, header in _PAINTED, cut_as) for header, room in widths.items()]
    plain = [replace(shape, painted=False) for shape in shapes]
    lines = [dimmed(_row(list(columns), plain)), *(_row(row, shapes) for row in zip(*columns.values(), strict=True))]
    return "\n".join(line.rstrip() for line in lines)


def _shorten(columns: dict[str, list[str]], shorter: Sequence[Shorter], width: int) -> None:
    for header, cells_of_column in shorter:
        if _total(_widths(columns)) <= width:
            return
        if cells_of_column is None:
            del columns[header]
        else:
            columns[header] = list(cells_of_column)


def _widths(columns: dict[str, list[str]]) -> dict[str, int]:
    return {header: max(map(cells, [header, *texts])) for header, texts in columns.items()}


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


@dataclass(frozen=True)
class _Column:
    width: int
    right: bool
    painted: bool
    cut: Callable[[str, int], str]

    def cell(self, text: str) -> str:
        shown = self.cut(text, self.width)
        blanks = " " * (self.width - cells(shown))
        if self.painted:
            shown = painted(shown, text.partition(" (")[0])
        return blanks + shown if self.right else shown + blanks


def _row(texts: Sequence[str], columns: Sequence[_Column]) -> str:
    return _GAP.join(column.cell(text) for column, text in zip(columns, texts, strict=True))


def pairs(entries: Sequence[tuple[str, str]], indent: str = "  ") -> str:
    """``label  value`` lines with the values aligned; a value of several lines, or one that is too wide for the
    terminal, hangs below itself."""
    shown = [(visible(label), value) for label, value in entries]  # a label may be a name that a script made up
    room = max(len(label) for label, _ in shown)
    column = len(indent) + room + len(_GAP)
    return "\n".join(f"{indent}{dimmed(label.ljust(room))}{_GAP}{hanging(value, column)}" for label, value in shown)


def hanging(text: str, column: int = 0, after: str = "", width: int | None = None) -> str:
    """Text that begins at a column of the terminal, wrapped between words; further lines begin there, too, and then
    with ``after``. A word that is too long (a path, mostly) stays whole. Nothing is wrapped where there is no terminal.
    """
    if width is None and is_terminal():
        width = terminal_width()
    lines = text.splitlines() or [""]
    if width is not None:
        room = max(_NARROWEST, width - column)
        lines = [part for line in lines for part in (_words_within(line, room, after) or [""])]
    return ("\n" + " " * column).join(lines)


def _words_within(line: str, room: int, after: str) -> list[str]:
    lines, current = [], ""
    for word in line.split(" "):
        if current.strip() and cells(f"{current} {word}") > room:
            lines.append(current)
            current = after + word
        else:
            current = f"{current} {word}" if current else word
    return [one.rstrip() for one in (*lines, current)]


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(mark) for mark in text)


def _columns(mark: str) -> int:
    if unicodedata.combining(mark):
        return 0
    return 2 if unicodedata.east_asian_width(mark) in ("W", "F") else 1


def cut(text: str, room: int) -> str:
    """A text that fits, with "…" where it was cut."""
    if cells(text) <= room:
        return text
    shown = ""
    for mark in text:
        if cells(shown + mark) >= room:
            break
        shown += mark
    return shown + "…"


def cut_in_the_middle(text: str, room: int) -> str:
    """The same for a name, whose end tells it apart: ``ppo-cart…-v1-s3``."""
    if cells(text) <= room:
        return text
    begin = cut(text, (room + 1) // 2)
    rest, end = room - cells(begin), ""
    for mark in reversed(text):
        if cells(mark + end) > rest:
            break
        end = mark + end
    return begin + end
