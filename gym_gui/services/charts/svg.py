"""A drawing as SVG: a file of its own with fixed colours, or a part of a page that has the colours."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from gym_gui.services.charts.drawing import LIGHT, Area, Array, Dot, Drawing, Line, Shape, Theme, Words
from mosaic_protocol.plain_text import one_line

_FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"


def document(drawing: Drawing, theme: Theme = LIGHT) -> str:
    """A whole SVG file. Nothing in it runs or loads."""
    body = "\n".join(_Pen(theme).drawn(shape) for shape in drawing.shapes)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(drawing.width)}" height="{_n(drawing.height)}" '
        f'viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" font-family="{_FONT}" role="img">\n'
        f"<title>{_text(drawing.title)}</title>\n"
        f'<rect width="100%" height="100%" fill="{theme["paper"]}"/>\n{body}\n</svg>\n'
    )


def fragment(drawing: Drawing) -> str:
    """A part of a page. Colours are classes (``s-c0`` strokes, ``f-c0`` fills): the page says what they are."""
    body = "".join(_Pen(None).drawn(shape) for shape in drawing.shapes)
    frame, data = drawing.frame, ""
    if frame is not None:
        edges = (frame.left, frame.right, frame.top, frame.bottom, *frame.x_range, *frame.y_range)
        data = f' data-frame="{" ".join(f"{float(one):.6g}" for one in edges)}"'
    return (
        f'<svg viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" role="img" '
        f'aria-label="{_text(drawing.title)}"{data}>{body}</svg>'
    )


class _Pen:
    def __init__(self, theme: Theme | None) -> None:
        self._theme = theme

    def drawn(self, shape: Shape) -> str:
        match shape:
            case Line():
                return self._line(shape)
            case Area():
                paint = f'{self._paint("fill", shape.colour)} fill-opacity="{_n(shape.opacity)}"'
                return f'<path d="{_path(shape.points)}Z"{paint}{_marks(shape)}/>'
            case Dot():
                return self._dot(shape)
            case Words():
                bold = ' font-weight="600"' if shape.bold else ""
                anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
                place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}"'
                paint = f"{self._paint('fill', shape.colour)}{_marks(shape)}"
                return f"<text {place}{anchor}{bold}{paint}>{_text(shape.text)}</text>"

    def _line(self, line: Line) -> str:
        parts = [f'<path d="{_path(line.points)}" fill="none"', self._paint("stroke", line.colour)]
        parts.append(f' stroke-width="{_n(line.width)}" stroke-linejoin="round"')
        if line.opacity < 1:
            parts.append(f' stroke-opacity="{_n(line.opacity)}"')
        if line.dash:
            parts.append(f' stroke-dasharray="{line.dash}"')
        return "".join([*parts, _marks(line), "/>"])

    def _dot(self, dot: Dot) -> str:
        hint = f"<title>{_text(dot.hint)}</title>" if dot.hint else ""
        edge = f'{self._paint("stroke", "paper")} stroke-width="1"' if dot.outline else ""
        place = f'cx="{_n(dot.x)}" cy="{_n(dot.y)}" r="{_n(dot.radius)}"'
        faint = f' fill-opacity="{_n(dot.opacity)}"' if dot.opacity < 1 else ""
        return f"<circle {place}{self._paint('fill', dot.colour)}{faint}{edge}{_marks(dot)}>{hint}</circle>"

    def _paint(self, what: str, colour: str) -> str:
        if self._theme is not None:
            return f' {what}="{self._theme[colour]}"'
        return f' data-{what}="{colour}"'


def _marks(shape: Shape) -> str:
    series = "" if shape.series is None else f' data-series="{shape.series}"'
    kind = getattr(shape, "kind", "")
    return f'{series} data-kind="{kind}"' if kind else series


def _path(points: Array) -> str:
    """Straight lines; a point that is not a number lifts the pen."""
    parts, is_down = [], False
    for x, y in np.round(points, 1).tolist():
        known = math.isfinite(x) and math.isfinite(y)
        if known:
            parts.append(f"{'L' if is_down else 'M'}{_n(x)} {_n(y)}")
        is_down = known
    return "".join(parts)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    """Names come from people: neither markup nor control characters, which no XML may hold."""
    return escape(one_line(text))
