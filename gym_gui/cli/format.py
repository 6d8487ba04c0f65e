"""Text for people: aligned tables, numbers, times, colour on a terminal only; and JSON for programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from gym_gui.services.run_words import (
    MISSING,
    ago,
    counted,
    duration,
    ordinal,
    quantity,
    size,
)

# Shared with the cockpit; here they are where the command line looks for them.
__all__ = ["MISSING", "ago", "counted", "duration", "ordinal", "quantity", "size"]

_GAP = "  "
_NARROWEST = 8
_PAINTED = frozenset({"STATE", "STATUS"})
_COLORS = {
    "completed": "green",
    "ok": "green",
    "ready": "green",
    "training": "cyan",
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
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


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


def one_line(text: str) -> str:
    """Text of others without line breaks and escape sequences, which could rewrite the screen."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())


# ---- times ------------------------------------------------------------------------------------------------------


def moment(wall_time: float) -> str:
    """A moment in local time with how long it is past."""
    if not wall_time:
        return MISSING
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(wall_time))} ({ago(wall_time)})"


# ---- layout ------------------------------------------------------------------------------------------------------


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[str] = frozenset(),
    give_way: str = "",
    width: int | None = None,
) -> str:
    """Aligned columns, the headers above them. Columns in ``right`` are flushed right. Where the table is wider than
    ``width`` (by default the terminal's; unlimited elsewhere) the column ``give_way`` is cut."""
    if width is None and is_terminal():
        width = terminal_width()
    widths = [max(map(cells, column)) for column in zip(headers, *rows, strict=True)]
    if width is not None and give_way:
        index = headers.index(give_way)
        too_much = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        widths[index] = min(widths[index], max(_NARROWEST, widths[index] - max(0, too_much)))
    columns = [_Column(room, header in right, header in _PAINTED) for header, room in zip(headers, widths, strict=True)]
    plain = [replace(column, painted=False) for column in columns]
    lines = [dimmed(_row(headers, plain)), *(_row(row, columns) for row in rows)]
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class _Column:
    width: int
    right: bool
    painted: bool

    def cell(self, text: str) -> str:
        shown = cut(text, self.width)
        blanks = " " * (self.width - cells(shown))
        if self.painted:
            shown = painted(shown, text.partition(" (")[0])
        return blanks + shown if self.right else shown + blanks


def _row(texts: Sequence[str], columns: Sequence[_Column]) -> str:
    return _GAP.join(column.cell(text) for column, text in zip(columns, texts, strict=True))


def pairs(entries: Sequence[tuple[str, str]], indent: str = "  ") -> str:
    """``label  value`` lines with the values aligned; a value of several lines hangs below itself."""
    room = max(len(label) for label, _ in entries)
    lines = []
    for label, value in entries:
        hanging = "\n" + " " * (len(indent) + room + len(_GAP))
        lines.append(f"{indent}{dimmed(label.ljust(room))}{_GAP}{hanging.join(value.splitlines() or [''])}")
    return "\n".join(lines)


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
