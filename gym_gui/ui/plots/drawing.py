"""What a plot draws for one curve: visible points only, decimated, smoothed, on linear or logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gym_gui.ui.plots.aggregate import Band, aggregate
from gym_gui.ui.plots.decimate import BINS
from gym_gui.ui.plots.run_metrics import STEP, RunMetrics
from gym_gui.ui.plots.series_buffer import Floats


@dataclass(frozen=True)
class PlotOptions:
    """How all plots of a grid show their curves. ``smoothing`` is 0 for none, up to just below 1; ``x`` is what they
    are drawn over, as :mod:`gym_gui.ui.plots.run_metrics` names it."""

    smoothing: float = 0.0
    x: str = STEP
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Curve:
    """One run, or the seeds of one experiment that are shown as their mean. ``key`` stays while it is shown."""

    key: str
    label: str
    colour: int
    members: tuple[RunMetrics, ...]

    def having(self, tag: str, over: str = STEP) -> list[RunMetrics]:
        """The members with points of a metric that can be drawn over something."""
        known = [member for member in self.members if tag in member.series and len(member.series[tag].buffer)]
        return [member for member in known if member.has_axis(over)]

    def version(self, tag: str) -> tuple[int, ...]:
        """Changes whenever there is something new to draw."""
        return tuple(member.series[tag].buffer.version for member in self.having(tag))

    def best(self, tag: str, *, lowest: bool) -> tuple[float, float] | None:
        """(value, step) of the lowest or the highest point of any member."""
        series = [member.series[tag] for member in self.having(tag)]
        ends = [end for one in series if (end := one.low if lowest else one.high) is not None]
        return (min if lowest else max)(ends, default=None)


@dataclass(frozen=True)
class Drawing:
    """Points in the coordinates of the axes: of the curve, of its raw values behind it, and of its interval."""

    x: Floats
    y: Floats
    faint: tuple[Floats, Floats] | None = None
    band: Band | None = None


def extent(curves: Sequence[Curve], tag: str, options: PlotOptions) -> tuple[float, float] | None:
    """From the first to the last x of all curves; None while there is nothing."""
    ends = [
        (x[0], x[-1])
        for curve in curves
        for member in curve.having(tag, options.x)
        if len(x := _positive(member.x(tag, options.x), options))
    ]
    return (float(min(first for first, _ in ends)), float(max(last for _, last in ends))) if ends else None


def draw(curve: Curve, tag: str, low: float, high: float, options: PlotOptions, bins: int = BINS) -> Drawing | None:
    """The part of a curve from ``low`` to ``high`` for so many columns of pixels; None where it has nothing."""
    members = curve.having(tag, options.x)
    if not members or not high >= low:
        return None
    if len(members) > 1:
        return _on_axes(_draw_seeds(members, tag, low, high, options), options)
    member, series = members[0], members[0].series[tag]
    x = member.x(tag, options.x)

    def shown(smoothing: float) -> tuple[Floats, Floats]:
        return series.shown(x, low, high, smoothing, bins=bins, logarithmic=options.log_x)

    faint = shown(0.0) if options.smoothing > 0 else None
    return _on_axes(Drawing(*shown(options.smoothing), faint=faint), options)


def value_at(curve: Curve, tag: str, x: float, options: PlotOptions) -> float | None:
    """What a curve shows nearest to an x; None where it has no number there."""
    members = curve.having(tag, options.x)
    if len(members) > 1:
        ends = extent([curve], tag, options)
        if ends is None or not ends[0] <= x <= ends[1]:
            return None
        band = _draw_seeds(members, tag, *ends, options)
        return _nearest(band.x, band.y, x)
    if not members:
        return None
    member = members[0]
    return _nearest(member.x(tag, options.x), member.series[tag].values(options.smoothing), x)


def last_value(curve: Curve, tag: str, options: PlotOptions) -> float | None:
    ends = extent([curve], tag, options)
    return None if ends is None else value_at(curve, tag, ends[1], options)


def _draw_seeds(members: Sequence[RunMetrics], tag: str, low: float, high: float, options: PlotOptions) -> Drawing:
    curves = [(one.x(tag, options.x), one.series[tag].values(options.smoothing)) for one in members]
    band = aggregate(curves, low, high)
    return Drawing(band.x, band.mean, band=band)


def _nearest(x: Floats, y: Floats, at: float) -> float | None:
    if not len(x) or not x[0] <= at <= x[-1]:
        return None
    right = min(int(np.searchsorted(x, at)), len(x) - 1)
    left = max(0, right - 1)
    found = float(y[left] if at - x[left] < x[right] - at else y[right])
    return found if np.isfinite(found) else None


def _positive(x: Floats, options: PlotOptions) -> Floats:
    return x[np.searchsorted(x, 0, side="right") :] if options.log_x else x


def _on_axes(drawing: Drawing, options: PlotOptions) -> Drawing:
    def placed(x: Floats, y: Floats) -> tuple[Floats, Floats]:
        return (_logarithm(x) if options.log_x else x), (_logarithm(y) if options.log_y else y)

    if not (options.log_x or options.log_y):
        return drawing
    x, y = placed(drawing.x, drawing.y)
    faint = None if drawing.faint is None else placed(*drawing.faint)
    band = drawing.band
    if band is not None:
        low, high = (placed(band.x, bound)[1] for bound in (band.low, band.high))
        band = replace(band, x=x, mean=y, low=np.where(np.isnan(low) & np.isfinite(high), y, low), high=high)
    return Drawing(x, y, faint, band)


def _logarithm(values: Floats) -> Floats:
    """NaN where there is none, which leaves a gap."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log10(values)
    return np.where(np.isfinite(found), found, np.nan)
