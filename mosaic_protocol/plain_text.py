"""Text of others, fit for a terminal or a message: nothing in it moves the cursor, writes the clipboard or turns the
reading direction round.

Scripts, files and names may hold any character, and a terminal obeys many of them. Three answers: :func:`one_line` for
names and sentences, :func:`clean_line` for what a script printed, :func:`visible` where nothing may get lost.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # titles, links, the clipboard and other strings
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_LINE_BREAKS = [0x2028, 0x2029]
_OBEYED = [*_CONTROLS, *_DIRECTIONS, *_LINE_BREAKS]
"""What a terminal or a text view may act on; not the tabulator and the line feed."""

_LEFT_OUT = dict.fromkeys(_OBEYED)
_WRITTEN_OUT = {code: f"\\u{code:04x}" for code in _OBEYED}


def one_line(text: str) -> str:
    """A name or a sentence without line breaks and escape sequences; what cannot be printed becomes a blank."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())


def clean_line(line: str) -> str:
    """A line as a terminal would leave it: what a carriage return overwrote is gone, escape sequences too."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    return line.translate(_LEFT_OUT)


def last_line(text: str, most: int = 300) -> str:
    """The last line that is not blank, cut to ``most`` characters: what a program said when it failed; "" for none."""
    return next((line.strip()[:most] for line in reversed(text.splitlines()) if line.strip()), "")


def visible(text: str) -> str:
    """The text with every character that would be obeyed written out: ``\\u001b``, as JSON writes it."""
    return text.translate(_WRITTEN_OUT)
