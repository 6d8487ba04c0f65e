"""A drawing as PNG, by Pillow. Shapes are drawn larger and made smaller, which smooths their edges; texts are drawn
last and at their size, which keeps them sharp."""

from __future__ import annotations

import io
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_gui.services.charts.drawing import LIGHT, Area, Dot, Drawing, Line, Shape, Theme, Words
from mosaic_protocol.plain_text import one_line

if TYPE_CHECKING:
    from PIL import Image

INSTALL = "python -m mosaic_worker.extras --set charts"
SCALE = 2
"""Pixels for each unit of a drawing: sharp on paper and on dense screens."""
_FINER = 2
_THIN = 6
"""Pixels of the larger picture."""
_CLOSE = 500
"""Points of a line from which on they are closer than a line is wide."""
_FONTS = {
    False: ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf"),
    True: ("DejaVuSans-Bold.ttf", "LiberationSans-Bold.ttf", "Arial Bold.ttf"),
}
_FAMILY_SCALE = 0.93
"""DejaVu is wider than what browsers use."""


class NoPngError(Exception):
    """PNG cannot be written here; the message is a sentence for a person."""


def require_png() -> None:
    """Raises NoPngError."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        sentence = f"PNG needs Pillow, which is not installed here: `{INSTALL}` installs it; .svg needs nothing"
        raise NoPngError(sentence) from error


def document(drawing: Drawing, theme: Theme = LIGHT) -> bytes:
    """Raises NoPngError."""
    require_png()
    from PIL import Image, ImageDraw

    size = (round(drawing.width * SCALE), round(drawing.height * SCALE))
    canvas = _Canvas(Image.new("RGB", (size[0] * _FINER, size[1] * _FINER), theme["paper"]), theme)
    for shape in drawing.shapes:
        canvas.draw(shape)
    picture = canvas.image.resize(size, Image.Resampling.BOX)
    pen = ImageDraw.Draw(picture)
    for shape in drawing.shapes:
        if isinstance(shape, Words):
            font = _font(round(shape.size * SCALE * _FAMILY_SCALE), shape.bold)
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            place = (shape.x * SCALE, shape.y * SCALE)
            pen.text(place, one_line(shape.text), fill=theme[shape.colour], font=font, anchor=anchor)
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=4, dpi=(SCALE * 96, SCALE * 96))
    return file.getvalue()


@lru_cache
def _font(size: int, bold: bool) -> Any:
    from PIL import ImageFont

    for name in _FONTS[bold]:
        with suppress(OSError):
            return ImageFont.truetype(name, size)
    return ImageFont.load_default(size)


class _Canvas:
    def __init__(self, image: Image.Image, theme: Theme) -> None:
        from PIL import ImageDraw

        self.image, self._theme, self._scale = image, theme, SCALE * _FINER
        self._pen = ImageDraw.Draw(image)

    def draw(self, shape: Shape) -> None:
        match shape:
            case Line():
                self._line(shape)
            case Area():
                self._area(shape)
            case Dot():
                self._dot(shape)

    def _line(self, line: Line) -> None:
        width = max(1, round(line.width * self._scale))
        strokes = [stroke for part in _parts(line) for stroke in _dashed(part * self._scale, line.dash, self._scale)]
        _strokes(self._pen, strokes, width, self._faint(line.colour, line.opacity))

    def _dot(self, dot: Dot) -> None:
        def disc(pen: Any, radius: float, fill: Any) -> None:
            x, y, reach = dot.x * self._scale, dot.y * self._scale, radius * self._scale
            pen.ellipse((x - reach, y - reach, x + reach, y + reach), fill=fill)

        if dot.outline:
            disc(self._pen, dot.radius + 0.5, self._theme["paper"])
        disc(self._pen, dot.radius, self._faint(dot.colour, dot.opacity))

    def _area(self, area: Area) -> None:
        """Laid over what is there, through a mask no larger than it is."""
        from PIL import Image, ImageDraw

        points = area.points[np.isfinite(area.points).all(axis=1)] * self._scale
        if len(points) < 3:
            return
        corner, far = np.floor(points.min(axis=0)).astype(int), np.ceil(points.max(axis=0)).astype(int) + 1
        mask = Image.new("L", tuple((far - corner).tolist()), 0)
        ImageDraw.Draw(mask).polygon(
            [tuple(point) for point in (points - corner).tolist()], fill=round(255 * area.opacity)
        )
        self.image.paste(self._theme[area.colour], (*corner.tolist(), *far.tolist()), mask)

    def _faint(self, colour: str, opacity: float) -> str:
        """What a colour of that opacity looks like on paper: thin lines are too many to be laid over each other."""
        channels = zip(_channels(self._theme[colour]), _channels(self._theme["paper"]), strict=True)
        return "#" + "".join(f"{round(opacity * ink + (1 - opacity) * paper):02x}" for ink, paper in channels)


def _channels(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def _parts(line: Line) -> list[Any]:
    """The stretches between points that are no numbers."""
    known = np.isfinite(line.points).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    return [line.points[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True)]


def _dashed(points: Any, dash: str, scale: float) -> list[Any]:
    """A line in pieces, as SVG's dash arrays mean it."""
    if not dash or len(points) < 2:
        return [points]
    lengths = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))))
    pattern, place, found = [float(one) * scale for one in dash.split()], 0.0, []
    turn = 0
    while place < lengths[-1]:
        end = place + pattern[turn % len(pattern)]
        if turn % 2 == 0:
            inner = points[(lengths > place) & (lengths < end)]
            ends = [
                [np.interp(at, lengths, points[:, axis]) for axis in (0, 1)] for at in (place, min(end, lengths[-1]))
            ]
            found.append(np.array([ends[0], *inner.tolist(), ends[1]]))
        place, turn = end, turn + 1
    return found


def _strokes(pen: Any, strokes: list[Any], width: int, fill: Any) -> None:
    for points in strokes:
        if len(points) > 1:
            # Pillow draws each joint in Python; on thin lines, and where points are close, nobody sees them.
            joint = "curve" if width > _THIN and len(points) < _CLOSE else None
            pen.line([tuple(point) for point in points.tolist()], fill=fill, width=width, joint=joint)
