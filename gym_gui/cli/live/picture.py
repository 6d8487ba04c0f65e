"""A picture in characters: each is the upper half of one pixel in its own colour on the colour of the lower one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mosaic_protocol.live.frames import Frame

_HALF = "▀"
_CUBE = (0, 95, 135, 175, 215, 255)
"""What a terminal of 256 colours has of each of red, green and blue."""


def has_all_colours(environ: Mapping[str, str]) -> bool:
    return environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")


def half_blocks(frame: Frame, columns: int, lines: int, *, all_colours: bool) -> list[str]:
    """The picture as large as it fits into so many columns and lines, its proportions kept."""
    if columns < 1 or lines < 1 or not frame.width or not frame.height:
        return []
    scale = min(columns / frame.width, 2 * lines / frame.height, 1.0)
    wide, high = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    rows = [_row(frame, row, wide, high) for row in range(high)]
    if high % 2:
        rows.append([(0, 0, 0)] * wide)
    colour = _exact if all_colours else _nearest
    return [_line(rows[at], rows[at + 1], colour) for at in range(0, len(rows), 2)]


def _row(frame: Frame, row: int, wide: int, high: int) -> list[tuple[int, int, int]]:
    """Pixels of one row of the small picture: each the mean of four of the large one."""
    pixels, stride = frame.pixels, frame.width * 3
    ys = [int((row + part) * frame.height / high) * stride for part in (0.25, 0.75)]
    found = []
    for column in range(wide):
        xs = [int((column + part) * frame.width / wide) * 3 for part in (0.25, 0.75)]
        red = green = blue = 0
        for y in ys:
            for x in xs:
                at = y + x
                red, green, blue = red + pixels[at], green + pixels[at + 1], blue + pixels[at + 2]
        found.append((red >> 2, green >> 2, blue >> 2))
    return found


def _line(
    upper: list[tuple[int, int, int]],
    lower: list[tuple[int, int, int]],
    colour: Callable[[tuple[int, int, int]], str],
) -> str:
    """Colours are written only where they change."""
    parts, before = [], ("", "")
    for above, below in zip(upper, lower, strict=True):
        now = (colour(above), colour(below))
        if now != before:
            parts.append(f"\x1b[38;{now[0]};48;{now[1]}m")
            before = now
        parts.append(_HALF)
    return "".join(parts) + "\x1b[0m"


def _exact(colour: tuple[int, int, int]) -> str:
    return "2;{};{};{}".format(*colour)


def _nearest(colour: tuple[int, int, int]) -> str:
    red, green, blue = (min(range(6), key=lambda at, part=part: abs(_CUBE[at] - part)) for part in colour)  # type: ignore[misc]
    return f"5;{16 + 36 * red + 6 * green + blue}"
