"""Whether the cockpit's memory stays flat over half an hour of streaming."""

from __future__ import annotations

from benchmarks.cockpit_streaming import BYTES_A_POINT, PAGE_SECONDS, PLOTS, ROWS_A_PAGE, measure_under_xvfb
from benchmarks.report import Line, Section, Target

NAME = "cockpit_memory"
TITLE = "The cockpit's memory over half an hour"
METHOD = f"""\
The window of the section on streaming metrics, left alone for 30 minutes (3 in a quick run) while {PLOTS} plots get
{ROWS_A_PAGE / PAGE_SECONDS:g} points a second each and the view gets 60 pictures a second. Growth is the slope of a
line through its resident memory, sampled once a second. Points are kept in full resolution at {BYTES_A_POINT} bytes, so
what arrives is part of it by design; the rest is what would be a leak."""

_MINUTES, _QUICK_MINUTES = 30, 3
_ARRIVING = PLOTS * ROWS_A_PAGE / PAGE_SECONDS * 60 * BYTES_A_POINT / 2**20


def run(*, quick: bool = False) -> Section:
    window = measure_under_xvfb(60.0 * (_QUICK_MINUTES if quick else _MINUTES))
    grown = window.megabytes_per_minute
    lines = [
        Line("Growth of memory while streaming", [grown], "MB/min"),
        Line("Of this, points that arrived", [_ARRIVING], "MB/min"),
        Line("Growth beside the points", [grown - _ARRIVING], "MB/min", Target("<", 0.5)),
        Line("Resident memory at the end", [window.resident_mb], "MB"),
        Line("Paints of the 600x400 view meanwhile", [window.frames_per_second], "FPS"),
        Line("Longest stall meanwhile", [window.longest_stall_ms], "ms"),
    ]
    return Section(NAME, TITLE, METHOD, lines)
