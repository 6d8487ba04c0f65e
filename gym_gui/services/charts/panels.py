"""The kinds of chart: lines with bands, and rows of dots with intervals. Each becomes shapes in a rectangle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gym_gui.services.charts import scales
from gym_gui.services.charts.drawing import (
    Area,
    Array,
    Dot,
    Drawing,
    Frame,
    Line,
    Shape,
    Words,
    colour_of,
    cut,
    dash_of,
    text_width,
)
from gym_gui.services.charts.scales import Unit

_SMALL = 11.0
_CROWD = 30
"""With more dots than that in a row, those that share a place stand in ranks."""
_RANKS, _PITCH = 5, 4.4
"""How many of them stand above each other, and how far apart."""
_MOST_COLUMNS = 1200
"""Of a line with more points the lowest and the highest of each column are drawn: nobody sees a difference."""


@dataclass(frozen=True)
class Series:
    """One line. ``low`` and ``high`` are its band, not a number where there is none; ``faint`` are thin lines behind
    it, with a word that says what they are."""

    label: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    faint: Sequence[tuple[Array, Array]] = ()
    faint_kind: str = "run"
    stepped: bool = False


@dataclass(frozen=True)
class LinePanel:
    title: str
    series: Sequence[Series]
    x_title: str
    y_title: str = ""
    x_unit: Unit = Unit.PLAIN
    y_range: tuple[float, float] | None = None
    x_range: tuple[float, float] | None = None
    empty: str = "nothing to draw"


@dataclass(frozen=True)
class Row:
    """One line of a panel of dots: every single score, and the figure with its interval."""

    label: str
    value: float
    low: float | None
    high: float | None
    dots: Sequence[float] = ()
    hints: Sequence[str] = ()
    series: int = 0


@dataclass(frozen=True)
class DotPanel:
    title: str
    rows: Sequence[Row]
    x_title: str
    x_range: tuple[float, float] | None = None
    mark: float | None = None
    """A place to compare with, drawn as a dashed line."""


Panel = LinePanel | DotPanel


@dataclass
class Sheet:
    """Panels in columns below a heading, with a legend and a sentence at the end."""

    panels: Sequence[Panel]
    labels: Sequence[str] = field(default_factory=list)
    """Of the series, in the order of their colours, for the legend."""
    title: str = ""
    caption: Sequence[str] = ()
    columns: int = 1
    panel_width: float = 520.0
    panel_height: float = 320.0


def drawn(panel: Panel, width: float, height: float | None = None) -> Drawing:
    """One panel as a picture of its own, without a heading: a page has its own."""
    tall = height or height_of(panel)
    drawing = Drawing(width, tall, panel.title)
    if isinstance(panel, LinePanel):
        shapes, drawing.frame = _lines(panel, 0.0, 0.0, width, tall)
    else:
        shapes = _rows(panel, 0.0, 0.0, width, tall)
    drawing.shapes.extend(shapes)
    return drawing


def height_of(panel: Panel) -> float:
    return 320.0 if isinstance(panel, LinePanel) else 46.0 + 34.0 * len(panel.rows)


def arranged(sheet: Sheet) -> Drawing:
    """The whole sheet as one picture."""
    margin, gap = 20.0, 28.0
    width = 2 * margin + sheet.columns * sheet.panel_width + (sheet.columns - 1) * gap
    drawing = Drawing(width, 0.0, sheet.title or ", ".join(panel.title for panel in sheet.panels))
    y = margin
    if sheet.title:
        drawing.shapes.append(
            Words(margin, y + 16, cut(sheet.title, width - 2 * margin, 17), 17, colour="ink", bold=True)
        )
        y += 30
    legend, y = _legend(sheet.labels, margin, y, width - 2 * margin)
    drawing.shapes.extend(legend)
    for begin in range(0, len(sheet.panels), sheet.columns):
        line = sheet.panels[begin : begin + sheet.columns]
        tall = max(max(height_of(one), sheet.panel_height if isinstance(one, LinePanel) else 0.0) for one in line)
        for place, panel in enumerate(line):
            x = margin + place * (sheet.panel_width + gap)
            drawing.shapes.append(
                Words(x, y + 14, cut(panel.title, sheet.panel_width, 13), 13, colour="ink", bold=True)
            )
            shapes = (
                _lines(panel, x, y + 22, sheet.panel_width, tall)[0]
                if isinstance(panel, LinePanel)
                else _rows(panel, x, y + 22, sheet.panel_width, height_of(panel))
            )
            drawing.shapes.extend(shapes)
        y += tall + 22 + 18
    for sentence in sheet.caption:
        for part in wrapped(sentence, width - 2 * margin, _SMALL):
            drawing.shapes.append(Words(margin, y + 6, part, _SMALL))
            y += 15
        y += 3
    drawing.height = y + margin / 2
    return drawing


def wrapped(text: str, room: float, size: float) -> list[str]:
    """A sentence in lines of about that width."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return [cut(line, room, size) for line in lines]


