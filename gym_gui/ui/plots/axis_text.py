"""Numbers on axes, in headers and beside the cursor: as short as they may be and still be read at a glance."""

from __future__ import annotations

import math
from datetime import datetime

from gym_gui.services.run_words import quantity

_SUFFIXES = ((1e9, "B"), (1e6, "M"), (1e3, "k"))


def steps_text(value: float, spacing: float = 0.0) -> str:
    """``250k``, ``1.5M``; with as many decimals as neighbours at ``spacing`` need to differ."""
    for unit, suffix in _SUFFIXES:
        if abs(value) >= unit:
            return f"{_trimmed(value / unit, spacing / unit)}{suffix}"
    return _trimmed(value, spacing)


def seconds_text(value: float, spacing: float = 1.0) -> str:
    """``45s``, ``3m 20s``, ``2h 05m``: time since the beginning."""
    if spacing < 1 and abs(value) < 60:
        return f"{_trimmed(value, spacing)}s"
    sign, whole = ("-" if value < -0.5 else ""), abs(round(value))
    hours, minutes, seconds = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{sign}{hours}h {minutes:02d}m" if minutes or spacing < 3600 else f"{sign}{hours}h"
    if minutes:
        return f"{sign}{minutes}m {seconds:02d}s" if seconds or spacing < 60 else f"{sign}{minutes}m"
    return f"{sign}{seconds}s"


def clock_text(value: float, spacing: float = 1.0) -> str:
    """``14:05``, ``14:05:30``, ``18 Nov``: the time of day here; of days apart the day."""
    try:
        when = datetime.fromtimestamp(value)  # noqa: DTZ006 - the time that a clock on the wall shows
    except (ValueError, OverflowError, OSError):
        return ""
    if spacing >= 86_400:
        return f"{when.day} {when:%b}"
    return f"{when:%H:%M}" if spacing >= 60 else f"{when:%H:%M:%S}"


def value_text(value: float | None) -> str:
    """A measured number with the digits that matter, a dash for none."""
    return "–" if value is None or not math.isfinite(value) else quantity(value)


def _trimmed(value: float, spacing: float) -> str:
    decimals = 3 if spacing <= 0 else max(0, min(6, math.ceil(-math.log10(spacing) - 1e-9)))
    text = f"{value:.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