def _legend(labels: Sequence[str], left: float, top: float, room: float) -> tuple[list[Shape], float]:
    if len(labels) < 1:
        return [], top
    shapes, x, y = list[Shape](), left, top + 8
    for number, label in enumerate(labels):
        shown = cut(label, room - 40, 12)
        wide = 26 + text_width(shown, 12) + 18
        if x + wide > left + room and x > left:
            x, y = left, y + 19
        key = np.array([[x, y], [x + 20, y]])
        shapes.append(Line(key, colour_of(number), 2.4, dash=dash_of(number)))
        shapes.append(Words(x + 26, y + 4, shown, 12, colour="ink"))
        x += wide
    return shapes, y + 20


# ---- lines -------------------------------------------------------------------------------------------------------


def _lines(panel: LinePanel, x: float, y: float, width: float, height: float) -> tuple[list[Shape], Frame]:
    x_range, y_range = panel.x_range or _x_range(panel.series), panel.y_range or _y_range(panel.series)
    marks = scales.ticks(*y_range, max(3, int(height / 40)))
    texts = scales.texts(marks)
    left = x + max([26.0, *(text_width(text, _SMALL) + 12 for text in texts)])
    top = y + (20 if panel.y_title else 8)
    frame = Frame(left, x + width - 8, top, y + height - 40, x_range, y_range)
    shapes: list[Shape] = []
    for mark, text in zip(marks, texts, strict=True):
        level = float(frame.y(mark))
        shapes.append(Line(np.array([[frame.left, level], [frame.right, level]]), "grid"))
        shapes.append(Words(frame.left - 7, level + 4, text, _SMALL, "end"))
    if panel.y_title:
        shapes.append(Words(x, y + 8, cut(panel.y_title, width, _SMALL), _SMALL))
    shapes += _x_axis(frame, panel.x_title, panel.x_unit)
    if not any(np.isfinite(one.y).any() for one in panel.series):
        shapes.append(Words((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2, panel.empty, 12, "middle"))
        return shapes, frame
    for number, one in enumerate(panel.series):
        for at, values in one.faint:
            points = _placed(frame, at, values)
            shapes.append(Line(points, colour_of(number), 1.0, 0.28, series=number, kind=one.faint_kind))
    for number, one in enumerate(panel.series):
        shapes += _bands(frame, one, number)
    for number, one in enumerate(panel.series):
        points = _placed(frame, *_steps(one, one.y))
        shapes.append(Line(points, colour_of(number), 2.2, dash=dash_of(number), series=number))
        if len(points) == 1 and np.isfinite(points).all():  # of which a line shows nothing
            at, level = points[0].tolist()
            shapes.append(Dot(at, level, 3.0, colour_of(number), series=number))
    return shapes, frame


def _x_axis(frame: Frame, title: str, unit: Unit) -> Iterable[Shape]:
    room = frame.right - frame.left
    places = scales.ticks(*frame.x_range, max(2, int(room / 70)), unit)
    yield Line(np.array([[frame.left, frame.bottom], [frame.right, frame.bottom]]), "axis")
    for place, text in zip(places, scales.texts(places, unit), strict=True):
        at = float(frame.x(place))
        yield Line(np.array([[at, frame.bottom], [at, frame.bottom + 4]]), "axis")
        half = text_width(text, _SMALL) / 2
        yield Words(min(at, frame.right + 8 - half), frame.bottom + 17, text, _SMALL, "middle")
    yield Words((frame.left + frame.right) / 2, frame.bottom + 34, cut(title, room, _SMALL), _SMALL, "middle")


def _bands(frame: Frame, one: Series, number: int) -> Iterable[Shape]:
    if one.low is None or one.high is None:
        return
    x, low = _steps(one, one.low)
    _, high = _steps(one, one.high)
    known = np.isfinite(low) & np.isfinite(high)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        if end - begin > 1:
            there, back = slice(begin, end), slice(end - 1, begin - 1 if begin else None, -1)
            upper = _scaled(frame, x[there], high[there])
            lower = _scaled(frame, x[back], low[back])
            yield Area(np.concatenate((upper, lower)), colour_of(number), 0.17, series=number)


def _steps(one: Series, values: Array) -> tuple[Array, Array]:
    """A profile falls at its levels; it does not slope between them."""
    if not one.stepped:
        return one.x, values
    return np.repeat(one.x, 2)[1:], np.repeat(values, 2)[:-1]


def _placed(frame: Frame, x: Array, y: Array) -> Array:
    return _scaled(frame, *thinned(x, y))


def _scaled(frame: Frame, x: Array, y: Array) -> Array:
    inside = np.clip(np.where(np.isfinite(y), y, np.nan), *frame.y_range)
    return np.stack([np.asarray(frame.x(x)), np.asarray(frame.y(inside))], axis=1)


def thinned(x: Array, y: Array, columns: int = _MOST_COLUMNS) -> tuple[Array, Array]:
    """The lowest and the highest point of each column, in their order; all of them where they are few. What is not a
    number is not drawn."""
    if len(x) <= 2 * columns:
        return x, y
    known = np.isfinite(y)
    x, y = x[known], y[known]
    edges = np.linspace(0, len(x), columns + 1).astype(np.int64)
    places = set()
    for begin, end in pairwise(edges):
        if end > begin:
            places |= {begin + int(np.argmin(y[begin:end])), begin + int(np.argmax(y[begin:end]))}
    kept = np.array(sorted({0, *places, len(x) - 1}) if len(x) else [], dtype=np.int64)
    return x[kept], y[kept]


def _x_range(series: Sequence[Series]) -> tuple[float, float]:
    ends = [float(one.x[-1]) for one in series if len(one.x)]
    begins = [float(one.x[0]) for one in series if len(one.x)]
    low, high = min([0.0, *begins]), max([0.0, *ends])
    return (low, high) if high > low else (low, low + 1.0)


def _y_range(series: Sequence[Series]) -> tuple[float, float]:
    values = [np.asarray(part) for one in series for part in (one.y, one.low, one.high) if part is not None]
    values += [values for one in series for _, values in one.faint]
    known = np.concatenate([part[np.isfinite(part)] for part in values]) if values else np.array([])
    return scales.padded(float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


# ---- rows of dots ------------------------------------------------------------------------------------------------


def _rows(panel: DotPanel, x: float, y: float, width: float, height: float) -> list[Shape]:
    widest = max((text_width(row.label, 12) for row in panel.rows), default=0.0)
    left = x + min(width * 0.38, widest + 16)
    frame = Frame(left, x + width - 12, y + 4, y + height - 40, panel.x_range or _row_range(panel), (0.0, 1.0))
    shapes: list[Shape] = []
    for mark in scales.ticks(*frame.x_range, max(2, int((frame.right - left) / 60))):
        at = float(frame.x(mark))
        shapes.append(Line(np.array([[at, frame.top], [at, frame.bottom]]), "grid"))
    if panel.mark is not None:
        at = float(frame.x(panel.mark))
        shapes.append(Line(np.array([[at, frame.top], [at, frame.bottom]]), "muted", 1.0, dash="4 3"))
    shapes += _x_axis(frame, panel.x_title, Unit.PLAIN)
    pitch = (frame.bottom - frame.top) / max(1, len(panel.rows))
    for place, row in enumerate(panel.rows):
        shapes += _row(frame, row, frame.top + (place + 0.5) * pitch, left - 10, left - 10 - x)
    return shapes


def _row(frame: Frame, row: Row, level: float, right: float, room: float) -> Iterable[Shape]:
    colour = colour_of(row.series)
    yield Words(right, level + 4, cut(row.label, room, 12), 12, "end", "ink", series=row.series)
    if row.low is not None and row.high is not None:
        ends = np.array([[float(frame.x(row.low)), level], [float(frame.x(row.high)), level]])
        yield Line(ends, colour, 9.0, 0.28, series=row.series)
    is_crowd = len(row.dots) > _CROWD
    for number, (across, up) in enumerate(_crowded(frame, row.dots) if is_crowd else _spread(frame, row.dots)):
        hint = row.hints[number] if number < len(row.hints) else ""
        radius, outline = (2.0, False) if is_crowd else (3.4, True)
        yield Dot(across, level + up, radius, colour, 0.85, hint, outline=outline, series=row.series)
    at = float(frame.x(row.value))
    yield Line(np.array([[at, level - 10], [at, level + 10]]), colour, 2.6, series=row.series)


def _spread(frame: Frame, scores: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Where dots stand, beside the level of their row."""
    for number, score in enumerate(scores):
        yield float(frame.x(score)), 7.0 * ((number % 3) - 1) if len(scores) > 1 else 0.0


def _crowded(frame: Frame, scores: Sequence[float]) -> Iterator[tuple[float, float]]:
    """The same for many: those that share a place stand in ranks around it, so that one sees how many they are. Returns
    of 0 or 1 would be two heaps of the same size otherwise, whatever the rate of success."""
    places = [round(float(frame.x(score))) for score in scores]
    sizes, seen = Counter(places), Counter[int]()
    for place in places:
        file, rank = divmod(seen[place], _RANKS)
        seen[place] += 1
        half = (math.ceil(sizes[place] / _RANKS) - 1) / 2 * _PITCH
        centre = min(max(float(place), frame.left + half + 3), frame.right - half - 3)
        yield centre - half + file * _PITCH, (rank - (_RANKS - 1) / 2) * _PITCH


def _row_range(panel: DotPanel) -> tuple[float, float]:
    values = [value for row in panel.rows for value in (row.value, row.low, row.high, *row.dots) if value is not None]
    return scales.padded(min(values, default=0.0), max(values, default=1.0))
